package live

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// Traffic counts what a node has sent.
type Traffic struct{ Messages, Bytes uint64 }

// Message is one message of the overlay on the wire.
type Message struct {
	From, To task.PeerID
	Body     dht.Message
	Bytes    int // with its length, as sent: compressed
}

// kinds of traffic, by the last part of the protocol's name.
var kinds = [...]string{"membership", "location", "round", "probe", "kad", "other"}

const (
	overlayKinds = 3 // how many of them, from the first, are the overlay's own
	other        = len(kinds) - 1
)

type counters [len(kinds)]struct{ messages, bytes atomic.Uint64 }

// Sent is what a node has sent, by kind: "membership", "location" and "round"
// are the overlay's messages, "kad" is the Kademlia network, "probe" looks
// whether ports can be reached, and "other" is identify and negotiation, of
// which Messages counts writes.
func (c *Carrier) Sent(id task.PeerID) map[string]Traffic {
	sent := make(map[string]Traffic, len(kinds))
	if s := c.station(id); s != nil {
		s.addTo(sent)
	}
	return sent
}

// SentByAll is what all nodes have sent together, by kind.
func (c *Carrier) SentByAll() map[string]Traffic {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent := make(map[string]Traffic, len(kinds))
	for _, s := range c.stations {
		s.addTo(sent)
	}
	return sent
}

func (s *station) addTo(sent map[string]Traffic) {
	for i, kind := range kinds {
		t := sent[kind]
		t.Messages += s.traffic[i].messages.Load()
		t.Bytes += s.traffic[i].bytes.Load()
		sent[kind] = t
	}
}

// Watch has a function called with every message of the overlay on streams
// opened from now on, in the order of each stream, from the goroutines that
// write: it must not block, and it costs the decoding of everything. nil ends
// it.
func (c *Carrier) Watch(see func(Message)) {
	if see == nil {
		c.tap.Store(nil)
		return
	}
	c.tap.Store(&see)
}

// account books what one end of a stream writes.
type account struct {
	stream *stream

	mutex   sync.Mutex
	kind    int // -1: not known yet
	pending []byte
	watched bool
}

func (a *account) init(s *stream, known protocol.ID) {
	a.stream, a.kind = s, -1
	a.watched = s.end.station.carrier.tap.Load() != nil
	if known != "" {
		a.kind = kindOf(string(known))
	}
}

func kindOf(name string) int {
	last := name[strings.LastIndexByte(name, '/')+1:]
	for i, kind := range kinds {
		if kind == last {
			return i
		}
	}
	return other
}

// sent books one write. On a swarm's stream the first words are the
// negotiation of the protocol.
func (a *account) sent(p []byte) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.kind < 0 {
		if p = a.negotiated(p); len(p) == 0 {
			return
		}
	}
	a.count(a.kind, 1, len(p))
	if a.watched && a.kind < overlayKinds {
		a.cut(p)
	}
}

func (a *account) count(kind, messages, bytes int) {
	at := &a.stream.end.station.traffic[kind]
	at.messages.Add(uint64(messages))
	at.bytes.Add(uint64(bytes))
}

// negotiated reads the words of multistream-select, each after its length and
// with a line feed at its end, up to the protocol's name; it returns what
// follows.
func (a *account) negotiated(p []byte) []byte {
	a.count(other, 1, len(p))
	a.pending = append(a.pending, p...)
	for {
		word, rest, whole := frame(a.pending)
		if !whole {
			return nil
		}
		a.pending = rest
		name := strings.TrimSuffix(string(word), "\n")
		if strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/multistream/") {
			a.kind, a.pending = kindOf(name), nil
			return rest
		}
	}
}

// cut shows the overlay's messages to whoever watches.
func (a *account) cut(p []byte) {
	see := a.stream.end.station.carrier.tap.Load()
	if see == nil {
		a.watched, a.pending = false, nil // what follows would not begin with a message
		return
	}
	a.pending = append(a.pending, p...)
	for {
		body, rest, whole := frame(a.pending)
		if !whole {
			return
		}
		size := len(a.pending) - len(rest)
		message, err := wire.Decode(body)
		a.pending = bytes.Clone(rest)
		if err == nil {
			e := a.stream.end
			(*see)(Message{
				From: task.PeerID(e.station.id.String()), To: task.PeerID(e.other().station.id.String()),
				Body: message, Bytes: size,
			})
		}
	}
}

// frame splits off what follows its own length.
func frame(p []byte) (body, rest []byte, whole bool) {
	length, n := binary.Uvarint(p)
	if n <= 0 || uint64(len(p)-n) < length {
		return nil, p, false
	}
	return p[n : n+int(length)], p[n+int(length):], true
}
