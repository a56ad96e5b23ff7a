package matchmaker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// foresight has a pool keep the slots of a pilot for a task that fits nowhere, as
// masters do at other sites.
type foresight struct {
	*site
	config *taskqueue.Config
}

var _ matcher.Foresight = foresight{}

// moment is an instant for those who know no service clock.
func moment(i taskqueue.Instant) time.Time { return time.Unix(0, int64(i)) }

// Now satisfies matcher.Foresight.
func (f foresight) Now() time.Time { return moment(f.now) }

// Waited satisfies matcher.Foresight.
func (f foresight) Waited(no uint64) bool {
	w := f.pool.Numbered(no)
	return w != nil && f.Now().Sub(w.Since) >= f.config.Match.ReserveAfter
}

// Expected satisfies matcher.Foresight.
func (f foresight) Expected(no uint64) time.Duration {
	if w := f.pool.Numbered(no); w != nil {
		return f.durations.Expected(w.Task)
	}
	return matcher.UnknownRun
}

// grant is a task that a pilot was given.
type grant struct {
	task  task.Task         // what is listed of it
	since taskqueue.Instant // when it was given, or was first told to run
	began bool
}

// Occupancy satisfies matcher.Foresight. Of what a pilot has in hand those hold
// its slots that run, then those that it was given first; what this queue has
// not given itself counts as one task.
func (f foresight) Occupancy(id task.PilotID) (found matcher.Occupancy, ok bool) {
	g, self := f.pilots[id], f.pool.Pilot(id)
	if g == nil || self == nil || g.capacity.Stopped > 0 || g.capacity.Slots == 0 || f.nodes.unfit[g.node] != health.Fit {
		return found, false
	}
	found.Total, found.Slots, found.Lifetime = self.Resources, self.Slots, self.Lifetime
	given := slices.SortedFunc(maps.Values(g.given), func(a, b *grant) int {
		if a.began && !b.began {
			return -1
		}
		if b.began && !a.began {
			return 1
		}
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.task.ID, b.task.ID))
	})
	used, slots := self.Resources.Sub(g.places.Free), self.Slots-g.places.FreeSlots
	for _, known := range given[:min(max(0, slots), len(given))] {
		left := f.durations.Expected(&known.task)
		if known.began {
			left = max(0, left-f.now.Sub(known.since))
		}
		found.Running = append(found.Running, matcher.Occupant{Need: known.task.Resources, Left: left})
		used, slots = used.Sub(known.task.Resources), slots-1
	}
	for ; slots > 0; slots-- {
		found.Running = append(found.Running, matcher.Occupant{Need: used, Left: matcher.UnknownRun})
		used = task.Resources{}
	}
	return found, true
}

// give notes what a pilot was given, as far as it is known.
func (r *site) give(g *pilot, t *task.Task) {
	g.given[t.ID] = &grant{task: task.Task{
		ID: t.ID, Resources: t.Resources, Require: t.Requirement(), Rank: cmp.Or(t.Rank, r.record.Rank), Walltime: t.Walltime,
	}, since: r.now}
}

// follow notes what has become of what a pilot was given, and learns from it how
// long tasks run.
func (r *site) follow(g *pilot, p *task.Pull) {
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		if known := g.given[o.Attempt.Task]; known != nil && o.OK {
			r.durations.Learn(known.task.Class(), o.Run)
			delete(g.given, o.Attempt.Task)
		}
	}
	has := make(map[task.ID]bool, len(p.Holding))
	for _, h := range p.Holding {
		has[h.Task] = true
		if known := g.given[h.Task]; known != nil && h.Started && !known.began {
			known.began, known.since = true, r.now
		}
	}
	for id := range g.given {
		if !has[id] {
			delete(g.given, id)
		}
	}
}

// explainReserved says that slots are kept for a task, if they are.
func (r *site) explainReserved(x *taskqueue.SiteExplanation, id task.ID) bool {
	pilot, begins := r.pool.ReservedAt(id)
	if pilot == "" {
		return false
	}
	x.Why = fmt.Sprintf("slots of pilot %s are kept free for it: it needs more than the end of one task frees", pilot)
	if left := begins.Sub(moment(r.now)); left > 0 {
		x.Why += fmt.Sprintf("; it is expected to begin within %s", left.Round(time.Second))
	}
	return true
}

// ending is the most that the end of one task frees at a pilot.
func (g *pilot) ending() (most task.Resources) {
	for _, known := range g.given {
		if known.began {
			most = most.Max(known.task.Resources)
		}
	}
	return most
}
