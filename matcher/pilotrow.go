package matcher

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// pilotRow is what one pilot has answered and what it can take.
type pilotRow struct {
	pilot      task.PilotID
	answered   bool   // a Row has come
	version    uint64 // N of the list that it answers
	answers    []ClassAnswer
	exceptions []exception // by number
	places     Places
	foreseen   uint64 // the solver's run for which the waits of its exceptions hold
	// reservation is of slots that the pilot keeps; nil: it keeps none.
	reservation *reservation
}

// exception is an Exception tied to its task.
type exception struct {
	cell   *cell
	rank   float64
	clause string  // the failed one; "" when feasible
	gain   float64 // seconds by which it is above the class; see loss.go
	wait   float64 // and until the pilot comes to the task; see foresee
}

// row returns a pilot's row, made when missing.
func (m *Matrix) row(pilot task.PilotID) *pilotRow {
	at, found := m.findPilot(pilot)
	if !found {
		m.rows = slices.Insert(m.rows, at, &pilotRow{pilot: pilot})
	}
	return m.rows[at]
}

func (m *Matrix) findPilot(pilot task.PilotID) (int, bool) {
	return slices.BinarySearchFunc(m.rows, pilot, func(r *pilotRow, id task.PilotID) int { return cmp.Compare(r.pilot, id) })
}

// SetPlaces says what a pilot can take from now on. Solve deducts what it
// assigns. A pilot gets nothing before its row has come.
func (m *Matrix) SetPlaces(pilot task.PilotID, places Places) {
	row := m.row(pilot)
	m.due = m.due || places.FreeSlots > row.places.FreeSlots
	row.places = places
}

// RemovePilot forgets a pilot that has left or died.
func (m *Matrix) RemovePilot(pilot task.PilotID) {
	at, found := m.findPilot(pilot)
	if !found {
		return
	}
	for _, answer := range m.rows[at].answers {
		m.count(answer, -1)
	}
	m.releaseAll(func(r *reservation) bool { return r.row == m.rows[at] })
	m.rows[at].dropExceptions()
	m.rows = slices.Delete(m.rows, at, at+1)
}

// SetRow replaces all that a pilot has answered. A row of another term, or
// older than the one at hand, is ignored: the result is false.
func (m *Matrix) SetRow(from Row) bool {
	row := m.row(from.Pilot)
	if from.Version.Term != m.term || row.answered && from.Version.N < row.version {
		return false
	}
	for _, answer := range row.answers {
		m.count(answer, -1)
	}
	row.dropExceptions()
	row.answers = nil
	row.answered, row.version = true, from.Version.N
	m.answer(row, from.Classes)
	row.change(m.tie(from.Exceptions), nil)
	return true
}

// UpdateRow changes what a pilot has answered. It returns ErrRowGap, and
// changes nothing, if an answer in between is missing or the term is another.
func (m *Matrix) UpdateRow(update RowUpdate) error {
	at, found := m.findPilot(update.Pilot)
	if !found || !m.rows[at].answered || update.Version.Term != m.term || update.Base.Term != m.term ||
		m.rows[at].version < update.Base.N {
		return ErrRowGap
	}
	row := m.rows[at]
	row.version = max(row.version, update.Version.N)
	m.answer(row, update.Classes)
	row.change(m.tie(update.Set), update.Clear)
	return nil
}

// answer puts the answers about known classes into a row.
func (m *Matrix) answer(row *pilotRow, answers []ClassAnswer) {
	for _, answer := range answers {
		if m.classes[answer.Class] == nil {
			continue
		}
		answer.Base = number(answer.Base)
		if at, found := row.find(answer.Class); found {
			m.count(row.answers[at], -1)
			row.answers[at] = answer
		} else {
			row.answers = slices.Insert(row.answers, at, answer)
		}
		m.count(answer, +1)
		for i := range row.exceptions {
			if e := &row.exceptions[i]; e.cell.Class == answer.Class {
				row.weigh(e)
			}
		}
	}
}

// dropExceptions leaves the answers about classes.
func (r *pilotRow) dropExceptions() {
	for i := range r.exceptions {
		r.unweigh(&r.exceptions[i])
	}
	r.exceptions = nil
}

