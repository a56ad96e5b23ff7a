package master

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// copies sees to it that a few other pilots hold the hand-outs, so that a new
// master can go on although the queue is away.
type copies struct {
	keepers map[task.PilotID]bool
	message message.KeepCopy // what is new
	due     time.Time
}

func (c *copies) reset() { *c = copies{keepers: make(map[task.PilotID]bool)} }

func (c *copies) add(id task.LeaseID) {
	c.message.Leases = append(c.message.Leases, task.Lease{ID: id})
}

func (c *copies) drop(id task.LeaseID) {
	same := func(other task.LeaseID) bool { return other == id }
	c.message.Leases = slices.DeleteFunc(c.message.Leases, func(l task.Lease) bool { return same(l.ID) })
	c.message.Gone = slices.DeleteFunc(c.message.Gone, func(g message.LeasedID) bool { return same(g.Lease) })
	c.message.Drop = append(c.message.Drop, id)
}

func (c *copies) gone(id message.LeasedID) { c.message.Gone = append(c.message.Gone, id) }

func (c *copies) files(file task.File) { c.message.Files = append(c.message.Files, file) }

func (c *copies) forget(pilot task.PilotID) {
	if delete(c.keepers, pilot); len(c.keepers) == 0 {
		c.due = time.Time{}
	}
}

func (c *copies) news() bool {
	m := &c.message
	return len(m.Leases) > 0 || len(m.Gone) > 0 || len(m.Drop) > 0 || len(m.Files) > 0
}

// passCopies sends what is new to the keepers, and everything to a new one.
// An empty message now and then tells them that their copies are good.
func (c *copies) passCopies(at *step, hand *handout, roster *roster, outbox *outbox) {
	if c.news() || !at.now.Before(c.due) && len(c.keepers) > 0 {
		news := c.message
		news.Term = at.term
		for i := range news.Leases {
			news.Leases[i] = hand.leaseCopy(news.Leases[i].ID)
		}
		for _, id := range slices.Sorted(maps.Keys(c.keepers)) {
			at.tell(roster.members[id], news)
		}
		c.message, c.due = message.KeepCopy{}, time.Time{}
		if len(c.keepers) > 0 {
			c.due = at.now.Add(at.config.Copies.Every)
		}
	}
	if len(c.keepers) >= at.config.Copies.Keepers || len(roster.members) <= len(c.keepers)+1 {
		return
	}
	for id, w := range byKey(roster.members) {
		if id == at.self || c.keepers[id] || !w.described || w.leaves() {
			continue
		}
		c.keepers[id] = true
		c.due = at.now.Add(at.config.Copies.Every)
		at.tell(w, hand.wholeCopy(at, outbox))
		if len(c.keepers) == at.config.Copies.Keepers {
			break
		}
	}
}

// leaseCopy is a lease as far as its tasks have not ended for good.
func (hand *handout) leaseCopy(id task.LeaseID) task.Lease {
	l := hand.leases[id]
	if l == nil {
		return task.Lease{ID: id}
	}
	copied := l.lease
	copied.Tasks = nil
	for _, leased := range l.lease.Tasks {
		if h := hand.held[leased.Task.ID]; h != nil && h.lease == id {
			copied.Tasks = append(copied.Tasks, h.LeasedTask)
		}
	}
	return copied
}

func (hand *handout) wholeCopy(at *step, outbox *outbox) message.KeepCopy {
	whole := message.KeepCopy{Term: at.term, Whole: true}
	for _, id := range slices.Sorted(maps.Keys(hand.leases)) {
		whole.Leases = append(whole.Leases, hand.leaseCopy(id))
	}
	for _, k := range byKey(hand.files) {
		if len(k.readers) > 0 && k.file.Exists() && !k.file.Producer.IsZero() && outbox.outcomes[k.file.Producer] == nil {
			whole.Files = append(whole.Files, k.file)
		}
	}
	return whole
}

// copySlack is by how much the copies of two keepers may differ in age.
const copySlack = 3

// takeCopies makes a provisional master's hand-out of what pilots have kept.
// Those that have not been spoken of for longer than others are out of date.
func (holding *holding) takeCopies(at *step, states []message.State) {
	if !at.provisional {
		return
	}
	youngest := time.Duration(-1)
	for _, s := range states {
		if len(s.Copies) > 0 && (youngest < 0 || s.CopiesAge < youngest) {
			youngest = s.CopiesAge
		}
	}
	if youngest < 0 {
		return
	}
	if heard := at.now.Add(-youngest); len(holding.site.handout.leases) == 0 || heard.After(at.heard) {
		at.heard = heard
	}
	byAge := slices.Clone(states)
	slices.SortStableFunc(byAge, func(a, b message.State) int { return cmp.Compare(a.CopiesAge, b.CopiesAge) })
	for _, s := range byAge {
		if s.CopiesAge > youngest+copySlack*at.config.Copies.Every {
			continue
		}
		for _, lease := range s.Copies {
			holding.takeCopy(at, lease)
		}
	}
	for _, s := range states {
		for _, file := range s.CopyFiles {
			holding.site.learnFile(at, &holding.outbox, file)
		}
	}
}

// takeCopy adds a kept lease, but for tasks that a younger copy has under
// another one: this one was over before, and dropping the newer for it would
// have the queue's word of that count as old news.
func (holding *holding) takeCopy(at *step, lease task.Lease) {
	known := lease.Tasks
	lease.Tasks = nil
	for _, leased := range known {
		if h := holding.site.handout.held[leased.Task.ID]; h == nil || h.lease == lease.ID {
			lease.Tasks = append(lease.Tasks, leased)
		}
	}
	holding.addLease(at, lease)
}
