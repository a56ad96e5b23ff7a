package storetest

import (
	"reflect"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// kind is how one kind of record is saved and in how many ways it is read.
type kind[T any] struct {
	name  string
	make  func() T
	save  func(taskqueue.Tx, T) error
	reads map[string]func(taskqueue.Tx, T) ([]T, error)
}

// whole saves a record without a zero field and reads it in every way.
func (k kind[T]) whole(t *testing.T, store taskqueue.Store) {
	t.Helper()
	update(t, store, func(tx taskqueue.Tx) error { return k.save(tx, k.make()) })
	view(t, store, func(tx taskqueue.Tx) { k.check(t, tx) })
}

func (k kind[T]) check(t *testing.T, tx taskqueue.Tx) {
	t.Helper()
	for how, read := range k.reads {
		want(t, k.name+" "+how, []T{k.make()})(read(tx, k.make()))
	}
}

// owned changes what was saved and what was loaded and finds the store as it
// was.
func (k kind[T]) owned(t *testing.T, store taskqueue.Store) {
	t.Helper()
	update(t, store, func(tx taskqueue.Tx) error {
		record := k.make()
		err := k.save(tx, record)
		scribble(reflect.ValueOf(&record))
		k.check(t, tx)
		return err
	})
	view(t, store, func(tx taskqueue.Tx) {
		for _, read := range k.reads {
			records, err := read(tx, k.make())
			if err != nil {
				t.Fatal(err)
			}
			scribble(reflect.ValueOf(&records))
		}
		k.check(t, tx)
	})
}

var kinds = []interface {
	whole(*testing.T, taskqueue.Store)
	owned(*testing.T, taskqueue.Store)
}{descriptions, workflowKind, fileKind, classKind, attemptKind, leaseKind, siteKind, pilotKind, grantKind, usageKind, stateKind}

func testWholeRecords(t *testing.T, store taskqueue.Store) {
	for _, kind := range kinds {
		kind.whole(t, store)
	}
}

func testOwnership(t *testing.T, store taskqueue.Store) {
	for _, kind := range kinds {
		kind.owned(t, store)
	}
	update(t, store, func(tx taskqueue.Tx) error {
		value, out := []byte("value"), []byte("out")
		err := first(tx.Meta().Set("name", value), tx.Attempts().SaveLog(task.AttemptID{}, out, nil))
		value[0], out[0] = 'x', 'x'
		return err
	})
	for range 2 {
		view(t, store, func(tx taskqueue.Tx) {
			value, _ := tx.Meta().Get("name")
			out, _, _ := tx.Attempts().LoadLog(task.AttemptID{})
			if string(value) != "value" || string(out) != "out" {
				t.Fatalf("value %q and log %q are shared with the caller", value, out)
			}
			value[0], out[0] = 'y', 'y'
		})
	}
}

var descriptions = kind[task.Task]{
	name: "description",
	make: func() task.Task { return filled[task.Task](1) },
	save: func(tx taskqueue.Tx, described task.Task) error {
		return tx.Tasks().Add([]task.Task{described}, []taskqueue.TaskState{{ID: described.ID, Seq: 1, State: task.Blocked}})
	},
	reads: map[string]func(taskqueue.Tx, task.Task) ([]task.Task, error){
		"described": func(tx taskqueue.Tx, r task.Task) ([]task.Task, error) { return tx.Tasks().Describe(r.ID) },
	},
}

var stateKind = kind[taskqueue.TaskState]{
	name: "task state",
	make: func() taskqueue.TaskState {
		state := filled[taskqueue.TaskState](2)
		state.State = task.Ready
		return state
	},
	save: func(tx taskqueue.Tx, state taskqueue.TaskState) error {
		before := taskqueue.TaskState{ID: state.ID, Seq: state.Seq, State: task.Blocked}
		return first(add(tx, before), tx.Tasks().Save(state))
	},
	reads: map[string]func(taskqueue.Tx, taskqueue.TaskState) ([]taskqueue.TaskState, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.TaskState) ([]taskqueue.TaskState, error) {
			return tx.Tasks().Load(r.ID)
		},
		"ready": func(tx taskqueue.Tx, r taskqueue.TaskState) ([]taskqueue.TaskState, error) {
			return tx.Tasks().ReadyIn(r.Class, r.NotBefore, 10)
		},
		"in workflow": func(tx taskqueue.Tx, r taskqueue.TaskState) ([]taskqueue.TaskState, error) {
			return tx.Tasks().InWorkflow(r.ID.Workflow(), 0, 10)
		},
	},
}

var workflowKind = kind[taskqueue.Workflow]{
	name: "workflow",
	make: func() taskqueue.Workflow { return filled[taskqueue.Workflow](3) },
	save: func(tx taskqueue.Tx, workflow taskqueue.Workflow) error { return tx.Workflows().Save(workflow) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Workflow) ([]taskqueue.Workflow, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.Workflow) ([]taskqueue.Workflow, error) {
			return tx.Workflows().Load(r.ID)
		},
		"listed": func(tx taskqueue.Tx, _ taskqueue.Workflow) ([]taskqueue.Workflow, error) {
			return tx.Workflows().List("", "", "", 10)
		},
	},
}

