package matchmaker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Stale tells whether Refresh has something to do.
func (m *Matchmaker) Stale(now taskqueue.Instant, site task.Site) bool {
	r := m.sites[site]
	if r == nil {
		return false
	}
	return m.unread(now, r) || len(r.due(now)) > 0
}

// unread tells whether all READY tasks of a site are to be read, not only those of which
// something is known.
func (m *Matchmaker) unread(now taskqueue.Instant, r *site) bool {
	return !r.filled || r.cut && r.pool.Len() < m.config.Match.Window/2 || r.later != 0 && r.later <= now
}

// lookAgain has the tasks be read again that wait for something: for another pilot, perhaps.
func (r *site) lookAgain() {
	for id := range r.again {
		r.again[id] = 0
	}
}

// due lists the tasks that are to be read again by now.
func (r *site) due(now taskqueue.Instant) (ids []task.ID) {
	for id, at := range r.again {
		if at <= now {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Refresh brings the image of a site's READY tasks up to date with what the
// turn reads, which is to be a committed state.
func (m *Matchmaker) Refresh(t *taskqueue.Turn, site task.Site) error {
	r := m.sites[site]
	if r == nil {
		return nil
	}
	return taskqueue.In(t, func(t *taskqueue.Turn) error {
		if m.unread(t.Clock, r) {
			m.fill(t, r)
		} else if ids := r.due(t.Clock); len(ids) > 0 {
			states := taskqueue.Read(t.Tasks().Load(ids...))
			for _, id := range ids {
				delete(r.again, id)
			}
			r.filled = false // should the turn end here
			m.put(t, r, states)
			r.filled = true
		}
		return nil
	})
}

// fill reads the READY tasks that the site may run, as far as the window reaches. Those that
// pause have a window of their own, in the order in which they are due: they take no room
// from the others.
func (m *Matchmaker) fill(t *taskqueue.Turn, r *site) {
	r.filled = false // should the turn end here
	ids := slices.Sorted(maps.Keys(taskqueue.Read(t.Tasks().ReadyClasses())))
	m.knowClasses(t, ids)
	clear(r.again)
	known := make(map[task.ID]bool)
	for _, window := range []int{fewFirst, m.config.Match.Window} { // no class is crowded out
		r.cut = false
		for _, id := range ids {
			if class := m.classes[id]; class == nil || !class.Allows(r.record.Name) {
				continue
			}
			states := taskqueue.Read(t.Tasks().ReadyIn(id, t.Clock, window))
			r.cut = r.cut || len(states) == window
			for i := range states {
				known[states[i].ID] = true
			}
			m.put(t, r, states)
		}
	}
	for _, id := range r.pool.IDs() {
		if !known[id] {
			r.pool.Remove(id)
		}
	}
	pausing := taskqueue.Read(t.Tasks().Pausing(t.Clock, m.config.Match.Window))
	m.put(t, r, pausing)
	if r.later = 0; len(pausing) == m.config.Match.Window {
		r.later = pausing[len(pausing)-1].NotBefore
	}
	r.filled = true
}

// fewFirst is how many tasks of each class are looked at before all others.
const fewFirst = 16

// knowClasses makes sure that eligibility classes are known; they never change,
// and those that have gone are forgotten here as well.
func (m *Matchmaker) knowClasses(t *taskqueue.Turn, ids []taskqueue.ClassID) {
	if !slices.ContainsFunc(ids, func(id taskqueue.ClassID) bool { return m.classes[id] == nil }) {
		return
	}
	all := taskqueue.Read(t.Files().Classes())
	clear(m.classes)
	for i := range all {
		m.classes[all[i].ID] = &all[i]
	}
}

// put takes tasks into the image or out of it, as their states tell.
func (m *Matchmaker) put(t *taskqueue.Turn, r *site, states []taskqueue.TaskState) {
	var classes []taskqueue.ClassID
	for i := range states {
		if states[i].State == task.Ready {
			classes = append(classes, states[i].Class)
		}
	}
	m.knowClasses(t, classes)
	var ready []*taskqueue.TaskState
	for i := range states {
		s := &states[i]
		class := m.classes[s.Class]
		may := s.State == task.Ready && class != nil && class.Allows(r.record.Name)
		var from taskqueue.Instant
		if may {
			from = m.from(t, r, s, class)
		}
		switch {
		case may && from > t.Clock:
			r.again[s.ID] = from
		case may && r.pool.Len() >= 2*m.config.Match.Window && !r.pool.Has(s.ID):
			r.cut = true
		case may:
			ready = append(ready, s)
			continue
		}
		r.pool.Remove(s.ID)
	}
	m.offer(t, r, ready)
}

// from is when a site may have a task: after its backoff, and later when
// another live site has most of its input, or could keep what it makes, or has a
// node while all of this one have failed it.
func (m *Matchmaker) from(t *taskqueue.Turn, r *site, s *taskqueue.TaskState, class *taskqueue.Eligibility) taskqueue.Instant {
	until := taskqueue.Read(taskqueue.LeftUntil(t, m.config, &r.record, s, class))
	if class.Prefer != "" && class.Prefer != r.record.Name && slices.Contains(m.live, class.Prefer) ||
		class.Final && r.record.SE == "" && slices.ContainsFunc(m.storing, class.Allows) {
		until = max(until, s.NotBefore.Add(m.config.HandOut.ShareWait))
	}
	return max(until, s.NotBefore)
}

// avoid lists the nodes of a site, where the queue matches, that are not to get
// a READY task that has failed there: while pilots at others have room for it, and for a while.
func (m *Matchmaker) avoid(t *taskqueue.Turn, r *site, s *taskqueue.TaskState, spec *task.Task) []string {
	until := s.NotBefore.Add(m.config.HandOut.ElsewhereWait)
	if until <= t.Clock {
		return nil
	}
	nodes := taskqueue.Read(taskqueue.FailedAt(t, s))
	if len(nodes) == 0 {
		return nil
	}
	for _, g := range r.pilots {
		if g.record.MayRetry(nodes, spec) && r.nodes.State(g.node()) != health.Held {
			r.again[s.ID] = until
			return nodes
		}
	}
	return nil
}

// offer puts tasks up that a site may have now.
func (m *Matchmaker) offer(t *taskqueue.Turn, r *site, ready []*taskqueue.TaskState) {
	specs, files, err := taskqueue.Inputs(t, ready)
	taskqueue.Check(err)
	for _, s := range ready {
		spec := specs[s.ID]
		if spec == nil {
			taskqueue.Check(fmt.Errorf("task %s has a state and no description: the store is damaged", s.ID))
		}
		waiting := matcher.Waiting{Task: r.listed(spec), Order: s.Seq, Priority: s.Priority, Since: moment(s.NotBefore)}
		waiting.Task.Require = matcher.Elsewhere(waiting.Task.Require, m.avoid(t, r, s, spec))
		var readable bool
		if waiting.Files, waiting.Needs, readable = r.inputs(spec, files); !readable {
			r.pool.Remove(s.ID)
			continue
		}
		r.pool.Add(waiting)
		r.fresh = append(r.fresh, s.ID)
	}
}

// listed is what expressions may look at, with the rank that the site gives to
// tasks without one.
func (r *site) listed(spec *task.Task) *task.Task {
	return &task.Task{
		ID: spec.ID, Resources: spec.Resources, Priority: spec.Priority, Walltime: spec.Walltime,
		Require: spec.Requirement(), Rank: cmp.Or(spec.Rank, r.record.Rank), Bound: spec.Bound,
	}
}

// inputs describes a task's inputs for ranking, under the keys by which pilots
// name them in their summaries. In an isolated site what no storage element
// gives must be in the pilot's own cache.
func (r *site) inputs(spec *task.Task, files map[task.LFN]*taskqueue.FileRecord) (infos []matcher.FileInfo, needs []task.FilePrint, readable bool) {
	isolated := r.record.InForce() == taskqueue.ModeIsolated
	for _, in := range spec.Inputs {
		f := files[in.LFN]
		if !r.record.Reads(f) {
			return nil, nil, false
		}
		info := matcher.FileInfo{Key: listKey(f), LFN: in.LFN, Size: f.Size, Source: task.SourceSE}
		stored := slices.ContainsFunc(f.Replicas, func(c task.Replica) bool { return r.record.Reaches(c.Site) })
		announced := slices.Contains(f.Announced, r.record.Name)
		switch {
		case isolated && !stored:
			needs = append(needs, info.Key.Print())
		case !isolated && announced:
			info.Source = task.SourcePeer
		case !slices.ContainsFunc(f.Replicas, func(c task.Replica) bool { return c.Site == r.record.Name }):
			info.Source = task.SourceRemote
		}
		infos = append(infos, info)
	}
	return infos, needs, true
}

// listKey is the key by which a task list knows a file: what a task makes by
// its name, so that it can be ranked by pilots before it exists.
func listKey(f *taskqueue.FileRecord) task.FileKey {
	if f.ProducerTask == "" && !f.Digest.IsZero() {
		return f.Key()
	}
	return task.KeyOf(f.LFN, task.Digest{})
}

// Share takes which sites count in shares, by name, and which of them have a
// storage element.
func (m *Matchmaker) Share(live, storing []task.Site) { m.live, m.storing = live, storing }

// Known tells whether any site is known.
func (m *Matchmaker) Known() bool { return len(m.sites) > 0 }

// Sites lists the sites that are known, by name.
func (m *Matchmaker) Sites() []task.Site {
	return slices.Sorted(maps.Keys(m.sites))
}

// Reset forgets the image of all READY tasks: what it was made of may not be
// what the store has.
func (m *Matchmaker) Reset() {
	for _, r := range m.sites {
		r.filled = false
	}
}

// Explain says of a site at which the queue matches tasks what keeps a READY
// task there, when it is known here.
func (m *Matchmaker) Explain(x *taskqueue.SiteExplanation, id task.ID) {
	r := m.sites[x.Site]
	if r == nil || !x.Eligible {
		return
	}
	why, lacking, known := r.pool.WhyNot(id)
	if !known {
		return
	}
	for _, c := range why.Clauses {
		x.Clauses = append(x.Clauses, task.ClauseCount{Clause: c.Clause, Pilots: c.Pilots})
	}
	switch {
	case why.Pilots > 0 && why.Feasible == 0:
		x.Eligible, x.Quoted = false, ""
		x.Why = (&taskqueue.RefusedClass{Clauses: x.Clauses, Pilots: why.Pilots}).Why()
	case lacking > 0:
		x.Quoted = ""
		x.Why = fmt.Sprintf("pilots of this site share no files (mode isolated): it waits for one whose cache has all inputs that no storage element has (%d have), or for their upload",
			why.Feasible-lacking)
	}
}
