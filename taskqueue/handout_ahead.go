package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// maxAheadInputs bounds the inputs of a task that is leased before they all
// exist: to look at more for every hand-out costs more than it gains.
const maxAheadInputs = 1_000

// leaseAhead walks down the graph from what a site was given: a BLOCKED task
// joins the lease when every input is readable at the site or made by a task
// that the site holds. While other sites are live the walk goes by what the site
// holds that can run: who makes files reads them, and the rest of what comes
// next is for whoever makes that.
func (h *handing) leaseAhead(from []task.ID) {
	allowance := h.aheadAllowance()
	seen := make(map[task.ID]struct{})
	candidates := h.life.walkable
	h.life.walkable = nil
	for allowance > 0 && len(candidates)+len(from) > 0 {
		below := h.readersBelow(from, allowance-len(candidates))
		fits := h.fitAhead(h.site, append(candidates, below...), seen)
		from, candidates = nil, nil
		for _, id := range fits[:min(allowance, len(fits))] {
			if !h.has(id) {
				continue
			}
			h.lend(id)
			from = append(from, id)
			allowance--
		}
	}
}

// aheadAllowance is how many more tasks a site may hold before their inputs
// exist: some for each slot or task at hand, and all that there is room for
// where no other site is live.
func (h *handing) aheadAllowance() int {
	allowance := h.config.HandOut.AheadTasks * max(h.site.slots(), h.site.Leased-h.site.Ahead)
	if !h.shared() {
		allowance = max(allowance, h.room(h.site))
	}
	return min(allowance, h.config.HandOut.Max) - h.site.Ahead
}

// shared tells whether another site is live.
func (h *handing) shared() bool {
	return slices.ContainsFunc(h.sites.names, func(name task.Site) bool {
		s := h.sites.held[name]
		return s != h.site && h.sites.live(s)
	})
}

// readersBelow returns tasks that read what the given ones will make, once
// enough are found for the allowance.
func (h *handing) readersBelow(from []task.ID, allowance int) []task.ID {
	const step = 256
	var readers []task.ID
	for len(from) > 0 && len(readers) < 2*allowance {
		part := from[:min(step, len(from))]
		from = from[len(part):]
		h.loadOutputs(part)
		for _, id := range part {
			for _, out := range h.specs.held[id].Outputs {
				f := h.files.held[out.LFN]
				if f == nil || f.Uses == 0 || exists(f) {
					continue
				}
				ids := read(h.Files().Readers(f.LFN))
				readers = append(readers, ids...)
			}
		}
	}
	return readers
}

// fitAhead returns those candidates that the site may hold now.
func (h *handing) fitAhead(site *SiteRecord, candidates []task.ID, seen map[task.ID]struct{}) []task.ID {
	h.tasks.load(candidates...)
	var blocked []task.ID
	for _, id := range candidates {
		s := h.tasks.held[id]
		if s != nil && s.State == task.Blocked && s.Missing > 0 && s.Missing <= maxAheadInputs {
			blocked = append(blocked, id)
		}
	}
	h.specs.load(blocked...)
	small := blocked[:0]
	for _, id := range blocked {
		if _, again := seen[id]; !again && len(h.specs.held[id].Inputs) <= maxAheadInputs {
			small = append(small, id)
		}
		seen[id] = struct{}{}
	}
	h.loadInputs(small)
	fits := small[:0]
	for _, id := range small {
		if spec := h.specs.held[id]; h.madeHere(site, spec) && !h.sites.refuses(site, spec.Class()) {
			fits = append(fits, id)
		}
		// A later level may make what is missing now.
		delete(seen, id)
	}
	return fits
}

// madeHere tells whether every input of a task is readable at a site or made
// by a task that is LEASED to it.
func (h *handing) madeHere(site *SiteRecord, spec *task.Task) bool {
	for _, in := range spec.Inputs {
		f := h.files.held[in.LFN]
		if site.Reads(f) {
			continue
		}
		if f == nil || exists(f) || f.ProducerTask == "" {
			return false
		}
		maker := h.tasks.held[f.ProducerTask]
		if maker == nil || maker.State != task.Leased || maker.Site != site.Name {
			return false
		}
	}
	return true
}
