package matcher

import (
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// This file keeps what the combined ranks need beside the task itself: the
// totals over the list. Lists whose classes name none of them pay nothing.

// Referenced counts references (001, section 3.4): a task that reads these files has
// them staged in at the pilot. A file counts once when it comes, and once more for each
// further task, until it leaves the cache.
func (e *Evaluator) Referenced(files []FileInfo) RowUpdate {
	keys := make([]task.FileKey, len(files))
	for i, file := range files {
		keys[i] = file.Key
		e.references[file.Key]++
	}
	if len(e.combined) == 0 {
		return RowUpdate{Pilot: e.pilot.ID, Base: e.version, Version: e.version}
	}
	return e.rankAgain(keys)
}

// totalsOf are those in which the tasks of a class count, nil if in none.
func (e *Evaluator) totalsOf(class uint32) *combinedTotals {
	judged := e.classes[class]
	if judged == nil || judged.rank == nil || judged.rank.combined == nil {
		return nil
	}
	form := *judged.rank.combined
	totals := e.combined[form]
	if totals == nil {
		totals = &combinedTotals{form: form, near: make(map[uint64]nearTask)}
		e.combined[form] = totals
	}
	return totals
}

func (e *Evaluator) enterTotals(entry *ListEntry) {
	if totals := e.totalsOf(entry.Class); totals != nil {
		totals.list(entry.No, entry.Files, +1)
		e.lookForTotals(entry)
	}
}

func (e *Evaluator) leaveTotals(no uint64) {
	if len(e.combined) == 0 {
		return
	}
	if entry, found := e.Entry(no); found {
		if totals := e.totalsOf(entry.Class); totals != nil {
			totals.list(no, entry.Files, -1)
		}
	}
}

func (e *Evaluator) lookForTotals(entry *ListEntry) {
	if totals := e.totalsOf(entry.Class); totals != nil {
		has := func(file FileInfo) bool { return e.local(file.Key) }
		totals.look(entry.No, entry.Files, has, e.references)
	}
}

// sumTotals computes the totals of a whole list anew.
func (e *Evaluator) sumTotals() {
	if len(e.combined) == 0 {
		return
	}
	clear(e.combined)
	for _, entry := range e.listed.entries {
		e.enterTotals(entry)
	}
	for _, totals := range e.combined {
		totals.sum()
	}
}

// rankByTotals adds to an update the ranks that have changed because the
// totals have: those of all tasks with a local input.
func (e *Evaluator) rankByTotals(update *RowUpdate) {
	if len(e.combined) == 0 {
		return
	}
	set := make(map[uint64]Exception, len(update.Set))
	for _, exception := range update.Set {
		set[exception.No] = exception
	}
	for _, totals := range e.combined {
		for _, no := range totals.sum() {
			if entry, found := e.Entry(no); found {
				if exception, found := e.exception(entry); found {
					set[no] = exception
				}
			}
		}
	}
	update.Set = slices.SortedFunc(maps.Values(set), byNumber)
}

// rankOf is the rank of a task for the pilot as it is now.
func (e *Evaluator) rankOf(rank *Rank, facts *Facts, no uint64) float64 {
	if rank.combined != nil {
		if totals := e.combined[*rank.combined]; totals != nil {
			if _, near := totals.near[no]; near {
				return totals.rank(no)
			}
		}
	}
	return rank.Of(*facts, e.rates)
}
