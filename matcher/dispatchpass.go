package matcher

import (
	"cmp"
	"maps"
	"slices"
)

// DAD is 000's data-aware dispatch on the rank matrix (section IV-C): queues
// take turns, one task each, oldest first; the delay rule decides about each
// task; when it lets a queue's head wait, the rest of that queue is skipped in
// this pass. The score of a node is minus the rank, so the tasks' rank should
// be dad(BETA); with another rank the threshold is in that rank's unit, for
// example seconds of stage-in with locality.
//
// A pass is the first call of Solve since tasks have entered or slots were freed.
// Calls in between dispatch what need not wait; the others wait on, and that does
// not count. Nor does it for prefill, which follows the same rule: a task is kept
// early only where it would also start. A pilot whose places are closed is no node.
// A DAD remembers how long tasks have waited and whose turn it is, so a matrix
// needs one of its own.
type DAD struct {
	rule   DelayRule
	waited map[uint64]int // passes, by task
	last   string         // queue that was served last
}

// NewDAD returns a dispatcher with nothing remembered; see DelayRule.Check.
func NewDAD(rule DelayRule) *DAD { return &DAD{rule: rule, waited: make(map[uint64]int)} }

// Solve is a Solver.
func (d *DAD) Solve(m *Matrix) []Assignment {
	m.runs++
	maps.DeleteFunc(d.waited, func(no uint64, _ int) bool { return m.tasks[no] == nil })
	var result []Assignment
	due := m.due
	m.due = false
	for _, prefill := range []bool{false, true} {
		pass := dispatchPass{dad: d, matrix: m, prefill: prefill, counts: due && !prefill}
		for _, row := range m.rows {
			if row.answered && !row.places.Closed {
				b := newBidder(row)
				pass.nodes = append(pass.nodes, b)
				pass.open = pass.open || b.open(prefill)
			}
		}
		if pass.open {
			pass.run()
		}
		result = append(result, pass.result...)
	}
	return result
}

type dispatchPass struct {
	dad     *DAD
	matrix  *Matrix
	prefill bool
	counts  bool     // tasks that wait in it have waited once more
	open    bool     // some node has a place
	nodes   []bidder // by pilot id, with and without places
	scores  []NodeScore
	pilots  []int // nodes that the scores belong to
	result  []Assignment
}

// taskQueue are the waiting tasks that were submitted to one queue.
type taskQueue struct {
	name  string
	cells []*cell
}

func (p *dispatchPass) run() {
	queues := p.queues()
	for len(queues) > 0 {
		queues = slices.DeleteFunc(queues, func(q *taskQueue) bool { return !p.turn(q) })
	}
}

// queues are those that have tasks, by name, the one after the last served first.
func (p *dispatchPass) queues() (queues []*taskQueue) {
	byName := make(map[string]*taskQueue)
	for _, block := range p.matrix.classes {
		for _, c := range block.ready {
			if c.takenIn == p.matrix.runs {
				continue
			}
			q := byName[c.Queue]
			if q == nil {
				q = &taskQueue{name: c.Queue}
				byName[c.Queue] = q
				queues = append(queues, q)
			}
			q.cells = append(q.cells, c)
		}
	}
	for _, q := range queues {
		slices.SortFunc(q.cells, func(a, b *cell) int {
			return cmp.Or(cmp.Compare(b.level(), a.level()), cmp.Compare(a.Order, b.Order), cmp.Compare(a.No, b.No))
		})
	}
	last := p.dad.last
	slices.SortFunc(queues, func(a, b *taskQueue) int {
		switch after := a.name > last; {
		case after == (b.name > last):
			return cmp.Compare(a.name, b.name)
		case after:
			return -1
		}
		return 1
	})
	return queues
}

// turn dispatches one task of the queue; false ends the queue for this pass.
// A task that no free node can run does not hold up those behind it.
func (p *dispatchPass) turn(q *taskQueue) bool {
	for len(q.cells) > 0 {
		c := q.cells[0]
		waited := 0
		if p.counts {
			waited = p.dad.waited[c.No]
		}
		p.score(c)
		node, verdict := p.dad.rule.Choose(p.scores, waited)
		switch verdict {
		case Wait:
			if p.counts {
				p.dad.waited[c.No]++
			}
			return false
		case Dispatch:
			p.assign(c, p.pilots[node], p.scores[node].Score)
			p.dad.last = q.name
			q.cells = q.cells[1:]
			return true
		}
		q.cells = q.cells[1:]
	}
	return false
}

// score values all nodes that may run the task.
func (p *dispatchPass) score(c *cell) {
	p.scores, p.pilots = p.scores[:0], p.pilots[:0]
	for i := range p.nodes {
		if rank, feasible := p.nodes[i].row.rank(c); feasible {
			free := p.nodes[i].offers(c, p.prefill)
			p.scores, p.pilots = append(p.scores, NodeScore{0 - rank, free}), append(p.pilots, i)
		}
	}
}

func (p *dispatchPass) assign(c *cell, node int, score float64) {
	b := &p.nodes[node]
	b.take(c, p.prefill)
	c.takenIn = p.matrix.runs
	delete(p.dad.waited, c.No)
	p.result = append(p.result, Assignment{Pilot: b.row.pilot, No: c.No, Rank: 0 - score, Prefill: p.prefill})
}
