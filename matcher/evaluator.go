package matcher

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Evaluator follows the task list for one pilot and ranks its tasks. It is
// not safe for concurrent use; the Compiler, which it may share, is.
type Evaluator struct {
	pilot    Pilot
	cached   Cached
	compiler *Compiler

	version ListVersion
	rates   Rates
	listed  listing
	classes map[uint32]*judgement

	references map[task.FileKey]uint32 // by tasks that have read cached files
	combined   map[combined]*combinedTotals
	tellFiles  bool
}

// judgement is a class as one pilot sees it.
type judgement struct {
	class       task.Class
	requirement *Requirement
	rank        *Rank
	answer      ClassAnswer
}

// Cached tells whether a pilot's cache has a file, and its size in bytes.
type Cached func(task.FileKey) (size task.Bytes, has bool)

// NewEvaluator returns an evaluator with an empty list. cached must not call back
// into this package.
func NewEvaluator(pilot Pilot, cached Cached, compiler *Compiler) *Evaluator {
	return &Evaluator{
		pilot: pilot, cached: cached, compiler: compiler, listed: newListing(),
		rates: DefaultRates(), classes: make(map[uint32]*judgement),
		references: make(map[task.FileKey]uint32), combined: make(map[combined]*combinedTotals),
	}
}

func (e *Evaluator) local(key task.FileKey) bool {
	_, has := e.cached(key)
	return has
}

// measured are the files of a listed task; where it was listed before they were made,
// with the sizes of those that the cache has.
func (e *Evaluator) measured(files []FileInfo) []FileInfo {
	var measured []FileInfo
	for i := range files {
		if files[i].Size > 0 {
			continue
		}
		if size, has := e.cached(files[i].Key); has && size != files[i].Size {
			if measured == nil {
				measured = slices.Clone(files)
			}
			measured[i].Size = size
		}
	}
	if measured != nil {
		return measured
	}
	return files
}

// Version is that of the list at hand.
func (e *Evaluator) Version() ListVersion { return e.version }

// Local tells which files the pilot's cache has.
func (e *Evaluator) Local(keys []task.FileKey) (local []task.FileKey) {
	for _, key := range keys {
		if e.local(key) {
			local = append(local, key)
		}
	}
	return local
}

// Len is the number of tasks in the list.
func (e *Evaluator) Len() int { return len(e.listed.entries) }

// Reset replaces the list. The pilot's answer is a new Row.
func (e *Evaluator) Reset(list ListSnapshot) {
	e.clear()
	e.version, e.rates = list.Version, list.Rates
	for _, class := range list.Classes {
		e.judge(class)
	}
	e.list(list.Entries)
}

// clear empties the list.
func (e *Evaluator) clear() {
	e.version, e.listed = ListVersion{}, newListing()
	clear(e.classes)
	clear(e.combined)
}

// Apply follows a change of the list and returns what it changes in the
// pilot's row. It returns ErrListGap, and changes nothing, if the delta does
// not start from the list at hand.
func (e *Evaluator) Apply(delta ListDelta) (RowUpdate, error) {
	if delta.Base != e.version || delta.Version.Term != e.version.Term {
		return RowUpdate{}, ErrListGap
	}
	update := RowUpdate{Pilot: e.pilot.ID, Base: e.version, Version: delta.Version}
	e.version = delta.Version
	for _, no := range delta.Remove {
		e.leaveTotals(no)
	}
	e.listed.remove(delta.Remove)
	for _, no := range delta.DropClasses {
		delete(e.classes, no)
	}
	for _, class := range delta.Classes {
		update.Classes = append(update.Classes, e.judge(class))
	}
	e.list(delta.Add)
	for _, entry := range delta.Add {
		if exception, found := e.exception(entry); found {
			update.Set = append(update.Set, exception)
		}
	}
	slices.SortFunc(update.Set, byNumber)
	e.rankByTotals(&update)
	update.Came = e.filesHeld(delta.Add)
	return update, nil
}

// SetPilot takes a new description, for example another load. The classes
// are judged again; the pilot's answer is a new Row.
func (e *Evaluator) SetPilot(pilot Pilot) {
	e.pilot = pilot
	for no, judged := range e.classes {
		e.judge(ListClass{No: no, Class: judged.class})
	}
}

// SetLive takes what runs at the pilot by now, and returns what that changes in
// its row. The cost is that of the classes, and of the tasks of those whose
// rank differs from task to task, that look at it.
func (e *Evaluator) SetLive(live Live) RowUpdate {
	e.pilot.Live = live
	update := RowUpdate{Pilot: e.pilot.ID, Base: e.version, Version: e.version}
	each := make(map[uint32]bool) // classes whose tasks are ranked again one by one
	for no, judged := range e.classes {
		if !judged.live() {
			continue
		}
		answer := e.judge(ListClass{No: no, Class: judged.class})
		update.Classes = append(update.Classes, answer)
		// Those of a class that could not run before were not ranked.
		if answer.Feasible && (answer.PerTask || judged.requirement.perTask() || !judged.answer.Feasible) {
			each[no] = true
		}
	}
	slices.SortFunc(update.Classes, func(a, b ClassAnswer) int { return cmp.Compare(a.Class, b.Class) })
	if len(each) == 0 {
		return update
	}
	for _, entry := range e.listed.entries {
		if !each[entry.Class] {
			continue
		}
		if exception, found := e.exception(entry); found {
			update.Set = append(update.Set, exception)
		} else {
			update.Clear = append(update.Clear, entry.No)
		}
	}
	return update
}

