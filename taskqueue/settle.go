package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// alter notes that a file is about to change; it is called before the change.
func (b *book) alter(f *FileRecord) {
	if _, noted := b.existed[f.LFN]; !noted {
		b.existed[f.LFN] = exists(f)
		b.changed = append(b.changed, f.LFN)
	}
	if _, noted := b.held[f.LFN]; !noted && f.Final {
		if b.held == nil {
			b.held = make(map[task.LFN]task.Site)
		}
		b.held[f.LFN] = f.HeldAt()
	}
	delete(b.readable, f.LFN)
	b.files.touch(f.LFN)
}

// announce notes that a site's caches hold a file.
func (b *book) announce(f *FileRecord, site task.Site) {
	if slices.Contains(f.Announced, site) {
		return
	}
	b.alter(f)
	f.Announced = append(f.Announced, site)
	slices.Sort(f.Announced)
	f.Lost = false
}

// withdraw notes that no cache of a site holds a file any more.
func (b *book) withdraw(f *FileRecord, site task.Site) {
	if !slices.Contains(f.Announced, site) {
		return
	}
	b.alter(f)
	f.Announced = slices.DeleteFunc(f.Announced, func(s task.Site) bool { return s == site })
	f.Lost = !exists(f)
}

// replicate adds a copy on a storage element. A misplaced one, which only a
// pilot with another idea of its site's storage reports, is no copy.
func (b *book) replicate(f *FileRecord, replica task.Replica) error {
	site, err := b.site(replica.Site)
	if err != nil {
		return err
	}
	if site.misplaced(replica) != "" {
		return nil
	}
	if replica.URL == "" {
		return nil
	}
	b.trust(f)
	if f.ReplicaAt(replica.URL) >= 0 {
		return nil
	}
	b.alter(f)
	f.Replicas = append(f.Replicas, replica)
	f.Lost, f.Struck = false, false
	if err := b.clearBad(f); err != nil {
		return err
	}
	if !f.Final || len(f.Replicas) > 1 {
		return nil
	}
	w, err := b.workflow(workflowOf(f.LFN))
	if err != nil {
		return err
	}
	w.Unstored--
	b.closeWorkflow(w)
	return nil
}

// settle carries every change of files over to the tasks that read them, and
// judges anew the readiness of all tasks that ask for it, until nothing is
// left to judge.
func (b *book) settle() error {
	for len(b.changed)+len(b.reviews)+len(b.remaking)+len(b.ended) > 0 {
		for _, stage := range []func() error{b.countMissing, b.cancelDependants, b.reviewAll, b.remakeAll} {
			if err := stage(); err != nil {
				return err
			}
		}
	}
	if err := b.countHeld(); err != nil {
		return err
	}
	return b.wakeArisen()
}

