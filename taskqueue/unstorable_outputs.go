package taskqueue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// HeldAt is the site whose caches alone have a final output; "" if a storage
// element has it too, or nobody.
func (f *FileRecord) HeldAt() task.Site {
	if !f.Final || len(f.Replicas) > 0 || len(f.Announced) == 0 {
		return ""
	}
	return f.Announced[0]
}

// countStored brings the counts of final outputs that are on no storage element up to
// date.
func (r *readiness) countStored() {
	for _, name := range slices.Sorted(maps.Keys(r.catalogue.finals)) {
		before, now := r.catalogue.finals[name], r.files.held[name].kept()
		if before.stored == now.stored {
			continue
		}
		w := r.workflows.need(name.Workflow())
		if w.Unstored++; now.stored {
			w.Unstored -= 2
		}
		r.life.closeWorkflow(w)
		before.stored = now.stored
		r.catalogue.finals[name] = before
	}
}

// countHeld brings the counts of final outputs that only caches have up to date.
func (r *readiness) countHeld() {
	if len(r.catalogue.finals) == 0 {
		return
	}
	changed := make(map[task.WorkflowID]*Workflow)
	for _, name := range slices.Sorted(maps.Keys(r.catalogue.finals)) {
		before, now := r.catalogue.finals[name].heldAt, r.files.held[name].HeldAt()
		if before == now {
			continue
		}
		w := r.workflows.need(name.Workflow())
		if w.Held == nil {
			w.Held = make(map[task.Site]int)
		}
		w.Held[before]--
		w.Held[now]++
		maps.DeleteFunc(w.Held, func(name task.Site, n int) bool { return name == "" || n <= 0 })
		changed[w.ID] = w
	}
	clear(r.catalogue.finals)
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		r.countHomeless(changed[id])
	}
}

// countHomeless counts the final outputs of a workflow that nobody can store: only
// caches of sites without a storage element have them.
func (r *readiness) countHomeless(w *Workflow) {
	r.sites.loadAll()
	w.Homeless = 0
	for name, n := range w.Held { // a sum
		if !r.sites.stores(name) {
			w.Homeless += n
		}
	}
	r.life.closeWorkflow(w)
}

// stores tells whether a site has a storage element; all are loaded.
func (r *siteRecords) stores(name task.Site) bool {
	site := r.held[name]
	return site != nil && site.SE != ""
}

// abandons tells whether nobody will read what only a site's caches have: it is
// drained, holds no task, and has no storage element.
func (s *SiteRecord) abandons() bool { return s.Draining && s.SE == "" && s.Leased <= 0 }

// loseStranded counts the inputs of a waiting task as lost that only sites have which
// abandon them, where no other site can read all of its inputs and one that is not
// drained might make them again. Readers are the sites that can read all. All is loaded
// but the makers.
func (r *readiness) loseStranded(spec *task.Task, readers []task.Site) (lost bool) {
	takes := func(name task.Site) bool { return !r.sites.held[name].Draining }
	keeps := func(name task.Site) bool { return r.sites.held[name] != nil && !r.sites.held[name].abandons() }
	if slices.ContainsFunc(readers, takes) || !slices.ContainsFunc(r.sites.names, takes) {
		return false
	}
	for _, name := range inputs(spec) {
		f := r.files.held[name]
		if len(f.Replicas) > 0 || slices.ContainsFunc(f.Announced, keeps) {
			continue
		}
		maker := r.tasks.one(f.ProducerTask)
		if maker == nil || maker.State != task.Done {
			continue
		}
		for _, site := range slices.Clone(f.Announced) {
			r.catalogue.withdraw(f, site)
		}
		lost = true
	}
	return lost
}

// judgeApart decides on a BLOCKED task whose inputs exist, but not where one site can
// read them all. What drained sites without storage have is made again elsewhere. Where
// no upload that is still to come would change it, since sites without storage have
// the rest, nothing more would ever happen to the task: it has failed.
func (r *readiness) judgeApart(s *TaskState, spec *task.Task) (apart bool) {
	names := inputs(spec)
	if s.State != task.Blocked || slices.ContainsFunc(names, func(name task.LFN) bool { return !exists(r.files.held[name]) }) {
		return false
	}
	if !r.workflows.need(s.ID.Workflow()).Sealed {
		return false
	}
	if r.loseStranded(spec, nil) {
		return true
	}
	for site := range r.sites.all() {
		if !slices.ContainsFunc(names, func(input task.LFN) bool { return !r.willRead(site, r.files.held[input]) }) {
			return false
		}
	}
	stays := slices.IndexFunc(names, func(name task.LFN) bool {
		f := r.files.held[name]
		return len(f.Replicas) == 0 && !slices.ContainsFunc(f.Announced, r.sites.stores)
	})
	if stays < 0 {
		return false // it is the operator who keeps sites from reading each other
	}
	holder := r.files.held[names[stays]].Announced[0]
	if !r.sites.live(r.sites.held[holder]) {
		return false // what it has is lost soon, and made again
	}
	r.life.giveUp(s, fmt.Sprintf("no site can read all its inputs: %s, for one, is in caches of %s alone, which has no storage element: "+
		"give it one (`pilotage site add %s --se URL`), or drain it, so that what it has is made elsewhere; then retry", names[stays].Local(), holder, holder))
	return true
}

// willRead tells whether a site can read a file, at the latest when it has been
// uploaded from the caches of a site with storage.
func (r *readiness) willRead(site *SiteRecord, f *FileRecord) bool {
	return site.Reads(f) || slices.ContainsFunc(f.Announced, func(name task.Site) bool { return r.sites.stores(name) && site.Reaches(name) })
}

// inVain tells whether making the output of a workflow again leads nowhere: the
// workflow is over, and no site could store it.
func (r *readiness) inVain(w *Workflow) bool {
	if !w.Over() {
		return false
	}
	r.sites.loadAll()
	return !slices.ContainsFunc(r.sites.names, r.sites.stores)
}

// recountHomeless does it after a site was added or changed.
func (r *readiness) recountHomeless(id task.WorkflowID) {
	w := r.workflows.need(id)
	if len(w.Held) == 0 {
		return
	}
	r.countHomeless(w)
}

// leaves tells whether a site without a storage element leaves a class to others:
// final outputs come of its tasks, and a live site that could keep these can run it.
// All sites are loaded.
func (c *classes) leaves(site *SiteRecord, class *Eligibility) bool {
	return class.Final && site.SE == "" && slices.ContainsFunc(c.sites.names, func(name task.Site) bool {
		s := c.sites.held[name]
		return s.SE != "" && class.Allows(name) && c.sites.live(s) && !c.sites.refuses(s, class.Work)
	})
}

// leavesTask tells it of a READY task.
func (why *explaining) leavesTask(site *SiteRecord, e *Explanation) bool {
	class, ok := why.classes.of(&e.Task)
	class.Final = e.State.Final
	return ok && why.classes.leaves(site, &class)
}
