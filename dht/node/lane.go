package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// laneMessages and laneBytes bound what waits for one peer. A peer that
	// is so far behind is not heard in time anyway.
	laneMessages = 2048
	laneBytes    = 32 << 20
	// laneIdle is after how much silence a peer's streams are closed.
	laneIdle = 30 * time.Second
	// writeTime bounds one write, with a second more per mebibyte.
	writeTime = 5 * time.Second
	// farewell bounds the wait for a peer to read a stream's rest.
	farewell = 2 * time.Second
	// keptBuffer is the largest buffer that is kept for further messages.
	keptBuffer = 64 << 10
)

// lanes are the outgoing queues, one per peer that something was sent to
// lately, each with one goroutine.
type lanes struct {
	node *Node

	mutex   sync.Mutex // guards the map and every lane's queue
	byPeer  map[task.PeerID]*lane
	closing bool
	empty   chan struct{} // closed when closing and no lane is left
}

type lane struct {
	lanes  *lanes
	peer   task.PeerID
	target destination
	wake   chan struct{}

	queue  []dht.Message // guarded by lanes.mutex
	weight int

	streams [channels]*outbound // the lane's goroutine only
}

func newLanes(n *Node) *lanes {
	return &lanes{node: n, byPeer: make(map[task.PeerID]*lane), empty: make(chan struct{})}
}

// send queues a message. It never blocks; what cannot be queued comes back to
// the core as Disconnected. Only the loop calls it.
func (ls *lanes) send(to task.PeerID, message dht.Message) {
	ls.mutex.Lock()
	defer ls.mutex.Unlock()
	l := ls.byPeer[to]
	if l == nil {
		if ls.closing {
			return // the goodbyes have been said
		}
		var err error
		if l, err = ls.open(to); err != nil {
			ls.node.log.Debug("cannot send", "peer", to, "error", err)
			ls.node.post(dht.Disconnected{Peer: to})
			return
		}
	}
	if len(l.queue) >= laneMessages || l.weight > laneBytes {
		ls.node.log.Warn("a peer does not keep up: hanging up", "peer", to, "messages", len(l.queue), "bytes", l.weight)
		l.queue, l.weight = nil, 0
		ls.node.hangUp(l.target.id)
		ls.node.post(dht.Disconnected{Peer: to})
		return
	}
	l.queue = append(l.queue, message)
	l.weight += weigh(message)
	l.rouse()
}

func (l *lane) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (ls *lanes) open(to task.PeerID) (*lane, error) {
	member, _ := ls.node.Member(to) // perhaps unknown, but connected
	member.Peer = to
	target, err := destinationOf(member)
	if err != nil {
		return nil, err
	}
	l := &lane{lanes: ls, peer: to, target: target, wake: make(chan struct{}, 1)}
	if !ls.node.life.start(l.run) {
		return nil, ErrClosed
	}
	ls.byPeer[to] = l
	ls.node.host.ConnManager().Protect(target.id, laneTag)
	return l, nil
}

// flush sends what is queued, lets every peer read it, and ends all lanes.
func (ls *lanes) flush(ctx context.Context) error {
	ls.mutex.Lock()
	if !ls.closing {
		ls.closing = true
		if len(ls.byPeer) == 0 {
			close(ls.empty)
		}
	}
	for _, l := range ls.byPeer {
		l.rouse()
	}
	ls.mutex.Unlock()
	select {
	case <-ls.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("send the last messages: %w", ctx.Err())
	}
}

func (l *lane) run() {
	idle := time.NewTimer(laneIdle)
	defer idle.Stop()
	for {
		for {
			message, found := l.next()
			if !found {
				break
			}
			l.write(message)
			idle.Reset(laneIdle)
		}
		select {
		case <-l.lanes.node.life.ctx.Done():
			l.reset()
			l.end(true)
			return
		case <-l.wake:
			if !l.lanes.isClosing() {
				continue
			}
		case <-idle.C:
		}
		if l.hasMore() {
			continue
		}
		l.finish()
		if l.end(false) {
			return
		}
		idle.Reset(laneIdle)
	}
}

