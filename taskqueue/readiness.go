package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// catalogue keeps who has which file: caches of sites, and copies on storage elements.
type catalogue struct {
	*records
	readable map[task.LFN]siteSet
	existed  map[task.LFN]bool // files changed since the last settling: did they exist then
	changed  []task.LFN        // the same in order
	finals   map[task.LFN]kept // final outputs that changed since then: where they were
	gone     []task.LFN        // entries whose copies and readers have gone
}

// kept is where a final output is kept: on a storage element, or in the caches of a
// site alone.
type kept struct {
	stored bool
	heldAt task.Site
}

func (f *FileRecord) kept() kept { return kept{len(f.Replicas) > 0, f.HeldAt()} }

func newCatalogue(records *records) catalogue {
	return catalogue{
		records: records, readable: make(map[task.LFN]siteSet), existed: make(map[task.LFN]bool), finals: make(map[task.LFN]kept),
	}
}

// alter notes that a file is about to change; it is called before the change.
func (c *catalogue) alter(f *FileRecord) {
	if _, noted := c.existed[f.LFN]; !noted {
		c.existed[f.LFN] = exists(f)
		c.changed = append(c.changed, f.LFN)
	}
	if _, noted := c.finals[f.LFN]; !noted && f.Final {
		c.finals[f.LFN] = f.kept()
	}
	delete(c.readable, f.LFN)
	c.files.touch(f.LFN)
}

// announce notes that a site's caches hold a file.
func (c *catalogue) announce(f *FileRecord, site task.Site) {
	if slices.Contains(f.Announced, site) {
		return
	}
	c.alter(f)
	f.Announced = append(f.Announced, site)
	slices.Sort(f.Announced)
	f.Going = Stays
}

// withdraw notes that no cache of a site holds a file any more.
func (c *catalogue) withdraw(f *FileRecord, site task.Site) {
	if !slices.Contains(f.Announced, site) {
		return
	}
	c.alter(f)
	f.Announced = slices.DeleteFunc(f.Announced, func(s task.Site) bool { return s == site })
	c.settleGoing(f)
}

// replicate adds a copy on a storage element. A misplaced one, which only a
// pilot with another idea of its site's storage reports, is no copy.
func (c *catalogue) replicate(f *FileRecord, replica task.Replica) {
	site := c.sites.need(replica.Site)
	if site.misplaced(replica) != "" {
		return
	}
	if replica.URL == "" {
		return
	}
	c.trust(f)
	if f.ReplicaAt(replica.URL) >= 0 {
		return
	}
	c.alter(f)
	f.Replicas = append(f.Replicas, replica)
	f.Struck, f.Going = false, Stays
	c.discardBad(f)
}

// readiness judges which tasks can run, by what exists, and has made again what was
// lost and is needed.
type readiness struct {
	*records
	life      *lifecycle
	catalogue *catalogue
	classes   *classes
}

// settle carries every change of files over to the tasks that read them, and
// judges anew the readiness of all tasks that ask for it, until nothing is
// left to judge.
func (r *readiness) settle() {
	for len(r.catalogue.changed)+len(r.life.reviews)+len(r.life.remaking)+len(r.life.ended) > 0 {
		r.countStored()
		r.countMissing()
		r.cancelDependants()
		r.reviewAll()
		r.remakeAll()
	}
	r.countHeld()
	r.wakeArisen()
}

// countMissing brings the missing counts of the readers of changed files up
// to date and asks for the review of those that it may move.
func (r *readiness) countMissing() {
	changed := r.catalogue.changed
	r.catalogue.changed = nil
	reads := make([][]task.ID, len(changed))
	var all []task.ID
	for i, name := range changed {
		if r.files.held[name].Uses == 0 {
			continue
		}
		ids := read(r.Files().Readers(name))
		reads[i] = ids
		all = append(all, ids...)
	}
	r.tasks.load(all...)
	if len(all) > 0 {
		r.sites.loadAll()
	}
	for i, name := range changed {
		f, before := r.files.held[name], r.catalogue.existed[name]
		delete(r.catalogue.existed, name)
		if lost := !exists(f) && (before || f.Lost); lost != f.Lost {
			f.Lost = lost
			r.files.touch(name)
		}
		if !exists(f) {
			r.remakeFinal(f)
		}
		for _, id := range reads[i] {
			r.carryOver(f, before, r.tasks.held[id])
		}
	}
}

// carryOver applies one file's change to one of its readers.
func (r *readiness) carryOver(f *FileRecord, before bool, s *TaskState) {
	if s == nil {
		return
	}
	now := exists(f)
	if now != before {
		missing := s.Missing - 1
		if before {
			missing = s.Missing + 1
		}
		r.life.setMissing(s, missing)
	}
	switch {
	case s.State == task.Blocked && s.Missing > 0 && !before && now:
		r.life.walkable = append(r.life.walkable, s.ID)
	case s.State == task.Blocked:
		r.life.review(s.ID)
	case s.State == task.Ready:
		r.Effects.stir(s.ID) // another file may be read at other places
		r.life.review(s.ID)
	case s.State == task.Leased && !before && now && !slices.Contains(f.Announced, s.Site):
		// Its master waits for a file that its own pilots were to make.
		r.life.uninformed[s.ID] = struct{}{}
		r.life.review(s.ID)
	case s.State == task.Leased && !r.sites.held[s.Site].Reads(f):
		r.life.review(s.ID)
	}
}

