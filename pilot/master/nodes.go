package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// A node at which payloads fail and elsewhere do not is set back: its pilots get
// nothing for a while, then one task on trial. See package health.

// nodes is what the master thinks of the nodes of its site.
type nodes struct {
	health.Nodes
	marked map[task.PilotID]bool // members whose node is not fit
	due    time.Time             // when a pause is over
	judges bool                  // it has learned what its predecessor thought
}

// takesNone tells whether a member is given no new work.
func (w *member) takesNone() bool { return w.draining || w.health == health.Held }

// noteEnd has the outcome of an attempt count for the health of its node; failed
// are the nodes at which the task has failed before. Faults of storage elements
// and files that nobody has are no node's, and who works for itself has no others
// to compare with.
func (site *site) noteEnd(at *step, outbox *outbox, w *member, o *task.Outcome, failed []string) {
	switch {
	case at.own.on:
		return
	case o.OK:
		site.roster.nodes.Succeeded(at.now, w.node())
	case o.Failure == task.PayloadFailed || o.Failure == task.PilotFailed:
		site.roster.nodes.Failed(at.now, w.node(), string(o.Attempt.Task), o.Reason, failed)
	default:
		return
	}
	site.lookAtNodes(at, outbox, w)
}

// noteDeath has a pilot's death count for the health of its node, once whatever
// it was running.
func (site *site) noteDeath(at *step, outbox *outbox, w *member, reason string) {
	if !at.own.on {
		site.roster.nodes.Failed(at.now, w.node(), string(w.id), "a pilot died with what it ran: "+reason, nil)
		site.lookAtNodes(at, outbox, w)
	}
}

// lookAtNodes follows the health of those nodes that are not fit, and of a
// member's.
func (site *site) lookAtNodes(at *step, outbox *outbox, of *member) {
	for _, id := range slices.Sorted(maps.Keys(site.roster.nodes.marked)) {
		site.lookAtNode(at, outbox, site.roster.members[id])
	}
	if site.roster.nodes.State(at.now, of.node()) == of.health {
		return
	}
	for _, w := range byKey(site.roster.members) {
		if w.node() == of.node() {
			site.lookAtNode(at, outbox, w)
		}
	}
}

// passNodes looks when a pause is over.
func (site *site) passNodes(at *step, outbox *outbox) {
	if site.roster.nodes.due.IsZero() || at.now.Before(site.roster.nodes.due) {
		return
	}
	site.roster.nodes.due = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(site.roster.nodes.marked)) {
		site.lookAtNode(at, outbox, site.roster.members[id])
	}
}

// lookAtNode has a member get as much as the health of its node allows; what it
// was given and has not started is asked for.
func (site *site) lookAtNode(at *step, outbox *outbox, w *member) {
	now := site.roster.nodes.State(at.now, w.node())
	if n := site.roster.nodes.Get(w.node()); now == health.Held && (site.roster.nodes.due.IsZero() || n.Until.Before(site.roster.nodes.due)) {
		site.roster.nodes.due = n.Until
	}
	if now == w.health {
		return
	}
	w.health = now
	if delete(site.roster.nodes.marked, w.id); now != health.Fit {
		site.roster.nodes.marked[w.id] = true
	}
	for _, j := range w.inOrder() {
		if now == health.Held && j.phase == assigned && j.held != nil {
			at.retract(j)
		}
	}
	w.pause.judged = site.roster.judge(at, w)
	outbox.tellPause(at, &site.handout, w)
	site.refreshPlaces(at, w)
}

// takeNodes takes over what the master before thought of the nodes, once: after
// the first answer of the queue.
func (site *site) takeNodes(at *step, outbox *outbox, marks []task.NodeMark) {
	if site.roster.nodes.judges || at.own.on {
		return
	}
	site.roster.nodes.judges = true
	site.roster.nodes.Restore(at.now, marks)
	for _, w := range byKey(site.roster.members) {
		site.lookAtNode(at, outbox, w)
	}
}

// judge words the state of a member's node for people.
func (roster *roster) judge(at *step, w *member) string {
	n := roster.nodes.Get(w.node())
	if w.health == health.Fit || n == nil {
		return ""
	}
	return health.Words(n.Mark(at.now))
}

// onTrial leaves one place to the pilots of a node that is on trial: to the first
// that has one, and none while the task is there that decides.
func (roster *roster) onTrial(w *member, places *matcher.Places) {
	if w.health != health.Trial {
		return
	}
	places.Prefill = 0
	places.FreeSlots = min(places.FreeSlots, 1)
	since := roster.nodes.Get(w.node()).Until
	for _, other := range roster.members {
		if other.node() != w.node() {
			continue
		}
		if other.id < w.id && !other.draining && other.freeSlots() > 0 {
			places.FreeSlots = 0
		}
		for _, j := range other.placements {
			if !j.since.Before(since) && j.phase != over {
				places.FreeSlots = 0
			}
		}
	}
}
