package factory

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// nodes knows the nodes of the site by name, and which of them are left out.
type nodes struct {
	known map[string]struct{}
	bad   map[string]*Fault
}

// maxNodes bounds what is remembered of nodes.
const maxNodes = 10_000

func newNodes(kept []Fault) nodes {
	n := nodes{make(map[string]struct{}), make(map[string]*Fault)}
	for i := range kept {
		n.bad[kept[i].Node] = &kept[i]
		n.meet(kept[i].Node)
	}
	return n
}

func (n *nodes) meet(name string) {
	if name != "" && len(n.known) < maxNodes {
		n.known[name] = struct{}{}
	}
}

// failed leaves a node out for a time that doubles. After it the node is let in
// again: the next job there is its trial.
func (n *nodes) failed(now time.Time, name, why string, t Timings) {
	fault := n.bad[name]
	if fault == nil {
		if len(n.bad) >= maxNodes {
			return
		}
		fault = &Fault{Node: name}
		n.bad[name] = fault
	}
	if now.Before(fault.Until) {
		return // of the same fault: jobs that were there already
	}
	fault.Pauses++
	fault.Until = now.Add(min(t.MaxPause, 4*t.Pause<<min(20, fault.Pauses-1)))
	fault.Why = task.Brief(why)
}

// works forgives a node.
func (n *nodes) works(name string) { delete(n.bad, name) }

// alike tells whether most nodes that are known fail: then it is not the nodes.
func (n *nodes) alike(now time.Time) bool { return 2*n.out(now) > len(n.known) }

func (n *nodes) out(now time.Time) (count int) {
	for _, fault := range n.bad {
		if now.Before(fault.Until) {
			count++
		}
	}
	return count
}

// excluded lists the nodes that jobs are kept from: those at which jobs die and
// those that the site's master or the queue has set back. When most nodes fail,
// none is left out.
func (n *nodes) excluded(now time.Time, setBack []Node) []string {
	if n.alike(now) {
		return nil
	}
	var names []string
	for name, fault := range n.bad {
		if now.Before(fault.Until) {
			names = append(names, name)
		}
	}
	if 2*(len(setBack)+len(names)) <= len(n.known) {
		for _, node := range setBack {
			if node.Left > 0 {
				names = append(names, node.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (n *nodes) faults() []Fault {
	var faults []Fault
	for _, fault := range n.bad {
		faults = append(faults, *fault)
	}
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Node, b.Node) })
	return faults
}
