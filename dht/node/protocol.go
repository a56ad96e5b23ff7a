package node

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// channel is one of the overlay's protocols: messages between two members
// keep their order within one.
type channel uint8

const (
	membershipChannel channel = iota // membership and election
	locationChannel                  // who holds a file
	roundChannel                     // broadcasts and the user's bytes
	channels
)

func (c channel) String() string {
	return [channels]string{"membership", "location", "round"}[c]
}

// Protocol numbers what pilots of one site speak with each other: the queue keeps
// those of different releases apart.
const Protocol = 4

func protocolPrefix(site task.Site) string { return fmt.Sprintf("/pilotage/%d/%s", Protocol, site) }

func (c channel) protocol(site task.Site) protocol.ID {
	return protocol.ID(protocolPrefix(site) + "/" + c.String())
}

func channelOf(message dht.Message) channel {
	switch message.(type) {
	case dht.Put, dht.PutAck, dht.Find, dht.Found:
		return locationChannel
	case dht.Cast, dht.CastAck, dht.CastReply, dht.Near, dht.App:
		return roundChannel
	default:
		return membershipChannel
	}
}

// weigh estimates a message's bytes in memory.
func weigh(message dht.Message) int {
	const base, entry = 256, 128
	switch m := message.(type) {
	case dht.Cast:
		return base + len(m.Payload) + entry*(len(m.Gone)+len(m.Suspect))
	case dht.CastReply:
		weight := base + 8*len(m.Reached) + entry*len(m.Suspect)
		for _, data := range m.Data {
			weight += len(data)
		}
		return weight
	case dht.Put:
		return base + entry*len(m.Records)
	case dht.Found:
		return base + entry*(len(m.Records)+len(m.Near))
	case dht.PutAck:
		return base + entry*len(m.Near)
	case dht.Find:
		return base + entry*len(m.Files)
	case dht.App:
		return base + len(m.Data)
	default:
		return base
	}
}
