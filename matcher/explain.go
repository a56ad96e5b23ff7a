package matcher

import (
	"cmp"
	"slices"
)

// ClauseCount is how many pilots fail a clause first.
type ClauseCount struct {
	Clause string
	Pilots int
}

// Explanation says why a task waits, in numbers of the site's pilots.
type Explanation struct {
	Pilots     int           // all of the site
	Feasible   int           // can run it
	Unanswered int           // have not judged it yet
	Clauses    []ClauseCount // most pilots first
}

// WhyNot explains a class of tasks.
func (m *Matrix) WhyNot(class uint32) Explanation {
	return m.explain(func(row *pilotRow) (string, bool) {
		at, found := row.find(class)
		if !found {
			return "", false
		}
		return row.answers[at].FailedClause, true
	})
}

// WhyNotTask explains one task: beside its class also what pilots say about
// the task itself.
func (m *Matrix) WhyNotTask(no uint64) Explanation {
	c := m.tasks[no]
	return m.explain(func(row *pilotRow) (string, bool) {
		if c == nil || c.Version > row.version {
			return "", false
		}
		at, found := row.find(c.Class)
		if !found {
			return "", false
		}
		if exception, found := row.except(no); found && row.answers[at].Feasible {
			return row.exceptions[exception].clause, true
		}
		if row.answers[at].PerTask {
			return "", false
		}
		return row.answers[at].FailedClause, true
	})
}

// explain counts; failed returns the clause that a pilot fails ("" if none)
// and whether it has judged.
func (m *Matrix) explain(failed func(*pilotRow) (string, bool)) Explanation {
	explanation := Explanation{Pilots: len(m.rows)}
	counts := make(map[string]int)
	for _, row := range m.rows {
		switch clause, judged := failed(row); {
		case !judged:
			explanation.Unanswered++
		case clause == "":
			explanation.Feasible++
		default:
			counts[clause]++
		}
	}
	for clause, pilots := range counts {
		explanation.Clauses = append(explanation.Clauses, ClauseCount{clause, pilots})
	}
	slices.SortFunc(explanation.Clauses, func(a, b ClauseCount) int {
		return cmp.Or(cmp.Compare(b.Pilots, a.Pilots), cmp.Compare(a.Clause, b.Clause))
	})
	return explanation
}

// Infeasible lists the classes that all pilots have judged and none can run,
// by number: their tasks are to be returned to the queue. A site without
// pilots knows nothing and lists none.
func (m *Matrix) Infeasible() []uint32 {
	var classes []uint32
	for no, block := range m.classes {
		if block.feasible == 0 && block.answered > 0 && block.answered == len(m.rows) {
			classes = append(classes, no)
		}
	}
	slices.Sort(classes)
	return classes
}
