package master

import (
	"cmp"

	"github.com/pilotage-grid/pilotage/task"
)

// pause notes why a member takes no new work, for the queue to tell people;
// "" is that it takes some.
func (o *outbox) pause(at *step, hand *handout, w *member, why string) {
	w.pause.declines = why
	o.tellPause(at, hand, w)
}

// tellPause tells the queue of a pilot's own reason, or else of the master's.
func (o *outbox) tellPause(at *step, hand *handout, w *member) {
	why := task.Brief(cmp.Or(w.pause.declines, w.pause.judged))
	if why == w.pause.stopped {
		return
	}
	w.pause.stopped = why
	o.pauses[w.id] = why
	o.syncSoon(at, hand.gatherDelay(at))
}

// passPauses gives back what no pilot has while none takes new work: others
// may run it meanwhile.
func (m *Master) passPauses() {
	if m.holding.site.roster.size.slots > 0 || m.holding.site.handout.counts.phases[waiting]+m.holding.site.handout.counts.phases[ready] == 0 || m.provisional || m.fenced || !m.holding.site.roster.census.IsZero() {
		return
	}
	stopped, _, first := m.holding.site.roster.stopped()
	if stopped == 0 || stopped < len(m.holding.site.roster.members) {
		return
	}
	for _, h := range byKey(m.holding.site.handout.held) {
		if h.phase <= ready {
			m.holding.giveBack(&m.step, h, "no pilot of the site takes work; one of them: "+first.pause.stopped)
		}
	}
}

// stopped counts the members that take no new work, and names the first of
// them by id. Whoever is on trial takes some: its slots count as others' do.
func (roster *roster) stopped() (pilots, slots int, first *member) {
	for _, w := range roster.members {
		if w.pause.stopped == "" || w.counted.slots > 0 {
			continue
		}
		pilots++
		slots += w.total.slots
		if first == nil || w.id < first.id {
			first = w
		}
	}
	return pilots, slots, first
}
