package matchmaker

import (
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

// look follows the health of the site's nodes. What the pilots of one that is set back
// were called in for others may have.
func (r *site) look(now taskqueue.Instant) {
	for _, node := range r.nodes.Look(moment(now)) {
		r.turned[node] = true
		if r.nodes.State(node) == health.Held {
			r.fresh = r.pool.IDs()
		}
	}
}

// judged returns what is thought of the nodes of a site that are set back, whether
// that is not what the site's record says, and the pilots for which something has
// changed.
func (r *site) judged(now taskqueue.Instant, site *taskqueue.SiteRecord) (marks []task.NodeMark, news bool, changed []task.PilotID) {
	if !r.nodes.Restored() {
		return nil, false, nil
	}
	r.look(now)
	marks = r.nodes.Marks(moment(now))
	news = !site.Thinks(marks)
	for id, g := range r.pilots {
		if news || r.turned[g.node()] {
			changed = append(changed, id)
		}
	}
	clear(r.turned)
	slices.Sort(changed)
	return marks, news, changed
}

// allowed bounds a pilot's places by the health of its node. One that is not proven gets
// nothing early: its pilot would start that before the queue knows how the first has ended.
func (r *site) allowed(g *pilot, places task.Places, unseen int) task.Places {
	if !r.nodes.Proven(g.node()) {
		places.Prefill = 0
	}
	places.FreeSlots, places.Prefill = r.nodes.State(g.node()).Allows(places.FreeSlots, places.Prefill, func() bool {
		for _, other := range r.pilots {
			if unseen > 0 || other.trial != "" && other.node() == g.node() {
				return true
			}
		}
		return false
	})
	return places
}

// idle is how many slots are free at pilots that may use them.
func (r *site) idle() int {
	idle := 0
	for _, g := range r.pilots {
		if r.nodes.State(g.node()) == health.Fit {
			idle += g.places.FreeSlots
		}
	}
	return idle
}

// setBack words why a pilot gets nothing; "" is that it may get some.
func (r *site) setBack(g *pilot) string {
	if r.nodes.State(g.node()) != health.Held {
		return ""
	}
	return task.Brief(r.nodes.Words(moment(g.heard), g.node()))
}
