package matcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Pool matches the waiting tasks of a site to one pilot at a time: what
// a central queue does (004, section II; modes centralized and isolated). It
// keeps what it is told of each pilot's cache and an index from files to the
// tasks that read them, so that one match costs about as much as the pilot has
// files that waiting tasks read, and not as much as there are tasks. Order and
// fairness are those of the matrix.
//
// It is not safe for concurrent use.
type Pool struct {
	compiler *Compiler
	rates    Rates
	matrix   *Matrix
	kinds    map[kind]uint32
	uses     map[uint32]int // tasks of a kind
	nextKind uint32
	nextNo   uint64
	tasks    map[task.ID]*waiting
	numbered map[uint64]*waiting
	ofClass  map[uint32]map[uint64]*waiting // only of classes that are judged task by task
	readers  map[task.FilePrint][]*waiting  // in the order of preference
	holders  map[task.FilePrint][]*caller
	callers  map[task.PilotID]*caller
	prints   int // files of all caches, each as often as it is held
	live     int // tasks whose rank looks at what runs at a pilot
	runs     uint64
}

// kind is a class of tasks; those that only holders of some files may run
// stand apart, because no pilot has them in common with others.
type kind struct {
	class task.Class
	bound bool
}

// Waiting is a task that waits for a pilot.
type Waiting struct {
	Task     *task.Task
	Files    []FileInfo
	Order    uint64 // of submission: the smaller, the older
	Priority int
	Since    time.Time // when it became ready; see MatchOverdue
	// Needs are inputs that only a pilot's own cache can give.
	Needs []task.FilePrint
}

type waiting struct {
	Waiting
	no     uint64
	kind   uint32
	base   float64
	live   bool             // its rank looks at what runs at a pilot
	prints []task.FilePrint // of Files, each once
	seen   uint64           // last run that has looked at it
}

// Match is a task chosen for a pilot.
type Match struct {
	Task    task.ID
	Prefill bool
}

// wideReaders is how many readers of one file are ranked one by one. Of a file
// that more tasks read, those behind them gain as much by it and come later in
// age or base rank, so that they can only win through another file.
const wideReaders = 64

// NewPool returns one without tasks and pilots.
func NewPool(compiler *Compiler) *Pool {
	return &Pool{
		compiler: compiler, rates: DefaultRates(), matrix: NewMatrix(task.Term{}),
		kinds: make(map[kind]uint32), uses: make(map[uint32]int),
		tasks: make(map[task.ID]*waiting), numbered: make(map[uint64]*waiting),
		ofClass: make(map[uint32]map[uint64]*waiting),
		readers: make(map[task.FilePrint][]*waiting), holders: make(map[task.FilePrint][]*caller),
		callers: make(map[task.PilotID]*caller),
	}
}

// Len is the number of tasks, those that were matched and not removed
// included.
func (s *Pool) Len() int { return len(s.tasks) }

// Ready is the number of tasks that may be matched.
func (s *Pool) Ready() int { return s.matrix.Ready() }

// Live tells whether there are tasks whose rank looks at what runs at a pilot:
// then each task that a pilot gets changes how the next ones rank.
func (s *Pool) Live() bool { return s.live > 0 }

// Has tells whether a task is known.
func (s *Pool) Has(id task.ID) bool { return s.tasks[id] != nil }

// Add puts a task up, in place of what was known of it.
func (s *Pool) Add(w Waiting) {
	s.Remove(w.Task.ID)
	s.nextNo++
	t := &waiting{Waiting: w, no: s.nextNo, kind: s.number(kind{w.Task.Class(), len(w.Needs) > 0})}
	if rank, err := s.compiler.Rank(w.Task.Rank); err == nil {
		t.base = rank.EntryBase(w.Task, w.Files, s.rates)
		if t.live = rank.Live(); t.live {
			s.live++
		}
	}
	s.tasks[w.Task.ID], s.numbered[t.no] = t, t
	s.uses[t.kind]++
	s.matrix.AddTask(MatrixTask{No: t.no, Class: t.kind, EntryBase: t.base, Order: w.Order, Priority: w.Priority})
	s.matrix.SetReady(t.no, true)
	if s.byTask(w.Task.Class()) {
		if s.ofClass[t.kind] == nil {
			s.ofClass[t.kind] = make(map[uint64]*waiting)
		}
		s.ofClass[t.kind][t.no] = t
	}
	for _, file := range w.Files {
		print := file.Key.Print()
		if slices.Contains(t.prints, print) {
			continue
		}
		t.prints = append(t.prints, print)
		readers := s.readers[print]
		if len(readers) == 0 {
			for _, c := range s.holders[print] {
				c.relevant[print] = struct{}{}
			}
		}
		at, _ := slices.BinarySearchFunc(readers, t, byBase)
		s.readers[print] = slices.Insert(readers, at, t)
	}
}

