package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// claimTime bounds a question to the queue.
	claimTime = 5 * time.Second
	// sweepEvery is how often memberships are looked at for their end.
	sweepEvery = time.Minute
	// shortestPause keeps a deadline that has passed from turning the loop
	// into a busy one.
	shortestPause = time.Millisecond
)

// Run carries the overlay on until ctx ends or the node is closed; both are a
// regular end and return nil. It is called once, after Join.
func (n *Node) Run(ctx context.Context) error {
	if err := n.life.run(); err != nil {
		return err
	}
	defer n.life.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life.ctx, cancel)()
	sweepAt := time.Now().Add(sweepEvery)
	refreshAt := time.Now().Add(refreshEvery/2 + rand.N(refreshEvery)) // not all at once
	tick := func() {
		now := time.Now()
		if !now.Before(sweepAt) {
			sweepAt = now.Add(sweepEvery)
			for _, id := range n.membership.expired(n.clock()) {
				n.log.Info("a member's time is over: hanging up", "peer", id)
				n.hangUp(id)
			}
		}
		if !now.Before(refreshAt) {
			refreshAt = now.Add(refreshEvery)
			n.refresh()
		}
		n.step(dht.Tick{})
	}
	return n.loop.Run(ctx, tick, n.deadline, func() time.Time { return sweepAt }, func() time.Time { return refreshAt })
}

// deadline is that of the core, on the clock of this machine.
func (n *Node) deadline() time.Time {
	n.mutex.Lock()
	deadline := n.overlay.Deadline()
	n.mutex.Unlock()
	if deadline.IsZero() {
		return deadline
	}
	return time.Now().Add(max(shortestPause, deadline.Sub(n.clock())))
}

// step gives the core an event and carries its actions out. Only the loop
// calls it.
func (n *Node) step(e dht.Event) {
	n.mutex.Lock()
	actions := n.overlay.Step(n.clock(), e)
	n.mutex.Unlock()
	for _, action := range actions {
		n.carryOut(action)
	}
}

func (n *Node) carryOut(action dht.Action) {
	switch a := action.(type) {
	case dht.Send:
		n.send(a)
	case dht.Dial:
		n.dial(a)
	case dht.Lookup:
		n.life.start(func() { n.look(a) })
	case dht.Forget:
		if id, err := peer.Decode(string(a.Peer)); err == nil {
			n.routing.kad.RoutingTable().RemovePeer(id)
		}
	case dht.Claim:
		n.life.start(func() { n.claim(a) })
	case dht.Deliver:
		n.deliver(a)
	case dht.Inbound:
		n.hooks.Inbound(a.From, a.Data)
	case dht.Done:
		n.hooks.Done(a)
	case dht.MasterChanged:
		n.protected.masterChanged(a)
		n.hooks.MasterChanged(a)
	case dht.MemberUp:
		n.protected.worker(a.Member.Peer, true)
		n.hooks.MemberUp(a)
	case dht.MemberDown:
		n.protected.worker(a.Member.Peer, false)
		if id, err := peer.Decode(string(a.Member.Peer)); err == nil && !a.Left {
			n.hangUp(id) // what is open to a dead member hangs, and would be used when it is back
		}
		n.hooks.MemberDown(a)
	case dht.Located:
		n.questions.answer(a.N, a.Holders)
	case dht.Left:
		n.life.leftOnce.Do(func() { close(n.life.left) })
	}
}

// deliver hands a broadcast to the user in the form that its root gave it. One
// that has no such form is answered with nothing.
func (n *Node) deliver(a dht.Deliver) {
	payload, err := wire.UnpackPayload(a.Payload)
	if err != nil {
		n.log.Warn("a broadcast cannot be read and is dropped", "peer", a.From, "error", err)
		if a.Reply {
			n.post(dht.Reply{ID: a.ID})
		}
		return
	}
	a.Payload = payload
	n.hooks.Deliver(a)
}

// send queues a message. A goodbye is for those who are connected: to dial a
// whole site for it would keep a leaving pilot busy, and the others learn it
// from the master's beats.
func (n *Node) send(a dht.Send) {
	if bye, goodbye := a.Message.(dht.Bye); goodbye {
		id, err := peer.Decode(string(a.To))
		if err != nil || !connected(n.host, id) {
			return
		}
		if bye.Resigns.Epoch > 0 {
			bye.Resignation, bye.Resigns = n.config.Key.SignResignation(n.config.Site, bye.Resigns), task.Term{}
			a.Message = bye
		}
	}
	n.lanes.send(a.To, a.Message)
}

func (n *Node) claim(a dht.Claim) {
	ctx, cancel := context.WithTimeout(n.life.ctx, claimTime)
	defer cancel()
	a.Signature = n.word.grants.of(a.Expected.Epoch).Signature
	answer := n.hooks.Claim(ctx, a)
	if answer.Reached {
		n.word.grants.learn(answer.Term, answer.Signature)
	}
	n.post(answer)
}

// dialAnew has libp2p dial a member soon after a failure, which it would refuse.
func (n *Node) dialAnew(id peer.ID) {
	if s, ok := n.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(id)
	}
}

// dial connects to a member and tells the core how it went; a second wish
// during an attempt shares its result.
func (n *Node) dial(a dht.Dial) {
	m := a.Member
	target, err := destinationOf(m)
	if err != nil {
		n.post(dht.Dialled{Peer: m.Peer})
		return
	}
	if n.dialling[m.Peer] {
		return
	}
	n.dialling[m.Peer] = true
	n.life.start(func() {
		n.dialAnew(target.id) // the core has reasons to, and asks seldom
		if a.Afresh {
			_ = n.host.Network().ClosePeer(target.id)
		}
		err := n.connect(n.life.ctx, target)
		if err != nil {
			n.log.Debug("dial failed", "peer", m.Peer, "error", err)
		}
		n.loop.Post(func() {
			delete(n.dialling, m.Peer)
			n.step(dht.Dialled{Peer: m.Peer, OK: err == nil, Refused: refused(err)})
		})
	})
}

// refused tells whether nobody listens at any address at which a member was dialled. Where
// it can have been at several, others may have named false ones.
func refused(err error) bool {
	var dialled *swarm.DialError
	if errors.As(err, &dialled) {
		other := func(e swarm.TransportError) bool { return !errors.Is(e.Cause, syscall.ECONNREFUSED) }
		return len(dialled.DialErrors) > 0 && dialled.Skipped == 0 && !slices.ContainsFunc(dialled.DialErrors, other)
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// disconnected hears from libp2p that a connection ended. One that nobody relies on was
// perhaps trimmed at the other end; where something is on its way its lane says so.
func (n *Node) disconnected(_ network.Network, connection network.Conn) {
	id := connection.RemotePeer()
	if n.protected.relied(id) && !connected(n.host, id) {
		n.post(dht.Disconnected{Peer: task.PeerID(id.String())})
	}
}
