package matcher

import (
	"cmp"
	"slices"
)

// Greedy takes the largest rank of the whole matrix, removes the task, and
// goes on until nothing fits (004, III-C, steps 1 to 4). A pilot stays in the
// matrix while it has a free slot and the resources for the task in question.
//
// In full, pairs are taken in this order: free slots before prefill; higher
// priority; tasks passed over PassLimit times; larger rank; older task;
// smaller number; smaller pilot id. The result is the same for the same
// matrix, whatever came before.
//
// No task is given early, as prefill, to a pilot that does not raise it while
// another one keeps it; see cell.kept. With a Patience no task goes to a free
// slot that waits while it is left to another pilot, and companions are kept
// together; see company.
//
// It looks at pilots with places only: their exceptions one by one, all other
// tasks through the common order of each class. Serving one slot therefore
// costs about as much as the pilot has exceptions and classes.
func Greedy(m *Matrix) []Assignment {
	m.runs++
	run := greedyRun{matrix: m, patient: m.patience != nil}
	run.colocating = run.patient && len(m.companies) > 0
	run.pass(false, m.bidders(false))
	run.keeping = true
	run.pass(true, m.bidders(true))
	return run.result
}

type greedyRun struct {
	matrix  *Matrix
	prefill bool
	keeping bool // tasks that are kept are given early to those only that raise them
	patient bool // tasks are left to pilots that come to them soon
	// colocating has companions go to one pilot; begun are companies without home
	// by who has begun them in this run.
	colocating bool
	begun      map[*pilotRow][]*company
	bidders    []bidder
	open       int // bidders with places
	groups     []group
	queue      candidates
	result     []Assignment
}

// bidder is a pilot with places and what is left of them.
type bidder struct {
	row    *pilotRow
	places Places
	waits  bool // leaves to others also tasks that are not fresh
	kept   *bid // of slots of this pilot; nil: none are kept
}

func (b *bidder) open(prefill bool) bool { return b.places.open(prefill) }

func (p *Places) open(prefill bool) bool {
	return prefill && p.Prefill > 0 || !prefill && p.FreeSlots > 0
}

// bidders are the pilots that have answered and have places of the kind, by id.
func (m *Matrix) bidders(prefill bool) (bidders []bidder) {
	for _, row := range m.rows {
		if row.answered && row.places.open(prefill) {
			b := newBidder(row)
			b.waits = m.patience != nil && (prefill || m.patience.Waits(row.pilot))
			bidders = append(bidders, b)
		}
	}
	return bidders
}

// pass fills either the free slots or the prefill places of the bidders.
func (g *greedyRun) pass(prefill bool, bidders []bidder) {
	g.start(prefill, bidders)
	for g.open > 0 && len(g.queue) > 0 {
		best := g.queue[0]
		switch {
		case !g.available(&best):
			g.drop()
		case g.putOff(&best):
		default:
			g.assign(best)
			g.drop()
			g.begin(best)
		}
	}
}

// start queues the pairs of the bidders.
func (g *greedyRun) start(prefill bool, bidders []bidder) {
	g.prefill, g.bidders, g.open, g.groups, g.queue = prefill, bidders, len(bidders), nil, nil
	g.collect()
	g.queue.heapify()
}

// available tells whether the task is free and the pilot can still take it.
func (g *greedyRun) available(c *candidate) bool {
	return !g.taken(c.cell) && g.bidders[c.bidder].offers(c.cell, g.prefill)
}

// drop takes the first pair off the queue; a group's next one takes its place.
func (g *greedyRun) drop() {
	if best := g.queue[0]; best.group >= 0 {
		if next, found := g.next(int(best.group)); found {
			g.queue.replaceFirst(next)
			return
		}
	}
	g.queue.dropFirst()
}

func (g *greedyRun) taken(c *cell) bool { return c.takenIn == g.matrix.runs }

func (g *greedyRun) assign(choice candidate) {
	b := &g.bidders[choice.bidder]
	b.take(choice.cell, g.prefill)
	if !b.open(g.prefill) {
		g.open--
	}
	choice.cell.takenIn = g.matrix.runs
	g.result = append(g.result, Assignment{
		Pilot: b.row.pilot, No: choice.cell.No, Rank: choice.rank, Prefill: g.prefill,
	})
}