func (ls *lanes) isClosing() bool {
	ls.mutex.Lock()
	defer ls.mutex.Unlock()
	return ls.closing
}

func (l *lane) hasMore() bool {
	l.lanes.mutex.Lock()
	defer l.lanes.mutex.Unlock()
	return len(l.queue) > 0
}

func (l *lane) next() (dht.Message, bool) {
	l.lanes.mutex.Lock()
	defer l.lanes.mutex.Unlock()
	if len(l.queue) == 0 || l.lanes.node.life.ctx.Err() != nil {
		return nil, false
	}
	message := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.weight -= weigh(message)
	return message, true
}

// end takes the lane out of the map unless something was queued meanwhile.
func (l *lane) end(anyway bool) bool {
	ls := l.lanes
	ls.mutex.Lock()
	defer ls.mutex.Unlock()
	if len(l.queue) > 0 && !anyway {
		return false
	}
	delete(ls.byPeer, l.peer)
	ls.node.host.ConnManager().Unprotect(l.target.id, laneTag)
	if ls.closing && len(ls.byPeer) == 0 {
		close(ls.empty)
	}
	return true
}

// buffers are shared by all lanes, of which most are silent most of the time.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// write sends one message. When that fails the order could not be kept any
// more: what is queued is dropped and the core hears of it.
func (l *lane) write(message dht.Message) {
	n := l.lanes.node
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	buffer, err := wire.Append((*kept)[:0], n.word.attach(message))
	if err != nil {
		n.log.Error("a message has no form on the wire and is dropped", "peer", l.peer, "error", err)
		return
	}
	if cap(buffer) <= keptBuffer {
		*kept = buffer
	}
	if err := l.transmit(channelOf(message), buffer); err != nil {
		n.log.Debug("sending failed", "peer", l.peer, "message", fmt.Sprintf("%T", message), "error", err)
		l.reset()
		l.drop()
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			n.hangUp(l.target.id) // it hangs: let the next attempt start afresh
		}
		n.post(dht.Disconnected{Peer: l.peer})
	}
}

func (l *lane) drop() {
	l.lanes.mutex.Lock()
	defer l.lanes.mutex.Unlock()
	l.queue, l.weight = nil, 0
}

func (l *lane) transmit(c channel, buffer []byte) error {
	stream := l.streams[c]
	if stream == nil || stream.over() {
		var err error
		if stream, err = l.openStream(c); err != nil {
			return err
		}
		l.streams[c] = stream
	}
	limit := writeTime + time.Duration(len(buffer)>>20)*time.Second
	if err := stream.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("write %d bytes: %w", len(buffer), err)
	}
	if _, err := stream.Write(buffer); err != nil {
		return fmt.Errorf("write %d bytes: %w", len(buffer), err)
	}
	return nil
}

func (l *lane) openStream(c channel) (*outbound, error) {
	n := l.lanes.node
	if !connected(n.host, l.target.id) {
		if err := n.connect(n.life.ctx, l.target); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(network.WithNoDial(n.life.ctx, "connected above"), writeTime)
	defer cancel()
	stream, err := n.host.NewStream(ctx, l.target.id, c.protocol(n.config.Site))
	if err != nil {
		return nil, fmt.Errorf("open a %s stream: %w", c, err)
	}
	return n.watch(l.peer, stream)
}

// finish ends the streams once the peer has read everything.
func (l *lane) finish() {
	for c, stream := range l.streams {
		if stream != nil {
			stream.finish(l.lanes.node.life.ctx)
			l.streams[c] = nil
		}
	}
}

func (l *lane) reset() {
	for c, stream := range l.streams {
		if stream != nil {
			stream.abandon()
			l.streams[c] = nil
		}
	}
}
