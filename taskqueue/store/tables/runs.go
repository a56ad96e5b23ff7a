package tables

import (
	"encoding/binary"
	"fmt"
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
	value := make([]byte, 0, 64)
	for _, n := range []int64{
		int64(len(r.records)), int64(r.traits.state), int64(r.traits.priority), int64(r.traits.class),
		int64(r.traits.notBefore), int64(r.traits.lease), int64(len(r.workflow)),
	} {
		value = binary.AppendVarint(value, n)
	}
	return append(append(value, r.workflow...), record.Bind(r.records)...)
}

func (t *tx) runOf(first uint64, value []byte) (*run, error) {
	var head [7]int64
	for i := range head {
		n, size := binary.Varint(value)
		if size <= 0 {
			return nil, t.damaged(runs, errCut)
		}
		head[i], value = n, value[size:]
	}
	if head[6] < 0 || head[6] > int64(len(value)) {
		return nil, t.damaged(runs, errCut)
	}
	records, err := record.Unbind(value[head[6]:], int(head[0]))
	if err != nil {
		return nil, t.damaged(runs, err)
	}
	return &run{
		first: first, workflow: task.WorkflowID(value[:head[6]]), records: records,
		traits: traits{task.State(head[1]), int(head[2]), taskqueue.ClassID(head[3]), taskqueue.Instant(head[4]), task.LeaseID(head[5])},
	}, nil
}

// place is an entry of an index. Its key ends with the number of the run's first task.
type place struct {
	table Table
	key   key
	value []byte
}

// places are where the indexes have a run.
func (r *run) places() []place {
	found := append(make([]place, 0, 4), place{runsByWorkflow, text(r.workflow).number(uint64(r.traits.state)).number(r.first), nil})
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
			found = append(found, place{runsInBackoff, key(nil).signed(int64(r.traits.notBefore)).number(r.first), nil})
		}
	case task.Leased:
		found = append(found, place{runsLeased, number(r.traits.lease).number(r.first), nil})
	}
	return found
}

// firstOf reads the number of a run's first task from an entry of an index.
func firstOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// runAt returns the run that a task is in.
func (t *tx) runAt(seq uint64) (*run, error) {
	if t.at != nil && t.at.first <= seq && seq < t.at.beyond() {
		return t.at, nil
	}
	t.at = nil
	err := t.scan(runs, Span{Before: number(seq + 1), Down: true}, func(row Row) (_ bool, err error) {
		t.at, err = t.runOf(firstOf(row.Key), row.Value)
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

// replace writes what became of a run; nil was none before.
func (t *tx) replace(old *run, after []run) {
	t.at = nil
	if old != nil {
		for _, p := range old.places() {
			if !slices.ContainsFunc(after, func(r run) bool { return r.first == old.first && r.traits == old.traits }) {
				t.drop(p.table, p.key)
			}
		}
		if len(after) == 0 {
			t.drop(runs, number(old.first))
		}
	}
	for i := range after {
		t.put(runs, number(after[i].first), after[i].encode())
		for _, p := range after[i].places() {
			t.put(p.table, p.key, p.value)
		}
	}
}