// reviewAll judges the readiness of the tasks that ask for it.
func (r *readiness) reviewAll() {
	ids := r.life.reviews
	r.life.reviews = nil
	clear(r.life.reviewing)
	if len(ids) == 0 {
		return
	}
	r.loadReview(ids)
	for _, id := range ids {
		s := r.tasks.held[id]
		if s == nil || s.State.Terminal() {
			continue
		}
		spec := r.specs.held[id]
		if spec == nil {
			end(fmt.Errorf("task %s has a state and no description: the store is damaged", id))
		}
		r.judgeReadiness(s, spec)
	}
}

// loadReview loads what the review of tasks looks at, set by set.
func (r *readiness) loadReview(ids []task.ID) {
	r.sites.loadAll()
	r.tasks.load(ids...)
	var open []task.ID
	for _, id := range ids {
		if s := r.tasks.held[id]; s != nil && !s.State.Terminal() {
			open = append(open, id)
		}
	}
	r.loadInputs(open)
}

// loadInputs loads descriptions, input files, and the makers of what is
// missing.
func (r *records) loadInputs(ids []task.ID) {
	r.specs.load(ids...)
	var names []task.LFN
	for _, id := range ids {
		if spec := r.specs.held[id]; spec != nil {
			for _, in := range spec.Inputs {
				names = append(names, in.LFN)
			}
		}
	}
	r.files.load(names...)
	var makers []task.ID
	for _, name := range names {
		if f := r.files.held[name]; f != nil && !exists(f) && f.ProducerTask != "" {
			makers = append(makers, f.ProducerTask)
		}
	}
	r.tasks.load(makers...)
}

// judgeReadiness moves one open task to where its inputs allow it to be.
func (r *readiness) judgeReadiness(s *TaskState, spec *task.Task) {
	if s.State == task.Leased {
		if r.mayStay(s, spec) {
			return
		}
		r.life.revoke(s.Site, s.Lease, s.ID, false)
		r.life.move(s, task.InputsLost, "an input is not made at "+string(s.Site)+" any more")
	}
	class, ok := r.classes.of(spec)
	if !ok {
		if s.State == task.Ready {
			r.life.move(s, task.InputsLost, "an input is gone")
		}
		if !r.judgeApart(s, spec) {
			r.askMakers(s, spec)
		}
		return
	}
	w := r.workflows.need(s.ID.Workflow())
	if !w.Sealed {
		return
	}
	if class.Sites != nil && r.loseStranded(spec, class.Sites) {
		return
	}
	class.Final = s.Final
	id := r.classes.intern(class)
	if s.State == task.Blocked {
		r.life.release(s, id)
		return
	}
	if s.Class != id {
		r.Effects.stir(s.ID)
		s.Class = id
		r.tasks.touch(s.ID)
		r.life.arise(id)
	}
}

// release makes a BLOCKED task READY in a class.
func (l *lifecycle) release(s *TaskState, class ClassID) {
	l.move(s, task.InputsExist, "")
	s.NotBefore, s.Class = max(s.NotBefore, l.Clock), class
	l.arise(class)
}

// arise notes that there is more work of a class.
func (l *lifecycle) arise(class ClassID) {
	if l.arisen == nil {
		l.arisen = make(map[ClassID]struct{})
	}
	l.arisen[class] = struct{}{}
}

// wakeArisen wakes the sites that would take work of the classes that have
// arisen.
func (r *readiness) wakeArisen() {
	if len(r.life.arisen) == 0 {
		return
	}
	r.sites.loadAll()
	r.classes.load()
	for id := range r.life.arisen { // what is woken is a set
		if class := r.classes.known.byID[id]; class != nil {
			r.classes.wakeFor(class)
		}
	}
	clear(r.life.arisen)
}

// mayStay tells whether a LEASED task may stay with its site: it runs, or the
// site can read each input, and knows of it, or makes it itself.
func (r *readiness) mayStay(s *TaskState, spec *task.Task) bool {
	site := r.sites.held[s.Site]
	if _, waits := r.life.uninformed[s.ID]; waits {
		delete(r.life.uninformed, s.ID)
		return r.attempts.started(s)
	}
	for _, name := range inputs(spec) {
		f := r.files.held[name]
		if site.Reads(f) {
			continue
		}
		if f != nil && !exists(f) && f.ProducerTask != "" {
			if maker := r.tasks.held[f.ProducerTask]; maker != nil && maker.State == task.Leased && maker.Site == s.Site {
				continue
			}
		}
		return r.attempts.started(s)
	}
	return true
}

// started tells whether an attempt of a LEASED task is known to run under its
// lease.
func (r *attemptRecords) started(s *TaskState) bool {
	attempts := r.ofTask(s.ID)
	return slices.ContainsFunc(attempts, func(a *Attempt) bool {
		id := a.Outcome.Attempt
		return a.State == AttemptRunning && id.Lease == s.Lease && id.Generation == s.Generation
	})
}

// ofTask lists the attempts of a task as this turn knows them, first those
// that it has not touched.
func (r *attemptRecords) ofTask(id task.ID) (attempts []*Attempt) {
	stored := read(r.turn.Attempts().OfTask(id))
	for i := range stored {
		if _, touched := r.changed[stored[i].Outcome.Attempt]; !touched {
			attempts = append(attempts, &stored[i])
		}
	}
	for _, held := range r.order {
		if a := r.held[held]; a != nil && held.Task == id {
			attempts = append(attempts, a)
		}
	}
	return attempts
}

// wakeFor wakes the sites that would take work of a class.
func (c *classes) wakeFor(class *Eligibility) {
	names := class.Sites
	if names == nil {
		names = c.sites.names
	}
	for _, name := range names {
		if site := c.sites.held[name]; site != nil && site.Pilots > 0 && !site.Draining &&
			site.Leased-site.Ahead < 2*site.slots() {
			c.Effects.wake(name)
		}
	}
}