// count keeps the sums of a class.
func (m *Matrix) count(answer ClassAnswer, by int) {
	if block := m.classes[answer.Class]; block != nil {
		block.answered += by
		if answer.Feasible {
			block.feasible += by
		}
	}
}

// tie connects exceptions with their tasks, in the order of numbers, and
// leaves out those about tasks that are no longer known.
func (m *Matrix) tie(exceptions []Exception) []exception {
	tied := make([]exception, 0, len(exceptions))
	for _, e := range exceptions {
		c := m.tasks[e.No]
		if c == nil {
			continue
		}
		t := exception{cell: c, rank: number(e.Rank)}
		if e.Infeasible {
			t.clause = cmp.Or(e.FailedClause, "no reason given")
		}
		tied = append(tied, t)
	}
	slices.SortStableFunc(tied, func(a, b exception) int { return cmp.Compare(a.cell.No, b.cell.No) })
	return tied
}

// find looks for the answer about a class.
func (r *pilotRow) find(class uint32) (int, bool) {
	return slices.BinarySearchFunc(r.answers, class, func(a ClassAnswer, no uint32) int { return cmp.Compare(a.Class, no) })
}

// except looks for the exception about a task.
func (r *pilotRow) except(no uint64) (int, bool) {
	return slices.BinarySearchFunc(r.exceptions, no, func(e exception, no uint64) int { return cmp.Compare(e.cell.No, no) })
}

// change merges exceptions, sorted by number, into the row and drops those in
// clear and those of tasks that are gone.
func (r *pilotRow) change(set []exception, clear []uint64) {
	if len(set)+len(clear) <= 4 { // a file or two: no need to copy a long row
		for _, no := range clear {
			if at, found := r.except(no); found {
				r.unweigh(&r.exceptions[at])
				r.exceptions = slices.Delete(r.exceptions, at, at+1)
			}
		}
		for _, e := range set {
			r.weigh(&e)
			if at, found := r.except(e.cell.No); found {
				r.unweigh(&r.exceptions[at])
				r.exceptions[at] = e
			} else {
				r.exceptions = slices.Insert(r.exceptions, at, e)
			}
		}
		return
	}
	dropped := make(map[uint64]bool, len(clear))
	for _, no := range clear {
		dropped[no] = true
	}
	merged := make([]exception, 0, len(r.exceptions)+len(set))
	keep := func(e exception) {
		if last := len(merged) - 1; last >= 0 && merged[last].cell.No == e.cell.No {
			r.unweigh(&merged[last])
			merged[last] = e
		} else {
			merged = append(merged, e)
		}
	}
	add := func(e exception) {
		r.weigh(&e)
		keep(e)
	}
	for _, old := range r.exceptions {
		for len(set) > 0 && set[0].cell.No < old.cell.No {
			add(set[0])
			set = set[1:]
		}
		if old.cell.gone || dropped[old.cell.No] {
			r.unweigh(&old)
			continue
		}
		keep(old)
	}
	for _, e := range set {
		add(e)
	}
	r.exceptions = slices.Clip(merged)
}

// forgetGone drops the exceptions of tasks that were removed.
func (r *pilotRow) forgetGone() {
	r.exceptions = slices.DeleteFunc(r.exceptions, func(e exception) bool { return e.cell.gone })
}

// Rank is what a pilot thinks of a task; false if it may not run it, has not
// answered yet, or one of the two is unknown.
func (m *Matrix) Rank(pilot task.PilotID, no uint64) (float64, bool) {
	at, found := m.findPilot(pilot)
	c := m.tasks[no]
	if !found || c == nil {
		return 0, false
	}
	return m.rows[at].rank(c)
}

func (r *pilotRow) rank(c *cell) (float64, bool) {
	if c.Version > r.version {
		return 0, false
	}
	class, found := r.find(c.Class)
	if !found || !r.answers[class].Feasible {
		return 0, false
	}
	if at, found := r.except(c.No); found {
		return r.exceptions[at].rank, r.exceptions[at].clause == ""
	}
	if r.answers[class].PerTask {
		return 0, false
	}
	return r.answers[class].Base + c.EntryBase, true
}

// number guards the order of ranks against what is no number; it bounds
// infinite ranks, since a sum of them might be none.
func number(rank float64) float64 {
	if math.IsNaN(rank) {
		return 0
	}
	return max(-math.MaxFloat64, min(rank, math.MaxFloat64))
}
