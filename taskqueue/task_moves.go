package taskqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// move carries a task through the transition table and keeps every sum that
// depends on its state.
func (l *lifecycle) move(s *TaskState, event task.Event, reason string) {
	next, err := s.State.Next(event)
	if err != nil {
		end(fmt.Errorf("task %s: %w", s.ID, err))
	}
	w := l.workflows.need(s.ID.Workflow())
	if s.State == task.Leased {
		l.giveBack(s)
	}
	if w.Counts == nil {
		w.Counts = make(map[task.State]int)
	}
	if w.Counts[s.State]--; w.Counts[s.State] == 0 {
		delete(w.Counts, s.State)
	}
	w.Counts[next]++
	l.closeWorkflow(w)
	if s.State == task.Ready || next == task.Ready {
		l.Effects.stir(s.ID)
	}
	s.State, s.Reason, s.Changed = next, reason, l.Wall
	if next != task.Cancelled {
		s.Upstream = ""
	}
	l.tasks.touch(s.ID)
	l.Effects.tellOfTask(s)
}

// closeWorkflow dates a workflow's end and notes that it progressed.
func (l *lifecycle) closeWorkflow(w *Workflow) {
	l.workflows.touch(w.ID)
	switch over := w.Over(); {
	case over && w.Ended.IsZero():
		w.Ended, w.Closed = l.Wall, l.Clock
		l.closed = append(l.closed, w.ID)
		l.Effects.tellOfEnd(w)
	case !over && !w.Ended.IsZero():
		w.Ended, w.Closed, w.SecondLook = time.Time{}, 0, 0
	}
}

// giveBack takes a LEASED task out of its lease's and its site's sums.
func (l *lifecycle) giveBack(s *TaskState) {
	l.leases.load(s.Lease)
	if lease := l.leases.held[s.Lease]; lease != nil {
		lease.Open--
		l.leases.touch(s.Lease)
	}
	site := l.sites.need(s.Site)
	site.Leased--
	if s.Missing > 0 {
		site.Ahead--
	}
	l.sites.touch(s.Site)
	if site.abandons() {
		l.reassessAll()
	}
	s.Past = slices.DeleteFunc(s.Past, func(p PastLease) bool { return p.Site == s.Site })
	s.Past = append(s.Past, PastLease{Lease: s.Lease, Generation: s.Generation, Site: s.Site})
	s.Lease = 0
}

// leasedTo tells whether an attempt belongs to a lease, open or past, of a
// site. Leases and generations only go up, so that of those the newest of
// each site says enough: whoever holds or held that one could as well report under it.
// After a restore the queue may not know the earlier ones.
func (s *TaskState) leasedTo(site task.Site, id task.AttemptID) bool {
	if id.Lease == 0 || id.Generation == 0 {
		return false
	}
	covers := func(p PastLease) bool {
		return p.Site == site && id.Lease <= p.Lease && id.Generation <= p.Generation
	}
	return s.Lease != 0 && covers(PastLease{Site: s.Site, Lease: s.Lease, Generation: s.Generation}) || slices.ContainsFunc(s.Past, covers)
}

// knows tells whether a lease is, or was, the newest of a site that the task was in.
func (s *TaskState) knows(site task.Site, lease task.LeaseID) bool {
	was := func(p PastLease) bool { return p.Site == site && p.Lease == lease }
	return s.Lease == lease || slices.ContainsFunc(s.Past, was)
}

// lend moves a task into a lease of a site.
func (l *lifecycle) lend(s *TaskState, lease *Lease) {
	l.move(s, task.HandOut, "")
	site := l.sites.need(lease.Site)
	s.Lease, s.Site, s.Recalled = lease.ID, lease.Site, false
	lease.Open++
	l.leases.touch(lease.ID)
	site.Leased++
	if s.Missing > 0 {
		site.Ahead++
	}
	l.sites.touch(site.Name)
}

// setMissing changes a task's number of missing inputs.
func (l *lifecycle) setMissing(s *TaskState, missing int) {
	if s.State == task.Leased && (s.Missing > 0) != (missing > 0) {
		site := l.sites.need(s.Site)
		if missing > 0 {
			site.Ahead++
		} else {
			site.Ahead--
		}
		l.sites.touch(s.Site)
	}
	s.Missing = missing
	l.tasks.touch(s.ID)
}

// inputs returns the files that a task reads, each once, in order.
func inputs(spec *task.Task) []task.LFN {
	names := make([]task.LFN, 0, len(spec.Inputs))
	for _, in := range spec.Inputs {
		names = append(names, in.LFN)
	}
	if len(names) > 16 {
		seen := make(map[task.LFN]struct{}, len(names))
		return slices.DeleteFunc(names, func(name task.LFN) bool {
			_, again := seen[name]
			seen[name] = struct{}{}
			return again
		})
	}
	unique := names[:0]
	for _, name := range names {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique
}