// byTask tells whether a class must be looked at task by task.
func (s *Pool) byTask(class task.Class) bool {
	requirement, err := s.compiler.Requirement(class.Require)
	if err != nil {
		return false
	}
	rank, err := s.compiler.Rank(class.Rank)
	return requirement.perTask() || err == nil && rank.perTask()
}

func byBase(a, b *waiting) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.base, a.base),
		cmp.Compare(a.Order, b.Order), cmp.Compare(a.no, b.no))
}

func (s *Pool) number(k kind) uint32 {
	no, known := s.kinds[k]
	if !known {
		s.nextKind++
		no = s.nextKind
		s.prune()
		s.kinds[k] = no
		s.matrix.AddClass(ListClass{No: no, Class: k.class})
	}
	return no
}

// mostKinds is how many classes are kept although no task is of them.
const mostKinds = 512

// prune drops the classes without tasks when they have become many.
func (s *Pool) prune() {
	if len(s.kinds) < mostKinds {
		return
	}
	for k, no := range s.kinds {
		if s.uses[no] > 0 {
			continue
		}
		delete(s.kinds, k)
		delete(s.uses, no)
		delete(s.ofClass, no)
		s.matrix.RemoveClass(no)
		for _, c := range s.callers {
			delete(c.judged, no)
		}
	}
}

// Remove forgets a task: it is leased, or not ready any more.
func (s *Pool) Remove(id task.ID) {
	t := s.tasks[id]
	if t == nil {
		return
	}
	if t.live {
		s.live--
	}
	delete(s.tasks, id)
	delete(s.numbered, t.no)
	delete(s.ofClass[t.kind], t.no)
	s.uses[t.kind]--
	s.matrix.RemoveTask(t.no)
	for _, print := range t.prints {
		readers := s.readers[print]
		if at, found := slices.BinarySearchFunc(readers, t, byBase); found {
			readers = slices.Delete(readers, at, at+1)
		}
		if len(readers) > 0 {
			s.readers[print] = readers
			continue
		}
		delete(s.readers, print)
		for _, c := range s.holders[print] {
			delete(c.relevant, print)
		}
	}
}

// Release puts a task up again that was matched in vain.
func (s *Pool) Release(id task.ID) {
	if t := s.tasks[id]; t != nil {
		s.matrix.SetReady(t.no, true)
	}
}

// Takes tells whether a pilot may run a task, and has room for it.
func (s *Pool) Takes(pilot task.PilotID, room task.Resources, id task.ID) bool {
	c, t := s.callers[pilot], s.tasks[id]
	if c == nil || !c.known || t == nil || !room.Fits(t.Task.Resources) {
		return false
	}
	s.judgeAll(c)
	answer := c.judged[t.kind].answer
	if !answer.Feasible {
		return false
	}
	e, apart := s.exception(c, t)
	return apart && !e.Infeasible || !apart && !answer.PerTask
}

// Match has a solver choose tasks for a pilot's places, free slots before
// prefill. They stay known, and are chosen for nobody else, until they are
// removed or released. The solver sees this pilot alone, so it cannot be DAD's.
func (s *Pool) Match(pilot task.PilotID, places Places, solver Solver) []Match {
	c := s.callers[pilot]
	if c == nil || !c.known || places.FreeSlots <= 0 && places.Prefill <= 0 {
		return nil
	}
	s.runs++
	s.judgeAll(c)
	row := s.matrix.row(pilot)
	row.exceptions = s.matrix.tie(s.exceptions(c))
	row.places = places
	chosen := s.matrix.Solve(solver)
	row.exceptions, row.places = nil, Places{}
	matches := make([]Match, len(chosen))
	for i, a := range chosen {
		matches[i] = Match{Task: s.numbered[a.No].Task.ID, Prefill: a.Prefill}
	}
	return matches
}