var fileKind = kind[taskqueue.FileRecord]{
	name: "file",
	make: func() taskqueue.FileRecord { return filled[taskqueue.FileRecord](4) },
	save: func(tx taskqueue.Tx, file taskqueue.FileRecord) error { return tx.Files().Save(file) },
	reads: map[string]func(taskqueue.Tx, taskqueue.FileRecord) ([]taskqueue.FileRecord, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.FileRecord) ([]taskqueue.FileRecord, error) {
			return tx.Files().Load(r.LFN)
		},
		"listed": func(tx taskqueue.Tx, _ taskqueue.FileRecord) ([]taskqueue.FileRecord, error) {
			return tx.Files().List("", "", 10)
		},
	},
}

var classKind = kind[taskqueue.Eligibility]{
	name: "class",
	make: func() taskqueue.Eligibility { return filled[taskqueue.Eligibility](5) },
	save: func(tx taskqueue.Tx, class taskqueue.Eligibility) error { return tx.Files().SaveClass(class) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Eligibility) ([]taskqueue.Eligibility, error){
		"listed": func(tx taskqueue.Tx, _ taskqueue.Eligibility) ([]taskqueue.Eligibility, error) {
			return tx.Files().Classes()
		},
	},
}

var attemptKind = kind[taskqueue.Attempt]{
	name: "attempt",
	make: func() taskqueue.Attempt {
		attempt := filled[taskqueue.Attempt](6)
		attempt.State = taskqueue.AttemptRunning
		attempt.Outcome.Stdout, attempt.Outcome.Stderr = nil, nil
		return attempt
	},
	save: func(tx taskqueue.Tx, attempt taskqueue.Attempt) error { return tx.Attempts().Save(attempt) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Attempt) ([]taskqueue.Attempt, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.Attempt) ([]taskqueue.Attempt, error) {
			return tx.Attempts().Load(r.Outcome.Attempt)
		},
		"of task": func(tx taskqueue.Tx, r taskqueue.Attempt) ([]taskqueue.Attempt, error) {
			return tx.Attempts().OfTask(r.Outcome.Attempt.Task)
		},
		"running": func(tx taskqueue.Tx, r taskqueue.Attempt) ([]taskqueue.Attempt, error) {
			return tx.Attempts().RunningAt(r.Outcome.Attempt.Pilot)
		},
	},
}

var leaseKind = kind[taskqueue.Lease]{
	name: "lease",
	make: func() taskqueue.Lease { return filled[taskqueue.Lease](7) },
	save: func(tx taskqueue.Tx, lease taskqueue.Lease) error { return tx.Leases().Save(lease) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Lease) ([]taskqueue.Lease, error){
		"loaded":  func(tx taskqueue.Tx, r taskqueue.Lease) ([]taskqueue.Lease, error) { return tx.Leases().Load(r.ID) },
		"of site": func(tx taskqueue.Tx, r taskqueue.Lease) ([]taskqueue.Lease, error) { return tx.Leases().OfSite(r.Site) },
	},
}

var siteKind = kind[taskqueue.SiteRecord]{
	name: "site",
	make: func() taskqueue.SiteRecord { return filled[taskqueue.SiteRecord](8) },
	save: func(tx taskqueue.Tx, site taskqueue.SiteRecord) error { return tx.Sites().Save(site) },
	reads: map[string]func(taskqueue.Tx, taskqueue.SiteRecord) ([]taskqueue.SiteRecord, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.SiteRecord) ([]taskqueue.SiteRecord, error) {
			return tx.Sites().Load(r.Name)
		},
		"listed": func(tx taskqueue.Tx, _ taskqueue.SiteRecord) ([]taskqueue.SiteRecord, error) { return tx.Sites().All() },
	},
}

var pilotKind = kind[taskqueue.PilotRecord]{
	name: "pilot",
	make: func() taskqueue.PilotRecord { return filled[taskqueue.PilotRecord](9) },
	save: func(tx taskqueue.Tx, pilot taskqueue.PilotRecord) error { return tx.Pilots().Save(pilot) },
	reads: map[string]func(taskqueue.Tx, taskqueue.PilotRecord) ([]taskqueue.PilotRecord, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.PilotRecord) ([]taskqueue.PilotRecord, error) {
			return tx.Pilots().Load(r.ID)
		},
		"of site": func(tx taskqueue.Tx, r taskqueue.PilotRecord) ([]taskqueue.PilotRecord, error) {
			return tx.Pilots().OfSite(r.Site)
		},
	},
}

var grantKind = kind[taskqueue.Grant]{
	name: "grant",
	make: func() taskqueue.Grant { return filled[taskqueue.Grant](10) },
	save: func(tx taskqueue.Tx, grant taskqueue.Grant) error { return tx.Grants().Save(grant) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Grant) ([]taskqueue.Grant, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.Grant) ([]taskqueue.Grant, error) { return tx.Grants().Load(r.ID) },
		"listed": func(tx taskqueue.Tx, _ taskqueue.Grant) ([]taskqueue.Grant, error) { return tx.Grants().All() },
	},
}

var usageKind = kind[taskqueue.Usage]{
	name: "usage",
	make: func() taskqueue.Usage { return filled[taskqueue.Usage](11) },
	save: func(tx taskqueue.Tx, u taskqueue.Usage) error { return tx.Usage().Save(u) },
	reads: map[string]func(taskqueue.Tx, taskqueue.Usage) ([]taskqueue.Usage, error){
		"loaded": func(tx taskqueue.Tx, r taskqueue.Usage) ([]taskqueue.Usage, error) {
			return tx.Usage().Load(r.UsageKey)
		},
		"listed": func(tx taskqueue.Tx, _ taskqueue.Usage) ([]taskqueue.Usage, error) {
			return tx.Usage().Since("", taskqueue.UsageKey{}, 10)
		},
	},
}
