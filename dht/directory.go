package dht

import (
	"sync"

	"github.com/pilotage-grid/pilotage/task"
)

// Directory keeps one copy of every member that the overlays of one process
// hear of: thousands of rosters would else hold each of thousands of members.
// It only grows. It is safe for concurrent use, and does not change what an
// overlay decides.
type Directory struct {
	mutex   sync.RWMutex
	entries map[task.PeerID]*entry // as heard of last
}

// NewDirectory returns one without members.
func NewDirectory() *Directory { return &Directory{entries: make(map[task.PeerID]*entry)} }

// Share returns a message with the directory's copies in the place of the
// members of the roster that it carries. What it returns is not to be changed.
func (d *Directory) Share(message Message) Message {
	switch m := message.(type) {
	case Welcome:
		d.share(&m.Roster)
		return m
	case Cast:
		d.share(&m.Roster)
		return m
	}
	return message
}

func (d *Directory) share(delta *RosterDelta) {
	if len(delta.Add) == 0 {
		return
	}
	delta.entries = make([]*entry, len(delta.Add))
	for i, m := range delta.Add {
		e := d.entry(m)
		delta.Add[i], delta.entries[i] = e.member, e
	}
}

func (d *Directory) entry(m Member) *entry {
	d.mutex.RLock()
	known := d.entries[m.Peer]
	d.mutex.RUnlock()
	if known != nil && known.member.equal(m) {
		return known
	}
	fresh := &entry{KeyOfPeer(m.Peer), m}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.entries[m.Peer] = fresh
	return fresh
}
