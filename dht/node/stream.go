package node

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// outbound is a stream that this node writes to. Its other direction carries
// nothing: it ends when the peer has read all, or breaks with the connection,
// which is how a loss is noticed even when nothing is being written.
type outbound struct {
	network.Stream
	given atomic.Bool   // this side has ended it
	ended chan struct{} // the other side has
}

func (n *Node) watch(to task.PeerID, stream network.Stream) (*outbound, error) {
	o := &outbound{Stream: stream, ended: make(chan struct{})}
	started := n.life.start(func() {
		defer close(o.ended)
		awaitEnd(stream)
		if !o.given.Load() {
			n.post(dht.Disconnected{Peer: to})
		}
	})
	if !started {
		_ = stream.Reset()
		return nil, ErrClosed
	}
	return o, nil
}

// awaitEnd reads a stream to its end. Nothing comes before that, so a byte is
// room enough: there are some dozen such streams for each node.
func awaitEnd(stream io.Reader) {
	var nothing [1]byte
	for {
		if _, err := stream.Read(nothing[:]); err != nil {
			return
		}
	}
}

func (o *outbound) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// finish ends the stream and waits until the peer has read it to the end.
func (o *outbound) finish(ctx context.Context) {
	o.given.Store(true)
	if err := o.CloseWrite(); err != nil {
		o.abandon()
		return
	}
	select {
	case <-o.ended:
		_ = o.Close() // both directions are at their end
	case <-time.After(farewell):
		o.abandon()
	case <-ctx.Done():
		o.abandon()
	}
}

// abandon ends the stream at once; what was not read is lost.
func (o *outbound) abandon() {
	o.given.Store(true)
	_ = o.Reset() // a stream that cannot be reset is gone already
}

// inboundStreams keeps one stream per peer and channel: a newer one takes over
// only when the older one's messages are all in, so that order is kept.
type inboundStreams struct {
	inFlight *semaphore.Weighted // bounds what was read and waits for the loop
	forged   sync.Once           // that terms were forged was said

	manager connmgr.ConnManager
	mutex   sync.Mutex
	open    map[streamKey]*inboundStream
}

type streamKey struct {
	from peer.ID
	on   channel
}

type inboundStream struct {
	stream network.Stream
	done   chan struct{}
}

func (s *inboundStreams) takeOver(key streamKey, next *inboundStream) (previous *inboundStream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	previous = s.open[key]
	s.open[key] = next
	s.manager.Protect(key.from, inboundTag+key.on.String())
	return previous
}

func (s *inboundStreams) release(key streamKey, mine *inboundStream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.open[key] == mine {
		delete(s.open, key)
		s.manager.Unprotect(key.from, inboundTag+key.on.String())
	}
	close(mine.done)
}

// receive serves a peer's stream, on a goroutine of libp2p's.
func (n *Node) receive(c channel, stream network.Stream) {
	if !n.life.enter() {
		_ = stream.Reset()
		return
	}
	defer n.life.work.Done()
	key := streamKey{stream.Conn().RemotePeer(), c}
	mine := &inboundStream{stream: stream, done: make(chan struct{})}
	defer n.streams.release(key, mine)
	if previous := n.streams.takeOver(key, mine); previous != nil {
		_ = previous.stream.Reset() // its sender has given it up
		<-previous.done
	}
	err := n.readAll(c, stream)
	if err == nil {
		_ = stream.Close() // tells the sender that all was read
		return
	}
	_ = stream.Reset()
	if errors.Is(err, wire.ErrMalformed) {
		n.log.Warn("a member sent what is no message: stream closed", "peer", key.from, "protocol", c.String(), "error", err)
	}
}

// readAhead is enough for a beat; what is longer is read past the buffer.
const readAhead = 512

func (n *Node) readAll(c channel, stream network.Stream) error {
	from := task.PeerID(stream.Conn().RemotePeer().String())
	reader := bufio.NewReaderSize(stream, readAhead)
	for {
		frame, err := wire.ReadFrame(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		message, err := wire.Decode(frame)
		if err != nil {
			return err
		}
		if channelOf(message) != c {
			return errors.Join(wire.ErrMalformed, errors.New("it belongs to the protocol "+channelOf(message).String()))
		}
		denied, err := n.word.check(message)
		if err != nil {
			n.streams.forged.Do(func() {
				n.log.Warn("a pilot names a master or a deny list that the queue has not signed: refused, and not said again", "from", from, "error", err)
			})
			continue
		}
		if len(denied.Peers) > 0 {
			n.Deny(denied)
		}
		weight := min(int64(weigh(message)), inFlight)
		if err := n.streams.inFlight.Acquire(n.life.ctx, weight); err != nil {
			return err
		}
		n.loop.Post(func() {
			n.streams.inFlight.Release(weight)
			n.step(dht.Received{From: from, Message: message})
		})
	}
}
