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
func (m *Master) noteEnd(w *member, o *task.Outcome, failed []string) {
	switch {
	case m.own.on:
		return
	case o.OK:
		m.roster.nodes.Succeeded(m.now, w.node())
	case o.Failure == task.PayloadFailed || o.Failure == task.PilotFailed:
		m.roster.nodes.Failed(m.now, w.node(), string(o.Attempt.Task), o.Reason, failed)
	default:
		return
	}
	m.lookAtNodes(w)
}

// noteDeath has a pilot's death count for the health of its node, once whatever
// it was running.
func (m *Master) noteDeath(w *member, reason string) {
	if !m.own.on {
		m.roster.nodes.Failed(m.now, w.node(), string(w.id), "a pilot died with what it ran: "+reason, nil)
		m.lookAtNodes(w)
	}
}

// lookAtNodes follows the health of those nodes that are not fit, and of a
// member's.
func (m *Master) lookAtNodes(of *member) {
	for _, id := range slices.Sorted(maps.Keys(m.roster.nodes.marked)) {
		m.lookAtNode(m.roster.members[id])
	}
	if m.roster.nodes.State(m.now, of.node()) == of.health {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.roster.members)) {
		if w := m.roster.members[id]; w.node() == of.node() {
			m.lookAtNode(w)
		}
	}
}

// passNodes looks when a pause is over.
func (m *Master) passNodes() {
	if m.roster.nodes.due.IsZero() || m.now.Before(m.roster.nodes.due) {
		return
	}
	m.roster.nodes.due = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(m.roster.nodes.marked)) {
		m.lookAtNode(m.roster.members[id])
	}
}

// lookAtNode has a member get as much as the health of its node allows; what it
// was given and has not started is asked for.
func (m *Master) lookAtNode(w *member) {
	now := m.roster.nodes.State(m.now, w.node())
	if n := m.roster.nodes.Get(w.node()); now == health.Held && (m.roster.nodes.due.IsZero() || n.Until.Before(m.roster.nodes.due)) {
		m.roster.nodes.due = n.Until
	}
	if now == w.health {
		return
	}
	w.health = now
	if delete(m.roster.nodes.marked, w.id); now != health.Fit {
		m.roster.nodes.marked[w.id] = true
	}
	for _, j := range w.inOrder() {
		if now == health.Held && j.phase == assigned && j.held != nil {
			m.retract(j)
		}
	}
	w.judged = m.roster.judge(&m.step, w)
	m.outbox.tellPause(&m.step, &m.handout, w)
	m.refreshPlaces(w)
}

// takeNodes takes over what the master before thought of the nodes, once: after
// the first answer of the queue.
func (m *Master) takeNodes(marks []task.NodeMark) {
	if m.roster.nodes.judges || m.own.on {
		return
	}
	m.roster.nodes.judges = true
	m.roster.nodes.Restore(m.now, marks)
	for _, id := range slices.Sorted(maps.Keys(m.roster.members)) {
		m.lookAtNode(m.roster.members[id])
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
		for _, j := range other.jobs {
			if !j.since.Before(since) && j.phase != over {
				places.FreeSlots = 0
			}
		}
	}
}
