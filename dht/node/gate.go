package node

import (
	"sync/atomic"

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
}

func (g *gate) welcome(id peer.ID) bool {
	return g.open.Load() && !g.verifier.IsDenied(task.PeerID(id.String()))
}

func (g *gate) InterceptPeerDial(id peer.ID) bool { return g.welcome(id) }

func (g *gate) InterceptAddrDial(peer.ID, multiaddr.Multiaddr) bool { return true }

func (g *gate) InterceptAccept(network.ConnMultiaddrs) bool { return g.open.Load() }

func (g *gate) InterceptSecured(_ network.Direction, id peer.ID, _ network.ConnMultiaddrs) bool {
	return g.welcome(id)
}

// InterceptUpgraded looks once more: the peer may have been denied during the
// handshake.
func (g *gate) InterceptUpgraded(connection network.Conn) (bool, control.DisconnectReason) {
	return g.welcome(connection.RemotePeer()), 0
}
