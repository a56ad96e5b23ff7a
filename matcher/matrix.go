package matcher

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// ErrRowGap tells that a row update does not follow the row at hand; the
// receiver must ask the pilot for its whole row.
var ErrRowGap = errors.New("row update does not follow the row at hand: ask the pilot for its whole row")

// MatrixTask is a task as the matrix needs it.
type MatrixTask struct {
	No        uint64
	Class     uint32
	Version   uint64  // N of the list version that introduced it
	EntryBase float64 // see Rank.EntryBase
	Order     uint64  // of submission: the smaller, the older
	Priority  int     // higher first
	Queue     string  // that it was submitted to; see DAD
}

// Places are what a pilot can take now.
type Places struct {
	Free      task.Resources // not in use by running or staging tasks
	FreeSlots int            // slots for tasks that start at once
	Prefill   int            // further tasks that it may be given early
	// Ending is the most that the end of one task frees; a task that does not
	// fit then is not given early. Zero: not known.
	Ending task.Resources
	// Next are tasks that are not ready, as they miss what runs there is making,
	// and nothing else: none that its class ranks by seconds of stage-in starts
	// sooner elsewhere, unless another pilot has more of it.
	Next []uint64
	// Closed tells that the pilot takes nothing, whatever ends there: nobody
	// waits for it.
	Closed bool
}

// Assignment gives a task to a pilot.
type Assignment struct {
	Pilot   task.PilotID
	No      uint64
	Rank    float64
	Prefill bool // to be kept until a slot is free
}

// Matrix is the standing rank matrix of a site: which pilot may run which
// task and how much it prefers it (004, III-C). It keeps what the pilots have
// answered, so a free slot is served at once. It belongs to one mastership
// and is not safe for concurrent use.
type Matrix struct {
	term    task.Term
	tasks   map[uint64]*cell
	classes map[uint32]*block
	rows    []*pilotRow // by pilot id
	passes  passCounter
	runs    uint64 // of solvers
	due     bool   // tasks have entered or slots were freed since a DAD's last pass

	foresight    Foresight // nil: no slots are kept
	reservations []*reservation
	reserveDue   time.Time // when tasks that fit nowhere are looked for again

	localityWait float64 // seconds; see SetLocalityWait
	slots        int
	pace         float64
	backlog      float64 // seconds, for the solver's run
	lookAgain    time.Duration
}

// cell is a task in the matrix.
type cell struct {
	MatrixTask
	block *block
	// reservation is of slots that are kept for it; nil: none are.
	reservation *reservation
	ready       bool
	starving    bool        // passed over too often
	passes      int         // younger tasks placed before it where it could run
	since       uint64      // placements of the site when it became ready
	takenIn     uint64      // the solver's run that has chosen it
	node        int         // its number in the exact solver's network
	gone        bool        // removed; exceptions may still point here
	keepers     []*pilotRow // that gain something by it
}

// level orders tasks before their rank does.
func (c *cell) level() int {
	if c.starving {
		return 2*c.Priority + 1
	}
	return 2 * c.Priority
}

// block is a class in the matrix. Within a class every pilot has the tasks
// without exception in the same order, so the order is kept once.
type block struct {
	no      uint32
	need    task.Resources
	seconds bool    // its rank is that of seconds of stage-in
	ready   []*cell // in the order of byPreference
	newest  uint64  // list version of its newest task
	// answered and feasible count the pilots that have judged the class and
	// those that can run it.
	answered, feasible int
}

// NewMatrix returns an empty matrix for the lists of one term.
func NewMatrix(term task.Term) *Matrix {
	return &Matrix{
		term: term, tasks: make(map[uint64]*cell), classes: make(map[uint32]*block),
		passes: passCounter{limit: PassLimit},
	}
}

// AddClass makes a class known; it must come before its tasks and before rows
// that answer it. A known class stays as it is.
func (m *Matrix) AddClass(class ListClass) {
	if m.classes[class.No] == nil {
		m.classes[class.No] = &block{no: class.No, need: class.Class.Resources, seconds: cmp.Or(class.Class.Rank, DefaultRank) == DefaultRank}
	}
}

// RemoveClass forgets a class, its tasks and the answers about it.
func (m *Matrix) RemoveClass(no uint32) {
	block := m.classes[no]
	if block == nil {
		return
	}
	for _, c := range m.tasks {
		if c.block == block {
			c.ready = false
			c.gone = true
			delete(m.tasks, c.No)
		}
	}
	delete(m.classes, no)
	for _, row := range m.rows {
		if at, found := row.find(no); found {
			row.answers = slices.Delete(row.answers, at, at+1)
		}
	}
}

// AddTask adds a task, not ready. A known number and a task of an unknown
// class are ignored.
func (m *Matrix) AddTask(t MatrixTask) {
	block := m.classes[t.Class]
	if block == nil || m.tasks[t.No] != nil {
		return
	}
	t.EntryBase = number(t.EntryBase)
	m.tasks[t.No] = &cell{MatrixTask: t, block: block}
	block.newest = max(block.newest, t.Version)
}

// RemoveTask forgets a task: it has ended, was cancelled or returned.
func (m *Matrix) RemoveTask(no uint64) {
	c := m.tasks[no]
	if c == nil {
		return
	}
	m.SetReady(no, false)
	c.gone = true
	delete(m.tasks, no)
}

// SetReady says whether a task may be assigned. Solve makes the tasks that it
// assigns not ready; a refused task is made ready again.
func (m *Matrix) SetReady(no uint64, ready bool) {
	c := m.tasks[no]
	if c == nil || c.ready == ready {
		return
	}
	if ready {
		c.block.insert(c)
		c.since = m.passes.placed
		m.due = true
	} else {
		c.block.remove(c)
	}
	c.ready = ready
}

// Ready is the number of tasks that wait for a place.
func (m *Matrix) Ready() int {
	count := 0
	for _, block := range m.classes {
		count += len(block.ready)
	}
	return count
}

func (b *block) insert(c *cell) {
	at, _ := slices.BinarySearchFunc(b.ready, c, byPreference)
	b.ready = slices.Insert(b.ready, at, c)
}

func (b *block) remove(c *cell) {
	if at, found := slices.BinarySearchFunc(b.ready, c, byPreference); found {
		b.ready = slices.Delete(b.ready, at, at+1)
	}
}

// byPreference is the order in which a pilot without exceptions takes the
// tasks of a class.
func byPreference(a, b *cell) int {
	return cmp.Or(
		cmp.Compare(b.level(), a.level()),
		cmp.Compare(b.EntryBase, a.EntryBase),
		cmp.Compare(a.Order, b.Order),
		cmp.Compare(a.No, b.No),
	)
}
