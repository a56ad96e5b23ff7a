package node

import (
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// denials passes the queue's deny list on. Only masters hear it from the queue; it goes
// with their beats for a while, and to each member that introduces itself. It is safe for
// concurrent use.
type denials struct {
	site     task.Site
	verifier *identity.Verifier
	clock    func() time.Time

	mutex sync.Mutex
	known dht.Denial
	until time.Time // beats name it
}

// denyTime is for how long beats name a new deny list: some ten of them. Who misses all
// introduces itself to the master again.
const denyTime = 30 * time.Second

// learn takes a list that the queue has signed.
func (d *denials) learn(list dht.Denial) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(list.Signature) == 0 || slices.Equal(list.Peers, d.known.Peers) {
		return // a queue of an earlier release signs none
	}
	d.known, d.until = list, d.clock().Add(denyTime)
}

// attach adds the list to what tells it.
func (d *denials) attach(message dht.Message) dht.Message {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	switch m := message.(type) {
	case dht.Welcome:
		m.Denial = d.known
		return m
	case dht.Cast:
		if m.Kind == dht.CastBeat && d.clock().Before(d.until) {
			m.Denial = d.known
			return m
		}
	}
	return message
}

// check returns whom a message newly denies, and refuses one that denies somebody whom
// the queue has not.
func (d *denials) check(message dht.Message) (dht.Denial, error) {
	var told dht.Denial
	switch m := message.(type) {
	case dht.Welcome:
		told = m.Denial
	case dht.Cast:
		told = m.Denial
	}
	if !slices.ContainsFunc(told.Peers, func(peer task.PeerID) bool { return !d.verifier.IsDenied(peer) }) {
		return dht.Denial{}, nil
	}
	return told, d.verifier.VerifyDenied(d.site, told.Peers, told.Signature)
}
