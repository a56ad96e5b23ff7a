package worker

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// row is this pilot's row of the rank matrix: what it answers the task list.
type row struct{ evaluator *matcher.Evaluator }

// changed has the master hear of a change of the row. A whole row that waits to
// be told comes before it.
func (r *row) changed(at *step, update matcher.RowUpdate, delay time.Duration) {
	if !update.Empty() {
		at.news.Updates = append(at.news.Updates, update)
		at.soon(delay)
	}
}

// tell sends the whole row.
func (r *row) tell(at *step, delay time.Duration) {
	whole := r.evaluator.Row()
	at.news.Row, at.news.Updates = &whole, nil
	at.soon(delay)
}

// judgeAgain judges the list for a pilot that has changed, and sends the row if
// that has changed an answer.
func (r *row) judgeAgain(at *step, self matcher.Pilot) {
	before := r.evaluator.Answers()
	r.evaluator.SetPilot(self)
	if !slices.Equal(before, r.evaluator.Answers()) {
		r.tell(at, at.config.ReportDelay)
	}
}

// snapshot takes a whole list, unless a newer one is at hand by now.
func (r *row) snapshot(at *step, list matcher.ListSnapshot) {
	if known := r.evaluator.Version(); known.Term != list.Version.Term || known.N < list.Version.N {
		r.evaluator.Reset(list)
	}
	r.tell(at, 0)
}

// apply takes a change of the list and returns what it changes in the row; nil if
// it does not fit to the list at hand, of which a snapshot is asked for then.
func (r *row) apply(at *step, delta matcher.ListDelta) *matcher.RowUpdate {
	update, err := r.evaluator.Apply(delta)
	if err == nil {
		return &update
	}
	if r.evaluator.Version().N < delta.Version.N {
		at.news.WantList = true
		at.soon(0)
	}
	return nil
}

// begin starts the list of a term, which is empty.
func (r *row) begin(at *step, term task.Term) {
	r.evaluator.Reset(matcher.ListSnapshot{Version: matcher.ListVersion{Term: term}, Rates: matcher.DefaultRates()})
	at.news.Row, at.news.Updates, at.news.WantList = nil, nil, false
}
