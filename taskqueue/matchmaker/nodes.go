package matchmaker

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where the queue matches tasks, it judges nodes by the rule by which a master
// does elsewhere: package health.

// moment is an instant for those who know no service clock.
func moment(i taskqueue.Instant) time.Time { return time.Unix(0, int64(i)) }

// nodes are the worker nodes of a site.
type nodes struct {
	health.Nodes
	judges bool                    // it has learned what was thought before
	unfit  map[string]health.State // as looked at last; all others are fit
}

// judges takes over what is kept of a site's nodes, once.
func (r *site) judges(now taskqueue.Instant) {
	w := &r.nodes
	if w.judges {
		return
	}
	w.judges, w.unfit = true, make(map[string]health.State)
	w.Restore(moment(now), r.record.Marks(now))
	for _, name := range w.SetBack() {
		r.lookAt(now, name)
	}
}

// noteEnd takes what speaks for or against a node.
func (r *site) noteEnd(e *taskqueue.NodeEnd) {
	if !r.nodes.judges {
		return // nobody has asked for work here
	}
	if e.OK {
		r.nodes.Succeeded(moment(e.At), e.Node)
	} else {
		r.nodes.Failed(moment(e.At), e.Node, e.What, e.Why, e.Elsewhere)
	}
	r.lookAt(e.At, e.Node)
}

// lookAt follows the health of a node and tells whether it is another than
// before. What the pilots of one that is set back were called in for others may
// have.
func (r *site) lookAt(now taskqueue.Instant, node string) bool {
	before, state := r.nodes.unfit[node], r.nodes.State(moment(now), node)
	if state == before {
		return false
	}
	if delete(r.nodes.unfit, node); state != health.Fit {
		r.nodes.unfit[node] = state
	}
	if state == health.Held {
		r.fresh = r.pool.IDs()
	}
	return true
}

// look judges the nodes of a site anew as time passes. It returns what is thought
// of those that are set back, whether that is not what the site's record says,
// and the pilots for which something has changed.
func (r *site) look(now taskqueue.Instant, site *taskqueue.SiteRecord) (marks []task.NodeMark, news bool, changed []task.PilotID) {
	if !r.nodes.judges {
		return nil, false, nil
	}
	turned := make(map[string]bool)
	for _, name := range append(r.nodes.SetBack(), slices.Collect(maps.Keys(r.nodes.unfit))...) {
		turned[name] = r.lookAt(now, name) || turned[name]
	}
	marks = r.nodes.Marks(moment(now))
	news = !site.Thinks(marks)
	for id, g := range r.pilots {
		if news || turned[g.node] {
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return marks, news, changed
}

// allowed bounds a pilot's places by the health of its node: none while it is
// set back, then one task on trial.
func (r *site) allowed(g *pilot, places task.Places, unseen int) task.Places {
	switch r.nodes.unfit[g.node] {
	case health.Held:
		places.FreeSlots, places.Prefill = 0, 0
	case health.Trial:
		places.FreeSlots, places.Prefill = min(1, places.FreeSlots), 0
		for _, other := range r.pilots {
			if unseen > 0 || other.trial != "" && other.node == g.node {
				places.FreeSlots = 0
			}
		}
	}
	return places
}

// idle is how many slots are free at pilots that may use them.
func (r *site) idle() int {
	idle := 0
	for _, g := range r.pilots {
		if r.nodes.unfit[g.node] == health.Fit {
			idle += g.places.FreeSlots
		}
	}
	return idle
}

// setBack words why a pilot gets nothing; "" is that it may get some.
func (r *site) setBack(g *pilot) string {
	if n := r.nodes.Get(g.node); n != nil && r.nodes.unfit[g.node] == health.Held {
		return task.Brief(health.Words(n.Mark(moment(g.heard))))
	}
	return ""
}
