package live

import (
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/record"
	"github.com/multiformats/go-multiaddr"
)

// memberBook is the peerstore that all nodes of the process share: they learn
// the same of the same members. No node takes anything out of it for others.
// Where a station listens is known from the first, so that what nodes tell one
// another of its addresses costs nothing.
type memberBook struct {
	peerstore.Peerstore
	certified peerstore.CertifiedAddrBook
	listed    sync.Map // of peer.ID: []multiaddr.Multiaddr
}

func (b *memberBook) list(id peer.ID, address multiaddr.Multiaddr) {
	b.listed.Store(id, []multiaddr.Multiaddr{address})
}

func (b *memberBook) isListed(id peer.ID) bool {
	_, listed := b.listed.Load(id)
	return listed
}

// Close leaves the book to the other nodes.
func (*memberBook) Close() error { return nil }

// RemovePeer leaves what others know.
func (*memberBook) RemovePeer(peer.ID) {}

// Addrs satisfies peerstore.AddrBook, like the methods below.
func (b *memberBook) Addrs(id peer.ID) []multiaddr.Multiaddr {
	if addresses, listed := b.listed.Load(id); listed {
		return slices.Clone(addresses.([]multiaddr.Multiaddr)) // a swarm edits it
	}
	return b.Peerstore.Addrs(id)
}

// PeerInfo satisfies peerstore.Peerstore.
func (b *memberBook) PeerInfo(id peer.ID) peer.AddrInfo {
	return peer.AddrInfo{ID: id, Addrs: b.Addrs(id)}
}

// AddAddr adds nothing to what is known of a listed peer.
func (b *memberBook) AddAddr(id peer.ID, address multiaddr.Multiaddr, ttl time.Duration) {
	b.AddAddrs(id, []multiaddr.Multiaddr{address}, ttl)
}

// AddAddrs adds nothing to what is known of a listed peer.
func (b *memberBook) AddAddrs(id peer.ID, addresses []multiaddr.Multiaddr, ttl time.Duration) {
	if !b.isListed(id) {
		b.Peerstore.AddAddrs(id, addresses, ttl)
	}
}

// UpdateAddrs lets a listed peer's address live on.
func (b *memberBook) UpdateAddrs(id peer.ID, before, after time.Duration) {
	if !b.isListed(id) {
		b.Peerstore.UpdateAddrs(id, before, after)
	}
}

// ConsumePeerRecord satisfies peerstore.CertifiedAddrBook.
func (b *memberBook) ConsumePeerRecord(envelope *record.Envelope, ttl time.Duration) (bool, error) {
	return b.certified.ConsumePeerRecord(envelope, ttl)
}

// GetPeerRecord satisfies peerstore.CertifiedAddrBook.
func (b *memberBook) GetPeerRecord(id peer.ID) *record.Envelope {
	return b.certified.GetPeerRecord(id)
}