// collect fills the queue: every exception of a bidder, and for each group
// its best pair.
func (g *greedyRun) collect() {
	index := make(map[groupKey]int)
	exceptions := 0
	for i := range g.bidders {
		exceptions += len(g.bidders[i].row.exceptions)
	}
	g.queue = make(candidates, 0, exceptions)
	for i := range g.bidders {
		g.collectCompanions(i)
		lowered := g.collectExceptions(i)
		row := g.bidders[i].row
		for _, answer := range row.answers {
			block := g.matrix.classes[answer.Class]
			if !answer.Feasible || answer.PerTask || len(block.ready) == 0 ||
				!g.bidders[i].places.offers(block.need, g.prefill) {
				continue
			}
			key := groupKey{class: answer.Class, version: min(row.version, block.newest), alone: -1, waits: g.bidders[i].waits}
			if slices.Contains(lowered, answer.Class) || g.bidders[i].kept != nil {
				key.alone = i
			}
			at, found := index[key]
			if !found {
				at = len(g.groups)
				index[key] = at
				g.groups = append(g.groups, group{groupKey: key, block: block})
			}
			g.groups[at].members = append(g.groups[at].members, member{i, answer.Base})
		}
	}
	for i := range g.groups {
		slices.SortStableFunc(g.groups[i].members, func(a, b member) int { return cmp.Compare(b.base, a.base) })
		if first, found := g.next(i); found {
			g.queue = append(g.queue, first)
		}
	}
}

// collectExceptions queues what a bidder ranks on its own and returns the
// classes in which it ranks some task lower than the base, or refuses it.
func (g *greedyRun) collectExceptions(i int) (lowered []uint32) {
	row := g.bidders[i].row
	var answer ClassAnswer
	known := false
	for _, e := range row.exceptions {
		if !e.cell.ready || e.cell.Version > row.version {
			continue
		}
		if !known || answer.Class != e.cell.Class {
			at, found := row.find(e.cell.Class)
			if !found {
				continue
			}
			answer, known = row.answers[at], true
		}
		if !answer.Feasible {
			continue
		}
		if e.clause != "" || e.rank < answer.Base+e.cell.EntryBase {
			if !slices.Contains(lowered, answer.Class) {
				lowered = append(lowered, answer.Class)
			}
		}
		if e.clause == "" && !g.taken(e.cell) && (e.raised || !g.leaves(e.cell, g.bidders[i].waits)) && g.bidders[i].places.offers(e.cell.block.need, g.prefill) {
			pair := newCandidate(e.cell, e.rank, i, -1)
			pair.raised = e.raised
			g.queue = append(g.queue, pair)
		}
	}
	return lowered
}

// A group is a set of bidders for whom the tasks of a class without exception
// stand in the same order. Its best pair is its first free task with its
// first free member. A member may have ranked that task higher itself; then
// that pair is in the queue too, and comes before this one. A bidder that has
// ranked a task lower, or refused it, makes a group alone, which leaves out
// its exceptions; so does one that keeps slots, which leaves out what may not
// have them.
type group struct {
	groupKey
	block   *block
	members []member // largest base first, then by pilot id
	task    int      // first of block.ready that may be free and is promised to nobody
	late    int      // first of that one's level that may be free
	member  int      // first of members that may have a place
}

type groupKey struct {
	class   uint32
	version uint64 // tasks that are newer are not assignable
	alone   int    // the only bidder, -1 if there may be more
	waits   bool
}

type member struct {
	bidder int
	base   float64
}

// next returns the best pair that is left in a group.
func (g *greedyRun) next(index int) (candidate, bool) {
	group := &g.groups[index]
	for group.member < len(group.members) &&
		!g.bidders[group.members[group.member].bidder].places.offers(group.block.need, g.prefill) {
		group.member++
	}
	if group.member == len(group.members) {
		return candidate{}, false
	}
	c, late := g.nextTask(group)
	if c == nil {
		return candidate{}, false
	}
	m := group.members[group.member]
	pair := newCandidate(c, m.base+c.EntryBase, m.bidder, index)
	pair.late = late
	return pair, true
}

// nextTask is the first free task of a group: of each level those that are
// promised to nobody, then for free slots the others, which come late.
func (g *greedyRun) nextTask(group *group) (c *cell, late bool) {
	ready := group.block.ready
	for group.late < len(ready) {
		for level := ready[group.late].level(); group.task < len(ready) && ready[group.task].level() == level; group.task++ {
			if c := ready[group.task]; g.mayTake(group, c) && g.promised(c) == nil {
				return c, false
			}
		}
		if !g.colocating || g.prefill {
			group.late = group.task
		}
		for ; group.late < group.task; group.late++ {
			if c := ready[group.late]; g.mayTake(group, c) {
				return c, true
			}
		}
	}
	return nil, false
}

// leaves tells whether bidders that do not raise a task are not to have it.
func (g *greedyRun) leaves(c *cell, waits bool) bool {
	return g.keeping && c.kept() || g.patient && g.matrix.left(c) && (waits || g.matrix.patience.Fresh(c.No))
}

func (g *greedyRun) mayTake(group *group, c *cell) bool {
	if g.taken(c) || c.Version > group.version || g.leaves(c, group.waits) || g.prefill && c.reservation != nil {
		return false
	}
	if group.alone < 0 {
		return true
	}
	alone := &g.bidders[group.alone]
	_, excepted := alone.row.except(c.No)
	return !excepted && alone.offers(c, g.prefill)
}
