package master

import (
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// A node at which payloads fail and elsewhere do not is set back: its pilots get
// nothing for a while, then one task on trial. See package health.

// health of a member's node.
func (roster *roster) health(w *member) health.State { return roster.nodes.State(w.node()) }

// takesNone tells whether a member is given no new work.
func (roster *roster) takesNone(w *member) bool {
	return w.draining || roster.health(w) == health.Held
}

// noteEnd has the outcome of an attempt count for the health of its node; h is its
// task, nil if the site does not hold that.
func (roster *roster) noteEnd(at *step, w *member, o *task.Outcome, h *held) {
	if end, counts := health.Ended(w.node(), o); counts {
		roster.note(at, end, h)
	}
}

// noteUnread has a task count that was handed back because its inputs could not be read.
func (roster *roster) noteUnread(at *step, w *member, back *message.Handback, h *held) {
	roster.note(at, health.Unread(w.node(), back.Task, back.Reason), h)
}

// note has an end count. Who works for itself has no others to compare with.
func (roster *roster) note(at *step, end health.End, h *held) {
	if at.own.on {
		return
	}
	if h != nil {
		end.Elsewhere = h.Avoid
	}
	roster.nodes.Note(at.now, end)
}

// noteDeath has a pilot's death count.
func (roster *roster) noteDeath(at *step, w *member, reason string) {
	if !at.own.on {
		roster.nodes.Note(at.now, health.Died(w.node(), w.id, reason))
	}
}

// lookAtNodes follows the health of the nodes, by what was noted and as time passes.
func (site *site) lookAtNodes(at *step, outbox *outbox) {
	turned := site.roster.nodes.Look(at.now)
	if len(turned) == 0 {
		return
	}
	for _, w := range byKey(site.roster.members) {
		if slices.Contains(turned, w.node()) {
			site.followNode(at, outbox, w)
		}
	}
}

// followNode has a member get as much as the health of its node allows; what it
// was given and has not started is asked for.
func (site *site) followNode(at *step, outbox *outbox, w *member) {
	for _, j := range w.inOrder() {
		if site.roster.health(w) == health.Held && j.phase == assigned && j.held != nil {
			at.retract(j)
		}
	}
	w.pause.judged = site.roster.nodes.Words(at.now, w.node())
	outbox.tellPause(at, &site.handout, w)
	site.refreshPlaces(at, w)
}

// onTrial leaves one place to the pilots of a node that is on trial: to the first
// that has one, and none while the task is there that decides.
func (roster *roster) onTrial(w *member, places *matcher.Places) {
	places.FreeSlots, places.Prefill = roster.health(w).Allows(places.FreeSlots, places.Prefill, func() bool {
		since := roster.nodes.TrialSince(w.node())
		for _, other := range roster.members {
			if other.node() == w.node() && (other.id < w.id && !other.draining && other.freeSlots() > 0 ||
				slices.ContainsFunc(other.inOrder(), func(j *placement) bool { return !j.since.Before(since) && j.phase != over })) {
				return true
			}
		}
		return false
	})
}
