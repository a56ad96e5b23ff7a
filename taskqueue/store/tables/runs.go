package tables

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

// longestRun is how many tasks share a row at most. The state of a task that
// has just been submitted takes about 60 bytes, so that two rows fill a page.
const longestRun = 32

// run is a row of states: of tasks of one workflow that follow each other in
// age and have their traits in common. Tasks are submitted, released and
// leased by the hundred, so most of a queue's rows and entries of indexes serve
// many. A task that changes alone leaves its run, which is cut in up to three.
type run struct {
	first    uint64 // Seq of the first task
	workflow task.WorkflowID
	traits   traits
	records  [][]byte // of the states without Seq and traits, by age
	value    []byte   // of its row, if it is in the table
}

// traits are what tasks are searched by.
type traits struct {
	state     task.State
	priority  int
	class     taskqueue.ClassID
	notBefore taskqueue.Instant
	lease     task.LeaseID
}

func traitsOf(s *taskqueue.TaskState) traits {
	return traits{s.State, s.Priority, s.Class, s.NotBefore, s.Lease}
}

// member is a task of a run on its way to another one.
type member struct {
	traits traits
	record []byte
}

var stateCodec = record.New[taskqueue.TaskState]()

// newMember is a task with a changed or new state.
func newMember(s *taskqueue.TaskState) member {
	bare := *s
	bare.Seq, bare.State, bare.Priority, bare.Class, bare.NotBefore, bare.Lease = 0, 0, 0, 0, 0, 0
	return member{traitsOf(s), stateCodec.Encode(&bare)}
}

// beyond is the Seq that comes after the run.
func (r *run) beyond() uint64 { return r.first + uint64(len(r.records)) }

func (r *run) members() []member {
	members := make([]member, len(r.records))
	for i := range members {
		members[i] = member{r.traits, r.records[i]}
	}
	return members
}

// cut makes runs of tasks that follow each other in age.
func cut(workflow task.WorkflowID, first uint64, members []member) []run {
	var runs []run
	for i, m := range members {
		if i == 0 || m.traits != members[i-1].traits {
			runs = append(runs, run{first: first + uint64(i), workflow: workflow, traits: m.traits})
		}
		last := &runs[len(runs)-1]
		last.records = append(last.records, m.record)
	}
	return runs
}

// encode is how a run is kept.
func (r *run) encode() []byte {
	head := number(uint64(len(r.records))).number(uint64(r.traits.state)).signed(int64(r.traits.priority)).
		number(uint64(r.traits.class)).signed(int64(r.traits.notBefore)).number(uint64(r.traits.lease)).text(string(r.workflow))
	return append(head, record.Bind(r.records)...)
}

func (t *tx) runOf(row Row) (*run, error) {
	head, value := parts{rest: row.Key}, parts{rest: row.Value}
	r := &run{first: head.number(), value: row.Value}
	count := value.number()
	r.traits = traits{task.State(value.number()), int(value.signed()), taskqueue.ClassID(value.number()), taskqueue.Instant(value.signed()), task.LeaseID(value.number())}
	r.workflow = task.WorkflowID(value.text())
	err := value.err
	if err == nil {
		r.records, err = record.Unbind(value.rest, int(count))
	}
	if err != nil {
		return nil, t.damaged(runs, err)
	}
	return r, nil
}

// place is an entry of an index.
type place struct {
	table Table
	key   key
	value []byte
}

// places are where the indexes have a run.
func (r *run) places() []place {
	first := number(r.first)
	found := append(make([]place, 0, 4), place{runsByWorkflow, text(r.workflow).number(uint64(r.traits.state)).number(r.first), first})
	switch r.traits.state {
	case task.Ready:
		found = append(found, place{
			runsReady, number(r.traits.class).signed(-int64(r.traits.priority)).number(r.first),
			key(nil).signed(int64(r.traits.notBefore)).number(uint64(len(r.records))),
		}, place{
			runsReadyInOrder, key(nil).signed(-int64(r.traits.priority)).number(r.first),
			number(r.traits.class).signed(int64(r.traits.notBefore)).number(uint64(len(r.records))),
		})
		if r.traits.notBefore > 0 {
			found = append(found, place{runsInBackoff, key(nil).signed(int64(r.traits.notBefore)).number(r.first), first})
		}
	case task.Leased:
		found = append(found, place{runsLeased, number(r.traits.lease).number(r.first), first})
	}
	return found
}

// runAt returns the run that a task is in.
func (t *tx) runAt(seq uint64) (*run, error) {
	if t.at != nil && t.at.first <= seq && seq < t.at.beyond() {
		return t.at, nil
	}
	t.at = nil
	err := t.scan(runs, Span{Before: number(seq + 1), Down: true}, func(row Row) (_ bool, err error) {
		t.at, err = t.runOf(row)
		return false, err
	})
	if err == nil && (t.at == nil || seq >= t.at.beyond()) {
		err = t.damaged(runs, fmt.Errorf("task number %d has a name and no state", seq))
	}
	if err != nil {
		return nil, err
	}
	return t.at, nil
}

// appendState reads the state of a run's i-th task.
func (t *tx) appendState(found []taskqueue.TaskState, r *run, i int) ([]taskqueue.TaskState, error) {
	found = append(found, taskqueue.TaskState{})
	s := &found[len(found)-1]
	if err := stateCodec.Decode(r.records[i], s); err != nil {
		return nil, t.damaged(runs, err)
	}
	s.Seq = r.first + uint64(i)
	s.State, s.Priority, s.Class, s.NotBefore, s.Lease =
		r.traits.state, r.traits.priority, r.traits.class, r.traits.notBefore, r.traits.lease
	t.remember(s.ID, s.Seq)
	return found, nil
}

// changes are edits on their way into tables.
type changes map[Table][]edit

func (c changes) add(table Table, e edit) { c[table] = append(c[table], e) }

// replace notes what became of a run: nil was none before.
func (c changes) replace(old *run, after []run) {
	var before []byte // of the row that the first of the new ones has
	if old != nil {
		before = old.value
		for _, p := range old.places() {
			c.add(p.table, edit{p.key, p.value, nil})
		}
		if len(after) == 0 {
			c.add(runs, edit{number(old.first), before, nil})
		}
	}
	for i := range after {
		c.add(runs, edit{number(after[i].first), before, after[i].encode()})
		for _, p := range after[i].places() {
			c.add(p.table, edit{p.key, nil, p.value})
		}
		before = nil
	}
}

// apply makes changes, table by table.
func (t *tx) apply(c changes) error {
	for _, table := range slices.Sorted(maps.Keys(c)) {
		if err := t.edit(table, c[table]...); err != nil {
			return err
		}
	}
	return nil
}
