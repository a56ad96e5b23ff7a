package node

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// gate refuses connections before anything is spent on them: all of them
// until the pilot has joined, and for ever those of denied peers. It satisfies
// libp2p's connmgr.ConnectionGater.
type gate struct {
	open     atomic.Bool
	verifier *identity.Verifier
	pending  pending
}

func (g *gate) welcome(id peer.ID) bool {
	return g.open.Load() && !g.verifier.IsDenied(task.PeerID(id.String()))
}

func (g *gate) InterceptPeerDial(id peer.ID) bool { return g.welcome(id) }

func (g *gate) InterceptAddrDial(peer.ID, multiaddr.Multiaddr) bool { return true }

func (g *gate) InterceptAccept(c network.ConnMultiaddrs) bool {
	return g.open.Load() && g.pending.begin(c.RemoteMultiaddr(), time.Now())
}

func (g *gate) InterceptSecured(_ network.Direction, id peer.ID, c network.ConnMultiaddrs) bool {
	g.pending.end(c.RemoteMultiaddr())
	return g.welcome(id)
}

const (
	// strangersOfAddress is a part of strangers, so that one host cannot take all of
	// them: a node runs up to 256 pilots.
	strangersOfAddress = strangers / 4
	// silentTime is after which libp2p gives up a connection that shows no key.
	silentTime = 15 * time.Second
)

// pending are connections that have not shown a key yet. It is safe for concurrent use.
type pending struct {
	mutex sync.Mutex
	since map[string]map[string]time.Time // by address and port
	swept time.Time
}

// begin tells whether one more connection may come from an address.
func (p *pending) begin(from multiaddr.Multiaddr, now time.Time) bool {
	address, port := endOf(from)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if now.Sub(p.swept) > silentTime/3 {
		p.swept = now
		for from, held := range p.since {
			maps.DeleteFunc(held, func(_ string, since time.Time) bool { return now.Sub(since) > silentTime })
			if len(held) == 0 {
				delete(p.since, from)
			}
		}
	}
	held := p.since[address]
	if len(held) >= strangersOfAddress {
		return false
	}
	if held == nil {
		if p.since == nil {
			p.since = make(map[string]map[string]time.Time)
		}
		held = make(map[string]time.Time)
		p.since[address] = held
	}
	held[port] = now
	return true
}

// end takes note that a connection has shown a key.
func (p *pending) end(from multiaddr.Multiaddr) {
	address, port := endOf(from)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	held := p.since[address]
	if delete(held, port); len(held) == 0 {
		delete(p.since, address)
	}
}

// endOf splits the far end of a connection into the host's address and the rest.
func endOf(from multiaddr.Multiaddr) (address, port string) {
	host, rest := multiaddr.SplitFirst(from)
	return host.String(), rest.String()
}

// InterceptUpgraded looks once more: the peer may have been denied during the
// handshake.
func (g *gate) InterceptUpgraded(connection network.Conn) (bool, control.DisconnectReason) {
	return g.welcome(connection.RemotePeer()), 0
}
