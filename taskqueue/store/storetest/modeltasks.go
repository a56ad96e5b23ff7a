package storetest

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type modelTasks modelTx

func (t modelTasks) Describe(ids ...task.ID) (found []task.Task, err error) {
	rows, err := t.tasks.Load(ids...)
	for _, row := range rows {
		found = append(found, row.description)
	}
	return found, err
}

func (t modelTasks) Load(ids ...task.ID) (found []taskqueue.TaskState, err error) {
	rows, err := t.tasks.Load(ids...)
	for _, row := range rows {
		found = append(found, row.state)
	}
	return found, err
}

func (t modelTasks) Add(tasks []task.Task, states []taskqueue.TaskState) error {
	for i, state := range states {
		if t.tasks.at(state.ID) >= 0 {
			return taskqueue.ErrTaskExists
		}
		t.tasks.all = append(t.tasks.all, modelTask{tasks[i], state})
	}
	return nil
}

func (t modelTasks) Save(states ...taskqueue.TaskState) error {
	for _, state := range states {
		at := t.tasks.at(state.ID)
		if at < 0 {
			return taskqueue.ErrTaskAbsent
		}
		state.Seq = t.tasks.all[at].state.Seq
		t.tasks.all[at].state = state
	}
	return nil
}

func (t modelTasks) DeleteWorkflow(id task.WorkflowID, _ int) (more bool, err error) {
	t.tasks.drop(func(row modelTask) bool { return row.state.ID.Workflow() == id })
	t.attempts.drop(func(a taskqueue.Attempt) bool { return a.Outcome.Attempt.Task.Workflow() == id })
	t.uses.drop(func(u modelUse) bool { return u.reader.Workflow() == id })
	t.logs.drop(func(l modelLog) bool { return l.of.Task.Workflow() == id })
	return false, nil
}

// scan returns the states that hold, by age.
func (t modelTasks) scan(holds func(taskqueue.TaskState) bool) (found []taskqueue.TaskState) {
	for _, row := range t.tasks.all {
		if holds(row.state) {
			found = append(found, row.state)
		}
	}
	return sorted(found, func(s taskqueue.TaskState) uint64 { return s.Seq })
}

func (t modelTasks) InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]taskqueue.TaskState, error) {
	return head(t.scan(func(s taskqueue.TaskState) bool {
		return s.ID.Workflow() == id && s.Seq > after && (len(states) == 0 || slices.Contains(states, s.State))
	}), limit), nil
}

// ready returns READY tasks of a class in the order of hand-out.
func (t modelTasks) ready(class taskqueue.ClassID) []taskqueue.TaskState {
	found := t.scan(func(s taskqueue.TaskState) bool { return s.State == task.Ready && s.Class == class })
	slices.SortStableFunc(found, func(a, b taskqueue.TaskState) int { return cmp.Compare(b.Priority, a.Priority) })
	return found
}

func (t modelTasks) ReadyIn(class taskqueue.ClassID, now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	found := slices.DeleteFunc(t.ready(class), func(s taskqueue.TaskState) bool { return s.NotBefore > now })
	return head(found, limit), nil
}

func (t modelTasks) ReadyOf(quotas map[taskqueue.ClassID]int, now taskqueue.Instant, limit, _ int) (found []taskqueue.TaskState, complete bool, err error) {
	for class, quota := range quotas {
		some, err := t.ReadyIn(class, now, quota)
		if err != nil {
			return nil, false, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b taskqueue.TaskState) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	})
	return head(found, limit), true, nil
}

func (t modelTasks) ReadyClasses() (map[taskqueue.ClassID]int, error) {
	counts := map[taskqueue.ClassID]int{}
	for _, s := range t.scan(func(s taskqueue.TaskState) bool { return s.State == task.Ready }) {
		counts[s.Class]++
	}
	return counts, nil
}

func (t modelTasks) NextBackoff(now taskqueue.Instant) (next taskqueue.Instant, err error) {
	for _, s := range t.scan(func(s taskqueue.TaskState) bool { return s.State == task.Ready && s.NotBefore > now }) {
		if next == 0 || s.NotBefore < next {
			next = s.NotBefore
		}
	}
	return next, nil
}

func (t modelTasks) Pausing(now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	found := t.scan(func(s taskqueue.TaskState) bool { return s.State == task.Ready && s.NotBefore > now })
	slices.SortStableFunc(found, func(a, b taskqueue.TaskState) int { return cmp.Compare(a.NotBefore, b.NotBefore) })
	return head(found, limit), nil
}

func (t modelTasks) InLease(id task.LeaseID) ([]taskqueue.TaskState, error) {
	return t.scan(func(s taskqueue.TaskState) bool { return s.State == task.Leased && s.Lease == id }), nil
}

func (t modelTasks) ReadyBefore(class taskqueue.ClassID, priority int, seq uint64) (count int, err error) {
	for _, s := range t.ready(class) {
		if s.Priority > priority || s.Priority == priority && s.Seq < seq {
			count++
		}
	}
	return count, nil
}

func (t modelTasks) DoneByMemo(id task.WorkflowID, keys ...task.Digest) (found []taskqueue.TaskState, err error) {
	for _, key := range keys {
		found = append(found, t.scan(func(s taskqueue.TaskState) bool {
			return s.State == task.Done && s.ID.Workflow() == id && s.MemoKey == key && !key.IsZero()
		})...)
	}
	return found, nil
}
