package master

import (
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// A task that has failed goes to another node first: on the list it requires
// that, so that pilots, matrix and solvers need not know. Where no pilot can run
// it then, or those that can have no place for long, it may go anywhere.

// classOf is the class of a held task in the list.
func (at *step) classOf(h *held) task.Class {
	class := at.class(h.Task)
	if !h.anywhere {
		class.Require = matcher.Elsewhere(class.Require, h.Avoid)
	}
	return class
}

// node names the worker node of a member.
func (w *member) node() string { return task.NodeOf(w.host, w.id) }

// avoid has a task that is not listed go to other nodes first.
func (h *held) avoid(node string) {
	h.anywhere = false
	if !slices.Contains(h.Avoid, node) {
		h.Avoid = append(slices.Clone(h.Avoid), node)
		slices.Sort(h.Avoid)
	}
}

// anywhere lets the tasks of a class, by its number in the list, go to any
// node, and tells whether some of them were to avoid one. With a fixed period they do not
// wait for its next round.
func (site *site) anywhere(at *step, class uint32) bool {
	if site.list.uses[class] == 0 || !site.relax(at, func(h *held) bool { return site.list.entries[h.no].Class == class }) {
		return false
	}
	site.list.round.period = at.now
	return true
}

// passElsewhere lets those go anywhere that have waited long enough for another
// node.
func (site *site) passElsewhere(at *step) {
	site.relax(at, func(h *held) bool {
		return h.phase == ready && at.now.Sub(h.readySince) >= at.config.Placing.ElsewhereWait
	})
}

// relax lets those listed tasks go to any node that are to avoid one and are
// chosen.
func (site *site) relax(at *step, chosen func(*held) bool) bool {
	var found []*held
	for no, h := range byKey(site.list.avoid) {
		if h.no == no && h.phase <= ready && chosen(h) {
			found = append(found, h)
		}
	}
	for _, h := range found {
		h.anywhere = true
		site.unlist(at, h)
		site.list.offer(h)
	}
	return len(found) > 0
}
