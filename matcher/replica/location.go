package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// location is a node that could take a new replica.
type location struct {
	node    Node
	waits   int        // run times of the data set's first task until the node is idle, rounded down
	lacks   task.Bytes // of the data set
	victims []Drop     // to be overwritten for it
	used    time.Time  // when the last of the victims was read
}

// begin makes a plan for a data set on the best node that is not reserved
// (002, section 4, step 5): one that can run its oldest task and has, or has
// room for, its files; without spare room anywhere obsolete replicas are
// overwritten, the least recently used first.
func (p *Plans) begin(ds *dataSet, view *View, decisions *Decisions) {
	if ds == nil {
		return
	}
	var best *location
	for _, node := range view.Nodes {
		reserved := slices.ContainsFunc(p.plans, func(plan *plan) bool { return plan.node == node.ID })
		if reserved || !ds.first.canRun(node.ID) {
			continue
		}
		if l, fits := p.locate(ds, node, *view); fits && (best == nil || l.compare(best) < 0) {
			best = l
		}
	}
	if best == nil {
		return
	}
	made := &plan{dataAt: dataAt{node: best.node.ID, files: ds.files}}
	for _, file := range ds.files {
		if !slices.ContainsFunc(view.Replicas(file), func(c Copied) bool { return c.Node == made.node }) {
			made.made = append(made.made, file)
		}
	}
	p.forget(best.victims)
	decisions.Drops = append(decisions.Drops, best.victims...)
	view.Replicas = withoutDrops(view.Replicas, best.victims)
	p.plans = append(p.plans, made)
}

// compare prefers nodes that are idle, or will be within a run time, then those
// that will be soonest; of them spare room to overwriting, then what lacks least, then
// little load; among nodes that must overwrite, the oldest replicas go first.
func (l *location) compare(other *location) int {
	overwrites := func(l *location) int { return min(1, len(l.victims)) }
	return cmp.Or(
		cmp.Compare(l.waits, other.waits), cmp.Compare(overwrites(l), overwrites(other)), l.used.Compare(other.used), cmp.Compare(l.lacks, other.lacks),
		cmp.Compare(l.node.Load, other.node.Load), cmp.Compare(l.node.ID, other.node.ID),
	)
}

// locate tells what a replica on the node would take.
func (p *Plans) locate(ds *dataSet, node Node, view View) (*location, bool) {
	l := &location{node: node, waits: int(node.FreeIn / max(ds.first.Runtime, time.Nanosecond))}
	for _, file := range ds.files {
		if !slices.ContainsFunc(view.Replicas(file), func(c Copied) bool { return c.Node == node.ID }) {
			l.lacks += max(0, view.Size(file))
		}
	}
	room := node.Room
	for _, old := range p.leastRecent(node.ID, ds, view) {
		if room >= l.lacks {
			break
		}
		l.victims, l.used = append(l.victims, old.Drop), old.used
		room += max(0, view.Size(old.File))
	}
	return l, room >= l.lacks
}

type usedReplica struct {
	Drop
	used time.Time
}

// leastRecent are the obsolete replicas of a node that the data set does not
// need and that are not the last of their file, least recently used first.
func (p *Plans) leastRecent(node task.PilotID, ds *dataSet, view View) (old []usedReplica) {
	for i := range p.obsolete {
		if p.obsolete[i].node != node {
			continue
		}
		for _, drop := range p.obsolete[i].drops(view) {
			if _, needed := slices.BinarySearch(ds.files, drop.File); needed {
				continue
			}
			replicas := view.Replicas(drop.File)
			at := slices.IndexFunc(replicas, func(c Copied) bool { return c.Node == node })
			old = append(old, usedReplica{drop, replicas[at].Used})
		}
	}
	slices.SortFunc(old, func(a, b usedReplica) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.File, b.File))
	})
	return slices.CompactFunc(old, func(a, b usedReplica) bool { return a.Drop == b.Drop })
}

// forget takes dropped files out of the obsolete replicas.
func (p *Plans) forget(drops []Drop) {
	for i := range p.obsolete {
		d := &p.obsolete[i]
		d.made = slices.DeleteFunc(d.made, func(file task.FileKey) bool { return slices.Contains(drops, Drop{file, d.node}) })
	}
	p.obsolete = slices.DeleteFunc(p.obsolete, func(d dataAt) bool { return len(d.made) == 0 })
}