// countMissing brings the missing counts of the readers of changed files up
// to date and asks for the review of those that it may move.
func (b *book) countMissing() error {
	changed := b.changed
	b.changed = nil
	reads := make([][]task.ID, len(changed))
	var all []task.ID
	for i, name := range changed {
		if b.files.held[name].Uses == 0 {
			continue
		}
		ids, err := b.Files().Readers(name)
		if err != nil {
			return fmt.Errorf("load the readers of %s: %w", name, err)
		}
		reads[i] = ids
		all = append(all, ids...)
	}
	if err := b.loadTasks(all...); err != nil {
		return err
	}
	if len(all) > 0 {
		if err := b.loadSites(); err != nil {
			return err
		}
	}
	for i, name := range changed {
		f, before := b.files.held[name], b.existed[name]
		delete(b.existed, name)
		if !exists(f) {
			b.remakeFinal(f)
		}
		for _, id := range reads[i] {
			if err := b.carryOver(f, before, b.tasks.held[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// carryOver applies one file's change to one of its readers.
func (b *book) carryOver(f *FileRecord, before bool, s *TaskState) error {
	if s == nil {
		return nil
	}
	now := exists(f)
	if now != before {
		missing := s.Missing - 1
		if before {
			missing = s.Missing + 1
		}
		if err := b.setMissing(s, missing); err != nil {
			return err
		}
	}
	switch {
	case s.State == task.Blocked && s.Missing > 0 && !before && now:
		b.walkable = append(b.walkable, s.ID)
	case s.State == task.Blocked:
		b.review(s.ID)
	case s.State == task.Ready:
		b.stir(s.ID) // another file may be read at other places
		b.review(s.ID)
	case s.State == task.Leased && !before && now && !slices.Contains(f.Announced, s.Site):
		// Its master waits for a file that its own pilots were to make.
		b.uninformed[s.ID] = struct{}{}
		b.review(s.ID)
	case s.State == task.Leased && !b.sites.held[s.Site].Reads(f):
		b.review(s.ID)
	}
	return nil
}

// reviewAll judges the readiness of the tasks that ask for it.
func (b *book) reviewAll() error {
	ids := b.reviews
	b.reviews = nil
	clear(b.reviewing)
	if len(ids) == 0 {
		return nil
	}
	if err := b.loadReview(ids); err != nil {
		return err
	}
	for _, id := range ids {
		s := b.tasks.held[id]
		if s == nil || s.State.Terminal() {
			continue
		}
		spec := b.specs.held[id]
		if spec == nil {
			return fmt.Errorf("task %s has a state and no description: the store is damaged", id)
		}
		if err := b.judgeReadiness(s, spec); err != nil {
			return err
		}
	}
	return nil
}

// loadReview loads what the review of tasks looks at, set by set.
func (b *book) loadReview(ids []task.ID) error {
	if err := b.loadSites(); err != nil {
		return err
	}
	if err := b.loadTasks(ids...); err != nil {
		return err
	}
	var open []task.ID
	for _, id := range ids {
		if s := b.tasks.held[id]; s != nil && !s.State.Terminal() {
			open = append(open, id)
		}
	}
	return b.loadInputs(open)
}

// loadInputs loads descriptions, input files, and the makers of what is
// missing.
func (b *book) loadInputs(ids []task.ID) error {
	if err := b.describe(ids...); err != nil {
		return err
	}
	var names []task.LFN
	for _, id := range ids {
		if spec := b.specs.held[id]; spec != nil {
			for _, in := range spec.Inputs {
				names = append(names, in.LFN)
			}
		}
	}
	if err := b.loadFiles(names...); err != nil {
		return err
	}
	var makers []task.ID
	for _, name := range names {
		if f := b.files.held[name]; f != nil && !exists(f) && f.ProducerTask != "" {
			makers = append(makers, f.ProducerTask)
		}
	}
	return b.loadTasks(makers...)
}

// judgeReadiness moves one open task to where its inputs allow it to be.
func (b *book) judgeReadiness(s *TaskState, spec *task.Task) error {
	if s.State == task.Leased {
		stays, err := b.mayStay(s, spec)
		if err != nil || stays {
			return err
		}
		b.revoke(s.Site, s.Lease, s.ID, false)
		if err := b.move(s, task.InputsLost, "an input is not made at "+string(s.Site)+" any more"); err != nil {
			return err
		}
	}
	class, ok := b.eligibility(spec)
	if !ok {
		if s.State == task.Ready {
			if err := b.move(s, task.InputsLost, "an input is gone"); err != nil {
				return err
			}
		}
		return b.askMakers(s, spec)
	}
	w, err := b.workflow(s.ID.Workflow())
	if err != nil {
		return err
	}
	if !w.Sealed {
		return nil
	}
	class.Final = s.Final
	id, err := b.intern(class)
	if err != nil {
		return err
	}
	if s.State == task.Blocked {
		return b.release(s, id)
	}
	if s.Class != id {
		b.stir(s.ID)
		s.Class = id
		b.tasks.touch(s.ID)
		b.arise(id)
	}
	return nil
}

// release makes a BLOCKED task READY in a class.
func (b *book) release(s *TaskState, class ClassID) error {
	if err := b.move(s, task.InputsExist, ""); err != nil {
		return err
	}
	s.NotBefore, s.Class = max(s.NotBefore, b.Clock), class
	b.arise(class)
	return nil
}

// arise notes that there is more work of a class.
func (b *book) arise(class ClassID) {
	if b.arisen == nil {
		b.arisen = make(map[ClassID]struct{})
	}
	b.arisen[class] = struct{}{}
}

// wakeArisen wakes the sites that would take work of the classes that have
// arisen.
func (b *book) wakeArisen() error {
	if len(b.arisen) == 0 {
		return nil
	}
	if err := b.loadSites(); err != nil {
		return err
	}
	if err := b.loadClasses(); err != nil {
		return err
	}
	for id := range b.arisen { // what is woken is a set
		if class := b.classes.byID[id]; class != nil {
			b.wakeFor(class)
		}
	}
	clear(b.arisen)
	return nil
}

// mayStay tells whether a LEASED task may stay with its site: it runs, or the
// site can read each input, and knows of it, or makes it itself.
func (b *book) mayStay(s *TaskState, spec *task.Task) (bool, error) {
	site := b.sites.held[s.Site]
	if _, waits := b.uninformed[s.ID]; waits {
		delete(b.uninformed, s.ID)
		return b.started(s)
	}
	for _, name := range inputs(spec) {
		f := b.files.held[name]
		if site.Reads(f) {
			continue
		}
		if f != nil && !exists(f) && f.ProducerTask != "" {
			if maker := b.tasks.held[f.ProducerTask]; maker != nil && maker.State == task.Leased && maker.Site == s.Site {
				continue
			}
		}
		return b.started(s)
	}
	return true, nil
}

// started tells whether an attempt of a LEASED task is known to run under its
// lease.
func (b *book) started(s *TaskState) (bool, error) {
	attempts, err := b.attemptsOf(s.ID)
	return slices.ContainsFunc(attempts, func(a *Attempt) bool {
		id := a.Outcome.Attempt
		return a.State == AttemptRunning && id.Lease == s.Lease && id.Generation == s.Generation
	}), err
}

// attemptsOf lists the attempts of a task as this turn knows them, first those
// that it has not touched.
func (b *book) attemptsOf(id task.ID) (attempts []*Attempt, err error) {
	stored, err := b.Attempts().OfTask(id)
	if err != nil {
		return nil, fmt.Errorf("load attempts of %s: %w", id, err)
	}
	for i := range stored {
		if _, touched := b.attempts.changed[stored[i].Outcome.Attempt]; !touched {
			attempts = append(attempts, &stored[i])
		}
	}
	for _, held := range b.attempts.order {
		if a := b.attempts.held[held]; a != nil && held.Task == id {
			attempts = append(attempts, a)
		}
	}
	return attempts, nil
}

// wakeFor wakes the sites that would take work of a class.
func (b *book) wakeFor(class *Eligibility) {
	names := class.Sites
	if names == nil {
		names = b.siteNames
	}
	for _, name := range names {
		if site := b.sites.held[name]; site != nil && site.Pilots > 0 && !site.Draining &&
			site.Leased-site.Ahead < 2*site.slots() {
			b.wake(name)
		}
	}
}

// workflowOf returns the workflow that a qualified name belongs to.
func workflowOf(name task.LFN) task.WorkflowID {
	local := name.Local()
	return task.WorkflowID(name[:max(0, len(name)-len(local)-1)])
}
