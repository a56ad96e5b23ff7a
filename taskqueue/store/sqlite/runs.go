package sqlite

import (
	"database/sql/driver"
	"fmt"

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
	first   int64 // Seq of the first task
	traits  traits
	records [][]byte // of the states without Seq and traits, by age
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

// newMember is a task with a changed or new state.
func newMember(s *taskqueue.TaskState) member {
	bare := *s
	bare.Seq, bare.State, bare.Priority, bare.Class, bare.NotBefore, bare.Lease = 0, 0, 0, 0, 0, 0
	return member{traitsOf(s), stateCodec.Encode(&bare)}
}

// beyond is the Seq that comes after the run.
func (r *run) beyond() int64 { return r.first + int64(len(r.records)) }

func (r *run) members() []member {
	members := make([]member, len(r.records))
	for i := range members {
		members[i] = member{r.traits, r.records[i]}
	}
	return members
}

// cut makes runs of tasks that follow each other in age.
func cut(first int64, members []member) []run {
	var runs []run
	for i, m := range members {
		if i == 0 || m.traits != members[i-1].traits {
			runs = append(runs, run{first: first + int64(i), traits: m.traits})
		}
		last := &runs[len(runs)-1]
		last.records = append(last.records, m.record)
	}
	return runs
}

// The columns of a run, in the order of runOf.
const runColumns = "seq, number, state, priority, class, not_before, lease, records"

func (t *tx) runOf(row []driver.Value) (*run, error) {
	records, err := record.Unbind(row[7].([]byte), int(row[1].(int64)))
	if err != nil {
		return nil, t.damaged(err)
	}
	return &run{
		first: row[0].(int64),
		traits: traits{
			task.State(row[2].(int64)), int(row[3].(int64)), taskqueue.ClassID(row[4].(int64)),
			taskqueue.Instant(row[5].(int64)), task.LeaseID(row[6].(int64)),
		},
		records: records,
	}, nil
}

// runAt returns the run that a task is in.
func (t *tx) runAt(seq int64) (*run, error) {
	if t.at != nil && t.at.first <= seq && seq < t.at.beyond() {
		return t.at, nil
	}
	t.at = nil
	err := t.read("SELECT "+runColumns+" FROM runs WHERE seq <= ? ORDER BY seq DESC LIMIT 1", func(row []driver.Value) (err error) {
		t.at, err = t.runOf(row)
		return err
	}, seq)
	if err == nil && (t.at == nil || seq >= t.at.beyond()) {
		err = t.damaged(fmt.Errorf("task number %d has a name and no state", seq))
	}
	if err != nil {
		return nil, err
	}
	return t.at, nil
}

// appendState reads the state of a run's i-th task.
func (t *tx) appendState(found []taskqueue.TaskState, r *run, i int) ([]taskqueue.TaskState, error) {
	found, err := appendDecoded(found, t, stateCodec, r.records[i])
	if err != nil {
		return nil, err
	}
	s := &found[len(found)-1]
	s.Seq = uint64(r.first) + uint64(i)
	s.State, s.Priority, s.Class, s.NotBefore, s.Lease =
		r.traits.state, r.traits.priority, r.traits.class, r.traits.notBefore, r.traits.lease
	t.remember(s.ID, r.first+int64(i))
	return found, nil
}

// states returns, of the runs that a query finds, the tasks that are younger
// than after, at most limit.
func (t *tx) states(sql string, after int64, limit int, values ...driver.Value) (found []taskqueue.TaskState, err error) {
	if limit < 1 {
		return nil, t.usable()
	}
	err = t.read(sql, func(row []driver.Value) error {
		r, err := t.runOf(row)
		if err != nil {
			return err
		}
		for i := int(max(0, after+1-r.first)); i < len(r.records); i++ {
			if found, err = t.appendState(found, r, i); err != nil {
				return err
			}
			if len(found) == limit {
				return errStop
			}
		}
		return nil
	}, values...)
	return found, err
}

func (t *tx) insertRun(workflow task.WorkflowID, r *run) error {
	return t.write("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", r.first, int64(len(r.records)), string(workflow),
		int64(r.traits.state), int64(r.traits.priority), int64(r.traits.class), int64(r.traits.notBefore), int64(r.traits.lease),
		record.Bind(r.records))
}

// replaceRun writes what became of a run: the first of the new ones has its
// row.
func (t *tx) replaceRun(workflow task.WorkflowID, old *run, runs []run) error {
	t.at = nil
	var err error
	switch r := &runs[0]; {
	case r.traits == old.traits && len(runs) == 1: // no index has to change
		err = t.write("UPDATE runs SET records = ? WHERE seq = ?", record.Bind(r.records), r.first)
	case r.traits == old.traits:
		err = t.write("UPDATE runs SET number = ?, records = ? WHERE seq = ?", int64(len(r.records)), record.Bind(r.records), r.first)
	default:
		err = t.write(`UPDATE runs SET number = ?, state = ?, priority = ?, class = ?, not_before = ?, lease = ?, records = ? WHERE seq = ?`,
			int64(len(r.records)), int64(r.traits.state), int64(r.traits.priority), int64(r.traits.class),
			int64(r.traits.notBefore), int64(r.traits.lease), record.Bind(r.records), r.first)
	}
	if err != nil {
		return err
	}
	for i := range runs[1:] {
		if err := t.insertRun(workflow, &runs[1+i]); err != nil {
			return err
		}
	}
	return nil
}