// Answers are the pilot's answers about all classes of the list, by number.
func (e *Evaluator) Answers() []ClassAnswer {
	var answers []ClassAnswer
	for _, judged := range e.classes {
		answers = append(answers, judged.answer)
	}
	slices.SortFunc(answers, func(a, b ClassAnswer) int { return cmp.Compare(a.Class, b.Class) })
	return answers
}

// Row ranks the whole list.
func (e *Evaluator) Row() Row {
	row := Row{Pilot: e.pilot.ID, Version: e.version, Classes: e.Answers()}
	e.sumTotals()
	for _, entry := range e.listed.entries {
		if exception, found := e.exception(entry); found {
			row.Exceptions = append(row.Exceptions, exception)
		}
	}
	row.Files = e.filesHeld(e.listed.entries)
	return row
}

// FilesChanged ranks again the tasks that read one of the files, which came
// into the pilot's cache or left it. The cost is that of these tasks only.
func (e *Evaluator) FilesChanged(keys ...task.FileKey) RowUpdate {
	for _, key := range keys {
		if !e.local(key) {
			delete(e.references, key)
		}
	}
	update := e.rankAgain(keys)
	update.Came, update.Left = e.filesMoved(keys)
	return update
}

// rankAgain ranks the tasks that read one of the files.
func (e *Evaluator) rankAgain(keys []task.FileKey) RowUpdate {
	update := RowUpdate{Pilot: e.pilot.ID, Base: e.version, Version: e.version}
	var numbers []uint64
	for _, key := range keys {
		numbers = append(numbers, e.listed.readers[key]...)
	}
	if len(keys) > 1 {
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
	}
	for _, no := range numbers {
		entry := e.listed.entry(no)
		e.lookForTotals(entry)
		if exception, found := e.exception(entry); found {
			update.Set = append(update.Set, exception)
		} else if judged := e.classes[entry.Class]; judged != nil && judged.answer.Feasible {
			update.Clear = append(update.Clear, no)
		}
	}
	e.rankByTotals(&update)
	return update
}

// Entry returns a listed task.
func (e *Evaluator) Entry(no uint64) (entry *ListEntry, found bool) {
	entry = e.listed.entry(no)
	return entry, entry != nil
}

// Check decides anew whether the pilot may run a task: what it does when the
// task is assigned to it. It needs no list.
func (e *Evaluator) Check(t *task.Task, files []FileInfo) Verdict {
	requirement, err := e.compiler.Requirement(t.Requirement())
	if err != nil {
		return Verdict{FailedClause: shorten(err.Error())}
	}
	return requirement.Check(Facts{Pilot: &e.pilot, Task: t, Files: files, Local: e.local})
}

// list takes entries into the list.
func (e *Evaluator) list(entries []*ListEntry) {
	for _, entry := range e.listed.add(entries) {
		e.enterTotals(entry)
	}
}

// judge evaluates what is the same for all tasks of a class.
func (e *Evaluator) judge(class ListClass) ClassAnswer {
	judged := newJudgement(e.compiler, &e.pilot, class, e.rates)
	e.classes[class.No] = judged
	return judged.answer
}

// newJudgement is what a pilot thinks of a class.
func newJudgement(compiler *Compiler, pilot *Pilot, class ListClass, rates Rates) *judgement {
	judged := &judgement{class: class.Class, answer: ClassAnswer{Class: class.No}}
	var err error
	judged.requirement, err = compiler.Requirement(class.Class.Require)
	if err == nil {
		judged.rank, err = compiler.Rank(class.Class.Rank)
	}
	if err != nil { // checked at submit, so this is another version's expression
		judged.answer.FailedClause = shorten(err.Error())
		return judged
	}
	facts := Facts{Pilot: pilot, Task: &task.Task{Resources: class.Class.Resources}}
	verdict := judged.requirement.checkClass(&facts)
	judged.answer.Feasible, judged.answer.FailedClause = verdict.Feasible, verdict.FailedClause
	if verdict.Feasible {
		judged.answer.PerTask = judged.rank.perTask()
		judged.answer.Base = judged.rank.classBase(&facts, rates)
	}
	return judged
}

// live tells whether an answer about the class depends on what runs.
func (j *judgement) live() bool {
	return j.requirement != nil && j.requirement.uses.Live || j.rank != nil && j.rank.uses.Live
}

// exception tells whether the pilot sees a task otherwise than its class
// answer and the entry base say.
func (e *Evaluator) exception(entry *ListEntry) (Exception, bool) {
	judged := e.classes[entry.Class]
	if judged == nil || !judged.answer.Feasible {
		return Exception{}, false
	}
	facts := Facts{Pilot: &e.pilot, Task: entry.Task, Files: e.measured(entry.Files), Local: e.local}
	return judged.exception(&facts, entry.No, e.rankOf)
}

// exception judges one task of a class that the pilot can run.
func (j *judgement) exception(facts *Facts, no uint64, rankOf func(*Rank, *Facts, uint64) float64) (Exception, bool) {
	if j.requirement.perTask() {
		if verdict := j.requirement.checkTask(facts); !verdict.Feasible {
			return Exception{No: no, Infeasible: true, FailedClause: verdict.FailedClause}, true
		}
	}
	if j.answer.PerTask || j.rank.uses.Files && slices.ContainsFunc(facts.Files, facts.has) {
		return Exception{No: no, Rank: rankOf(j.rank, facts, no)}, true
	}
	return Exception{}, false
}

func byNumber(a, b Exception) int { return cmp.Compare(a.No, b.No) }
