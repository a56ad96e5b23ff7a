package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	// companionTail is how many of the newest tasks of a hand-out are looked at
	// for companions: tasks that belong together were submitted together, so it
	// is the end of a hand-out that parts them.
	companionTail = 64
	// companionReaders is how many of their newest readers are looked at.
	companionReaders = 4 * companionTail
	// companionInputs is how many files a task may read whose makers are kept
	// together: what reads more is read from several sites in any case.
	companionInputs = 16
)

// leaseCompanions hands out READY tasks beside the chosen ones that make other
// inputs of the same readers, so that these can read all from the caches of one
// site. While no other site is live, all come here anyway.
func (h *handing) leaseCompanions(chosen []task.ID) {
	if !h.shared() {
		return
	}
	tail := slices.DeleteFunc(slices.Clone(chosen), func(id task.ID) bool { return h.tasks.held[id].Bare })
	tail = tail[max(0, len(tail)-companionTail):]
	readers := h.readersBelow(tail, companionTail)
	if len(readers) == 0 {
		return
	}
	readers = readers[max(0, len(readers)-companionReaders):]
	h.specs.load(readers...)
	readers = slices.DeleteFunc(readers, func(id task.ID) bool { return len(inputs(h.specs.held[id])) > companionInputs })
	h.loadInputs(readers)
	var makers []task.ID
	for _, id := range readers {
		for _, name := range inputs(h.specs.held[id]) {
			if f := h.files.held[name]; f != nil && f.ProducerTask != "" && !exists(f) {
				makers = append(makers, f.ProducerTask)
			}
		}
	}
	slices.Sort(makers)
	h.lendReady(slices.Compact(makers))
}

// lendReady leases those of some tasks that are READY, may run at the site, and
// prefer no other one.
func (h *handing) lendReady(ids []task.ID) {
	h.tasks.load(ids...)
	ids = slices.DeleteFunc(ids, func(id task.ID) bool {
		s := h.tasks.held[id]
		return s == nil || s.State != task.Ready || s.NotBefore > h.Clock || h.givenAway(h.site, s)
	})
	h.loadInputs(ids)
	for _, id := range ids[:min(len(ids), companionTail)] {
		spec := h.specs.held[id]
		class, ok := h.classes.of(spec)
		class.Final = h.tasks.held[id].Final
		if !ok || h.classes.leaves(h.site, &class) || !class.Allows(h.site.Name) || class.Prefer != "" && class.Prefer != h.site.Name || h.refuses(h.site, class.Work) {
			continue
		}
		h.lend(id)
	}
}
