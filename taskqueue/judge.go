package taskqueue

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// Where the queue matches tasks, it judges nodes by the rule by which a master
// does elsewhere: package health.

// NodeEnd is how a payload ended at a node, or that a pilot died there with what
// it ran.
type NodeEnd struct {
	Site      task.Site
	Node      string
	What      string // the task, or the pilot
	At        Instant
	OK        bool
	Why       string   // the error
	Elsewhere []string // where the task has failed
}

// noteEnd has an accepted outcome count for the health of its node. Faults of
// storage elements and files that nobody has are no node's.
func (j *judgement) noteEnd(s *TaskState, o *task.Outcome) error {
	if !j.site.InForce().Central() || !o.OK && o.Failure != task.PayloadFailed && o.Failure != task.PilotFailed {
		return nil
	}
	end := NodeEnd{
		Site: j.site.Name, Node: j.pilots.held[o.Attempt.Pilot].Node(), What: string(s.ID), At: j.Clock, OK: o.OK, Why: o.Reason,
	}
	var err error
	if !o.OK {
		end.Elsewhere, err = j.failedAt(s)
	}
	j.Effects.Ends = append(j.Effects.Ends, end)
	return err
}

// noteDeath has a pilot's death count, once whatever it was running.
func (b *book) noteDeath(site *SiteRecord, pilot *PilotRecord, reason string) {
	if site.InForce().Central() {
		b.Effects.Ends = append(b.Effects.Ends, NodeEnd{
			Site: site.Name, Node: pilot.Node(), What: string(pilot.ID), At: b.Clock, Why: "a pilot died with what it ran: " + reason,
		})
	}
}

// Judge keeps what a Matchmaker thinks of the nodes of its site.
//
// Errors: ErrNotFound (the site).
func (r *Rules) Judge(t *Turn, name task.Site, marks []task.NodeMark) error {
	return r.apply(t, func(b *book) error {
		site, err := b.site(name)
		if err != nil || !site.InForce().Central() {
			return err
		}
		b.keepNodes(site, marks)
		return nil
	})
}

// wards are the nodes of a room.
type wards struct {
	health.Nodes
	judges bool                    // it has learned what was thought before
	unfit  map[string]health.State // as looked at last; all others are fit
	trials map[string]task.ID      // on trial, by node
}

// judges takes over what is kept of a site's nodes, once.
func (r *room) judges(now Instant) {
	w := &r.wards
	if w.judges {
		return
	}
	w.judges, w.unfit, w.trials = true, make(map[string]health.State), make(map[string]task.ID)
	w.Restore(now.moment(), r.site.marks(now))
	for _, name := range w.SetBack() {
		r.lookAt(now, name)
	}
}

// noteEnd takes what speaks for or against a node.
func (r *room) noteEnd(e *NodeEnd) {
	if !r.wards.judges {
		return // nobody has asked for work here
	}
	if r.wards.trials[e.Node] == task.ID(e.What) {
		delete(r.wards.trials, e.Node)
	}
	if e.OK {
		r.wards.Succeeded(e.At.moment(), e.Node)
	} else {
		r.wards.Failed(e.At.moment(), e.Node, e.What, e.Why, e.Elsewhere)
	}
	r.lookAt(e.At, e.Node)
}

// lookAt follows the health of a node and tells whether it is another than
// before. What the pilots of one that is set back were called in for others may
// have.
func (r *room) lookAt(now Instant, node string) bool {
	before, state := r.wards.unfit[node], r.wards.State(now.moment(), node)
	if state == before {
		return false
	}
	if delete(r.wards.unfit, node); state != health.Fit {
		r.wards.unfit[node] = state
	}
	if state == health.Held {
		r.fresh = r.pool.IDs()
	}
	return true
}

// Look judges the nodes of a site anew as time passes. It returns what is thought
// of those that are set back, whether that is not what the site's record says,
// and the pilots for which something has changed.
func (m *Matchmaker) Look(now Instant, site *SiteRecord) (marks []task.NodeMark, news bool, changed []task.PilotID) {
	r := m.rooms[site.Name]
	if r == nil || !r.wards.judges {
		return nil, false, nil
	}
	names := r.wards.SetBack()
	for name := range r.wards.unfit {
		names = append(names, name)
	}
	slices.Sort(names)
	turned := make(map[string]bool)
	for _, name := range slices.Compact(names) {
		turned[name] = r.lookAt(now, name)
		if on := r.wards.trials[name]; on != "" && r.inHand[on] == "" {
			delete(r.wards.trials, name) // it was given back, or its pilot is gone
			turned[name] = true
		}
	}
	marks = r.wards.Marks(now.moment())
	for i := range marks {
		marks[i].Why = task.Brief(marks[i].Why)
	}
	for _, n := range site.Nodes {
		turned[n.Name] = turned[n.Name] || !slices.ContainsFunc(marks, func(m task.NodeMark) bool { return m.Name == n.Name })
	}
	for _, mark := range marks {
		turned[mark.Name] = turned[mark.Name] || !slices.ContainsFunc(site.Nodes, func(n NodeRecord) bool { return n.Name == mark.Name })
	}
	for id, g := range r.guests {
		if turned[g.node] {
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	marks = marks[:min(len(marks), maxNodes)]
	return marks, !site.thinks(marks), changed
}

// allowed bounds a pilot's places by the health of its node: none while it is
// set back, then one task on trial.
func (r *room) allowed(g *guest, places task.Places, unseen int) task.Places {
	switch r.wards.unfit[g.node] {
	case health.Held:
		places.FreeSlots, places.Prefill = 0, 0
	case health.Trial:
		places.FreeSlots, places.Prefill = min(1, places.FreeSlots), 0
		if unseen > 0 || r.wards.trials[g.node] != "" {
			places.FreeSlots = 0
		}
	}
	return places
}

// fromHeld lists what pilots whose node is set back have not started.
func (r *room) fromHeld() (back []task.Revoked) {
	if len(r.wards.unfit) == 0 {
		return nil
	}
	for _, g := range r.guests {
		for _, h := range g.holding {
			if !h.Started && r.wards.unfit[g.node] == health.Held {
				back = append(back, task.Revoked{Lease: h.Lease, Task: h.Task})
			}
		}
	}
	slices.SortFunc(back, func(a, b task.Revoked) int { return cmp.Compare(a.Task, b.Task) })
	return back
}

// idle is how many slots are free at pilots that may use them.
func (r *room) idle() int {
	if len(r.wards.unfit) == 0 {
		return r.free
	}
	idle := 0
	for _, g := range r.guests {
		if r.wards.unfit[g.node] == health.Fit {
			idle += g.places.FreeSlots
		}
	}
	return idle
}

// setBack words why a guest gets nothing; "" is that it may get some.
func (r *room) setBack(g *guest) string {
	if len(r.wards.unfit) == 0 || r.wards.unfit[g.node] != health.Held {
		return ""
	}
	if n := r.wards.Get(g.node); n != nil {
		return task.Brief(health.Words(n.Mark(g.heard.moment())))
	}
	return ""
}
