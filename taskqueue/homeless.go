package taskqueue

import (
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

// countHeld brings the counts of the workflows whose final outputs have changed up
// to date.
func (b *book) countHeld() error {
	names := slices.Sorted(maps.Keys(b.held))
	changed := make(map[task.WorkflowID]*Workflow)
	for _, name := range names {
		before, now := b.held[name], b.files.held[name].HeldAt()
		if before == now {
			continue
		}
		w, err := b.workflow(workflowOf(name))
		if err != nil {
			return err
		}
		if w.Held == nil {
			w.Held = make(map[task.Site]int)
		}
		if now != "" {
			w.Held[now]++
		}
		if before != "" {
			if w.Held[before]--; w.Held[before] <= 0 {
				delete(w.Held, before)
			}
		}
		changed[w.ID] = w
	}
	clear(b.held)
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		if err := b.countHomeless(changed[id]); err != nil {
			return err
		}
	}
	return nil
}

// countHomeless counts the final outputs of a workflow that nobody can store: only
// caches of sites without a storage element have them.
func (b *book) countHomeless(w *Workflow) error {
	if err := b.loadSites(); err != nil {
		return err
	}
	w.Homeless = 0
	for name, n := range w.Held { // a sum
		if !b.stores(name) {
			w.Homeless += n
		}
	}
	b.closeWorkflow(w)
	return nil
}

// stores tells whether a site has a storage element; all are loaded.
func (b *book) stores(name task.Site) bool {
	site := b.sites.held[name]
	return site != nil && site.SE != ""
}

// inVain tells whether making the output of a workflow again leads nowhere: the
// workflow is over, and no site could store it.
func (b *book) inVain(w *Workflow) (bool, error) {
	if !w.Over() {
		return false, nil
	}
	err := b.loadSites()
	return !slices.ContainsFunc(b.siteNames, b.stores), err
}

// recountHomeless does it after a site was added or changed.
func (b *book) recountHomeless(id task.WorkflowID) error {
	w, err := b.workflow(id)
	if err != nil || len(w.Held) == 0 {
		return err
	}
	return b.countHomeless(w)
}

// leaves tells whether a site without a storage element leaves a class to others:
// its tasks make final outputs, and a live site that could keep them can run it.
// All sites are loaded.
func (b *book) leaves(site *SiteRecord, class *Eligibility) bool {
	return class.Final && site.SE == "" && slices.ContainsFunc(b.siteNames, func(name task.Site) bool {
		s := b.sites.held[name]
		return s.SE != "" && class.Allows(name) && b.live(s) && !b.refuses(s, class.Work)
	})
}

// leavesTask tells it of a READY task.
func (b *book) leavesTask(site *SiteRecord, e *Explanation) bool {
	class, ok := b.eligibility(&e.Task)
	class.Final = e.State.Final
	return ok && b.leaves(site, &class)
}
