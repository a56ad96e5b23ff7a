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
	reads map[string]func(taskqueue.Tx) ([]T, error)
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
		want(t, k.name+" "+how, []T{k.make()})(read(tx))
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
			records, err := read(tx)
			if err != nil {
				t.Fatal(err)
			}
			scribble(reflect.ValueOf(&records))
		}
		k.check(t, tx)
	})
}

func testWholeRecords(t *testing.T, store taskqueue.Store) {
	descriptions.whole(t, store)
	workflowKind.whole(t, store)
	fileKind.whole(t, store)
	classKind.whole(t, store)
	attemptKind.whole(t, store)
	leaseKind.whole(t, store)
	siteKind.whole(t, store)
	pilotKind.whole(t, store)
	grantKind.whole(t, store)
	usageKind.whole(t, store)
	stateKind.whole(t, store)
}

func testOwnership(t *testing.T, store taskqueue.Store) {
	descriptions.owned(t, store)
	workflowKind.owned(t, store)
	fileKind.owned(t, store)
	classKind.owned(t, store)
	attemptKind.owned(t, store)
	leaseKind.owned(t, store)
	siteKind.owned(t, store)
	pilotKind.owned(t, store)
	grantKind.owned(t, store)
	usageKind.owned(t, store)
	stateKind.owned(t, store)
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
	reads: map[string]func(taskqueue.Tx) ([]task.Task, error){
		"described": func(tx taskqueue.Tx) ([]task.Task, error) { return tx.Tasks().Describe(filled[task.Task](1).ID) },
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
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.TaskState, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.TaskState, error) {
			return tx.Tasks().Load(filled[taskqueue.TaskState](2).ID)
		},
		"ready": func(tx taskqueue.Tx) ([]taskqueue.TaskState, error) {
			state := filled[taskqueue.TaskState](2)
			return tx.Tasks().ReadyIn(state.Class, state.NotBefore, 10)
		},
		"in workflow": func(tx taskqueue.Tx) ([]taskqueue.TaskState, error) {
			return tx.Tasks().InWorkflow(filled[taskqueue.TaskState](2).ID.Workflow(), 0, 10)
		},
	},
}

var workflowKind = kind[taskqueue.Workflow]{
	name: "workflow",
	make: func() taskqueue.Workflow { return filled[taskqueue.Workflow](3) },
	save: func(tx taskqueue.Tx, workflow taskqueue.Workflow) error { return tx.Workflows().Save(workflow) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Workflow, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.Workflow, error) {
			return tx.Workflows().Load(filled[taskqueue.Workflow](3).ID)
		},
		"listed": func(tx taskqueue.Tx) ([]taskqueue.Workflow, error) { return tx.Workflows().List("", "", "", 10) },
	},
}

var fileKind = kind[taskqueue.FileRecord]{
	name: "file",
	make: func() taskqueue.FileRecord { return filled[taskqueue.FileRecord](4) },
	save: func(tx taskqueue.Tx, file taskqueue.FileRecord) error { return tx.Files().Save(file) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.FileRecord, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.FileRecord, error) {
			return tx.Files().Load(filled[taskqueue.FileRecord](4).LFN)
		},
		"listed": func(tx taskqueue.Tx) ([]taskqueue.FileRecord, error) { return tx.Files().List("", "", 10) },
	},
}

var classKind = kind[taskqueue.Eligibility]{
	name: "class",
	make: func() taskqueue.Eligibility { return filled[taskqueue.Eligibility](5) },
	save: func(tx taskqueue.Tx, class taskqueue.Eligibility) error { return tx.Files().SaveClass(class) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Eligibility, error){
		"listed": func(tx taskqueue.Tx) ([]taskqueue.Eligibility, error) { return tx.Files().Classes() },
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
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Attempt, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.Attempt, error) {
			return tx.Attempts().Load(filled[taskqueue.Attempt](6).Outcome.Attempt)
		},
		"of task": func(tx taskqueue.Tx) ([]taskqueue.Attempt, error) {
			return tx.Attempts().OfTask(filled[taskqueue.Attempt](6).Outcome.Attempt.Task)
		},
		"running": func(tx taskqueue.Tx) ([]taskqueue.Attempt, error) {
			return tx.Attempts().RunningAt(filled[taskqueue.Attempt](6).Outcome.Attempt.Pilot)
		},
	},
}

var leaseKind = kind[taskqueue.Lease]{
	name: "lease",
	make: func() taskqueue.Lease { return filled[taskqueue.Lease](7) },
	save: func(tx taskqueue.Tx, lease taskqueue.Lease) error { return tx.Leases().Save(lease) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Lease, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.Lease, error) {
			return tx.Leases().Load(filled[taskqueue.Lease](7).ID)
		},
		"of site": func(tx taskqueue.Tx) ([]taskqueue.Lease, error) {
			return tx.Leases().OfSite(filled[taskqueue.Lease](7).Site)
		},
	},
}

var siteKind = kind[taskqueue.SiteRecord]{
	name: "site",
	make: func() taskqueue.SiteRecord { return filled[taskqueue.SiteRecord](8) },
	save: func(tx taskqueue.Tx, site taskqueue.SiteRecord) error { return tx.Sites().Save(site) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.SiteRecord, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.SiteRecord, error) {
			return tx.Sites().Load(filled[taskqueue.SiteRecord](8).Name)
		},
		"listed": func(tx taskqueue.Tx) ([]taskqueue.SiteRecord, error) { return tx.Sites().All() },
	},
}

var pilotKind = kind[taskqueue.PilotRecord]{
	name: "pilot",
	make: func() taskqueue.PilotRecord { return filled[taskqueue.PilotRecord](9) },
	save: func(tx taskqueue.Tx, pilot taskqueue.PilotRecord) error { return tx.Pilots().Save(pilot) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.PilotRecord, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.PilotRecord, error) {
			return tx.Pilots().Load(filled[taskqueue.PilotRecord](9).ID)
		},
		"of site": func(tx taskqueue.Tx) ([]taskqueue.PilotRecord, error) {
			return tx.Pilots().OfSite(filled[taskqueue.PilotRecord](9).Site)
		},
	},
}

var grantKind = kind[taskqueue.Grant]{
	name: "grant",
	make: func() taskqueue.Grant { return filled[taskqueue.Grant](10) },
	save: func(tx taskqueue.Tx, grant taskqueue.Grant) error { return tx.Grants().Save(grant) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Grant, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.Grant, error) {
			return tx.Grants().Load(filled[taskqueue.Grant](10).ID)
		},
		"listed": func(tx taskqueue.Tx) ([]taskqueue.Grant, error) { return tx.Grants().All() },
	},
}

var usageKind = kind[taskqueue.Usage]{
	name: "usage",
	make: func() taskqueue.Usage { return filled[taskqueue.Usage](11) },
	save: func(tx taskqueue.Tx, u taskqueue.Usage) error { return tx.Usage().Save(u) },
	reads: map[string]func(taskqueue.Tx) ([]taskqueue.Usage, error){
		"loaded": func(tx taskqueue.Tx) ([]taskqueue.Usage, error) {
			return tx.Usage().Load(filled[taskqueue.Usage](11).UsageKey)
		},
		"listed": func(tx taskqueue.Tx) ([]taskqueue.Usage, error) {
			return tx.Usage().Since("", taskqueue.UsageKey{}, 10)
		},
	},
}
