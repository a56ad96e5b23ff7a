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
// With a locality wait no task that is ranked by seconds of stage-in goes to a free slot
// while it starts sooner elsewhere; see loss.go.
//
// It looks at pilots with places only: their exceptions one by one, all other
// tasks through the common order of each class. Serving one slot therefore
// costs about as much as the pilot has exceptions and classes.
func Greedy(m *Matrix) []Assignment {
	m.runs++
	run := greedyRun{matrix: m}
	if m.localityWait > 0 && m.foresight != nil {
		run.weighs, m.backlog = true, m.reckonBacklog()
	}
	run.pass(false, m.bidders(false))
	run.pass(true, m.bidders(true))
	run.giveNext()
	return run.result
}

type greedyRun struct {
	matrix  *Matrix
	prefill bool
	weighs  bool // what tasks lose counts
	bidders []bidder
	open    int // bidders with places
	groups  []group
	queue   candidates
	result  []Assignment
}

// bidder is a pilot with places and what is left of them.
type bidder struct {
	row    *pilotRow
	places Places
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
			bidders = append(bidders, newBidder(row))
		}
	}
	return bidders
}

// mayHave tells whether a task may have the place of a bidder that gains so much by
// it; here is left out where it looks for who gains more. Free slots leave what starts
// sooner elsewhere. What is given early may be taken back for a slot that is free, so it
// is no matter where it starts: it goes where it stages in least, unless the site comes
// to it before.
func (g *greedyRun) mayHave(c *cell, gain float64, here *pilotRow) bool {
	if !g.weighs || !c.block.seconds {
		return true
	}
	sooner, cheaper := g.matrix.elsewhere(c, here)
	gain *= g.matrix.pace
	if g.prefill {
		return cheaper <= gain
	}
	if sooner > gain {
		g.matrix.lookAgainAfter(sooner - gain)
	}
	return sooner <= gain
}

// pass fills either the free slots or the prefill places of the bidders.
func (g *greedyRun) pass(prefill bool, bidders []bidder) {
	g.start(prefill, bidders)
	for g.open > 0 && len(g.queue) > 0 {
		if best := g.queue[0]; g.available(&best) {
			g.assign(best)
		}
		g.drop()
	}
}

// giveNext gives pilots early what is to follow what they run: there it starts as soon
// as it can run, and stages in nothing of what it has missed. It waits beside what else
// was given early, and keeps no place from that. What is more urgent goes before it.
func (g *greedyRun) giveNext() {
	if !g.weighs {
		return
	}
	for _, b := range g.bidders {
		row, room := b.row, b.places.Prefill
		for _, no := range row.places.Next {
			c := g.matrix.tasks[no]
			if room == 0 {
				break
			}
			if c == nil || c.ready || !c.block.seconds || g.taken(c) || row.reservation != nil || g.matrix.mostGain(c) > row.gain(no) || g.matrix.outranked(row, c) {
				continue
			}
			if rank, feasible := row.rank(c); feasible {
				room--
				c.takenIn = g.matrix.runs
				g.result = append(g.result, Assignment{Pilot: row.pilot, No: no, Rank: rank, Prefill: true})
			}
		}
	}
}

// outranked tells whether a ready task that a pilot may run goes before another one,
// whatever their ranks.
func (m *Matrix) outranked(row *pilotRow, c *cell) bool {
	for _, block := range m.classes {
		if len(block.ready) > 0 && block.ready[0].level() > c.level() && row.canRun(block.no) {
			return true
		}
	}
	return false
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
		lowered := g.collectExceptions(i)
		row := g.bidders[i].row
		for _, answer := range row.answers {
			block := g.matrix.classes[answer.Class]
			if !answer.Feasible || answer.PerTask || len(block.ready) == 0 ||
				!g.bidders[i].places.offers(block.need, g.prefill) {
				continue
			}
			key := groupKey{class: answer.Class, version: min(row.version, block.newest), alone: -1}
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
	for at := range row.exceptions {
		e := &row.exceptions[at]
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
		if e.clause != "" || g.taken(e.cell) || !g.bidders[i].places.offers(e.cell.block.need, g.prefill) {
			continue
		}
		if g.mayHave(e.cell, e.gain, row) {
			g.queue = append(g.queue, newCandidate(e.cell, e.rank, i, -1))
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
	task    int      // first of block.ready that may be free
	member  int      // first of members that may have a place
}

type groupKey struct {
	class   uint32
	version uint64 // tasks that are newer are not assignable
	alone   int    // the only bidder, -1 if there may be more
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
	for group.task < len(group.block.ready) && !g.mayTake(group, group.block.ready[group.task]) {
		group.task++
	}
	if group.member == len(group.members) || group.task == len(group.block.ready) {
		return candidate{}, false
	}
	m, c := group.members[group.member], group.block.ready[group.task]
	return newCandidate(c, m.base+c.EntryBase, m.bidder, index), true
}

func (g *greedyRun) mayTake(group *group, c *cell) bool {
	if g.taken(c) || c.Version > group.version || g.prefill && c.reservation != nil || !g.mayHave(c, 0, nil) {
		return false
	}
	if group.alone < 0 {
		return true
	}
	alone := &g.bidders[group.alone]
	_, excepted := alone.row.except(c.No)
	return !excepted && alone.offers(c, g.prefill)
}