// MatchOverdue chooses for a pilot, whatever is free there, the first of the tasks that
// have waited since a moment and need more than is free there and the end of one task
// frees: such a task waits for ever beside smaller ones, unless a pilot has it and keeps
// its slots. "" is that there is none.
func (s *Pool) MatchOverdue(pilot task.PilotID, places Places, since time.Time) task.ID {
	var first *cell
	row := s.matrix.row(pilot)
	for _, block := range s.matrix.classes {
		if len(block.ready) == 0 || places.Ending == (task.Resources{}) || places.Free.Add(places.Ending).Fits(block.need) || !row.canRun(block.no) {
			continue
		}
		if c := block.ready[0]; !s.numbered[c.No].Since.After(since) && (first == nil || c.inOrder(first) < 0) {
			first = c
		}
	}
	if first == nil {
		return ""
	}
	s.matrix.SetReady(first.No, false)
	return s.numbered[first.No].Task.ID
}

// judgeAll judges the classes that the pilot has not been asked about.
func (s *Pool) judgeAll(c *caller) {
	row := s.matrix.row(c.pilot.ID)
	if row.answered && len(c.judged) == len(s.kinds) {
		return
	}
	row.answered = true
	var answers []ClassAnswer
	for k, no := range s.kinds {
		if c.judged[no] != nil {
			continue
		}
		j := newJudgement(s.compiler, &c.pilot, ListClass{No: no, Class: k.class}, s.rates)
		j.answer.PerTask = j.answer.PerTask || k.bound
		c.judged[no] = j
		answers = append(answers, j.answer)
	}
	slices.SortFunc(answers, func(a, b ClassAnswer) int { return cmp.Compare(a.Class, b.Class) })
	s.matrix.answer(row, answers)
}

// exceptions ranks the tasks that the pilot sees otherwise than their class:
// those that read a file of its cache, and those that are judged one by one.
func (s *Pool) exceptions(c *caller) []Exception {
	var found []Exception
	look := func(t *waiting) (ready bool) {
		cell := s.matrix.tasks[t.no]
		if cell == nil || !cell.ready {
			return false
		}
		if t.seen == s.runs {
			return true
		}
		t.seen = s.runs
		if e, is := s.exception(c, t); is {
			found = append(found, e)
		}
		return true
	}
	for print := range c.relevant {
		left := wideReaders
		for _, t := range s.readers[print] {
			if look(t) {
				left--
			}
			if left == 0 {
				break
			}
		}
	}
	for _, tasks := range s.ofClass {
		for _, t := range tasks {
			look(t)
		}
	}
	return found
}

func (s *Pool) exception(c *caller, t *waiting) (Exception, bool) {
	j := c.judged[t.kind]
	if !j.answer.Feasible {
		return Exception{}, false
	}
	for _, print := range t.Needs {
		if _, has := c.holds[print]; !has {
			return Exception{}, false // as all tasks of its kind, it is nobody's without exception
		}
	}
	facts := Facts{Pilot: &c.pilot, Task: t.Task, Files: t.Files, Local: c.local}
	return j.exception(&facts, t.no, s.rankOf)
}

// rankOf is a rank by the pair alone: what depends on all tasks of a list, as
// the combined ranks do, is reckoned as for a list of this task.
func (s *Pool) rankOf(rank *Rank, facts *Facts, _ uint64) float64 { return rank.Of(*facts, s.rates) }

// WhyNot counts the pilots that cannot run a task by the first clause that
// fails, and tells how many of those that can lack a file that it needs; known
// is false for a task that is not here.
func (s *Pool) WhyNot(id task.ID) (why Explanation, lacking int, known bool) {
	t := s.tasks[id]
	if t == nil {
		return why, 0, false
	}
	requirement, err := s.compiler.Requirement(t.Task.Requirement())
	if err != nil {
		return why, 0, false
	}
	counts := make(map[string]int)
	for _, c := range s.callers {
		if !c.known {
			continue
		}
		why.Pilots++
		verdict := requirement.Check(Facts{Pilot: &c.pilot, Task: t.Task, Files: t.Files, Local: c.local})
		if !verdict.Feasible {
			counts[verdict.FailedClause]++
			continue
		}
		why.Feasible++
		if slices.ContainsFunc(t.Needs, func(p task.FilePrint) bool { _, has := c.holds[p]; return !has }) {
			lacking++
		}
	}
	for clause, n := range counts {
		why.Clauses = append(why.Clauses, ClauseCount{clause, n})
	}
	slices.SortFunc(why.Clauses, func(a, b ClauseCount) int {
		return cmp.Or(cmp.Compare(b.Pilots, a.Pilots), cmp.Compare(a.Clause, b.Clause))
	})
	return why, lacking, true
}

// IDs lists the tasks that are known, by id.
func (s *Pool) IDs() []task.ID {
	ids := make([]task.ID, 0, len(s.tasks))
	for id := range s.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
