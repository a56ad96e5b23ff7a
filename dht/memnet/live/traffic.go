package live

import (
	"path"
	"slices"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/protocol"
)

// Traffic counts what a node has sent.
type Traffic struct{ Messages, Bytes uint64 }

// kinds of traffic, by the last part of the protocol's name: the overlay's messages
// are of the first three, "kad" is the Kademlia network, "probe" looks whether ports can
// be reached.
var kinds = [...]string{"membership", "location", "round", "probe", "kad", "other"}

type counters [len(kinds)]counter

type counter struct{ messages, bytes atomic.Uint64 }

// add books one write.
func (c *counter) add(bytes int) {
	c.messages.Add(1)
	c.bytes.Add(uint64(bytes))
}

// SentByAll is what all nodes have sent together, by kind.
func (c *Carrier) SentByAll() map[string]Traffic {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent := make(map[string]Traffic, len(kinds))
	for i, kind := range kinds {
		var t Traffic
		for _, s := range c.stations {
			t.Messages += s.traffic[i].messages.Load()
			t.Bytes += s.traffic[i].bytes.Load()
		}
		sent[kind] = t
	}
	return sent
}

func kindOf(id protocol.ID) int {
	if kind := slices.Index(kinds[:], path.Base(string(id))); kind >= 0 {
		return kind
	}
	return len(kinds) - 1
}
