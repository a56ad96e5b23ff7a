package storetest

import (
	"context"
	"errors"
	"flag"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// checks is how many stores Run opens for random tests, unless -rapid.checks says
// otherwise: opening a durable one costs more than many transactions.
const checks = "10"

// compare drives a store and the model with the same random transactions and compares
// everything that they answer.
func compare(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		store, reference := open(t), newModel()
		defer store.Close()
		defer reference.Close()
		draws := &draws{T: r, known: map[task.ID]bool{}}
		for range rapid.IntRange(1, 40).Draw(r, "transactions") {
			steps := draws.transaction()
			got, want := run(store, steps), run(reference, steps)
			if got != want {
				r.Fatalf("%v\n got %s\nwant %s", draws.names, got, want)
			}
			draws.learn(reference)
		}
		if got, want := dump(r, store), dump(r, reference); got != want {
			r.Fatalf("after %v\n got %s\nwant %s", draws.names, got, want)
		}
		verify(r, store)
	})
}

// fewChecks sets the number of checks, unless it was asked for, until the
// function returned is called.
func fewChecks(t *testing.T) (restore func()) {
	t.Helper()
	asked := flag.Lookup("rapid.checks")
	if asked.Value.String() != asked.DefValue {
		return func() {}
	}
	setChecks(t, checks)
	return func() { setChecks(t, asked.DefValue) }
}

func setChecks(t *testing.T, number string) {
	t.Helper()
	if err := flag.Set("rapid.checks", number); err != nil {
		t.Fatal(err)
	}
}

// step is one random call; what it returns is compared.
type step func(taskqueue.Tx) (any, error)

// run carries out a transaction and says how it went.
func run(store taskqueue.Store, steps []step) string {
	var answers []any
	err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
		answers = nil
		for _, step := range steps {
			answer, err := step(tx)
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
		return nil
	})
	return print(fatal{}, answers) + verdict(err)
}

type fatal struct{}

func (fatal) Helper() {}

func (fatal) Fatalf(string, ...any) { panic("answers cannot be printed") }

func verdict(err error) string {
	for _, known := range []error{errAbort, taskqueue.ErrTaskAbsent, taskqueue.ErrTaskExists} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "error " + err.Error()
	}
	return "committed"
}

// draws makes random calls.
type draws struct {
	*rapid.T
	seq   uint64
	known map[task.ID]bool // tasks that may be there
	names []string         // of the calls so far, for messages
}

// learn asks which tasks are there, so that most calls make sense.
func (d *draws) learn(reference taskqueue.Store) {
	clear(d.known)
	view(d, reference, func(tx taskqueue.Tx) {
		states, err := tx.Tasks().Load(someTasks()...)
		if err != nil {
			d.Fatalf("load tasks: %v", err)
		}
		for _, state := range states {
			d.known[state.ID] = true
		}
	})
}

func one[T any](d *draws, what string, choices ...T) T {
	return rapid.SampledFrom(choices).Draw(d.T, what)
}

func some[T any](d *draws, what string, choices ...T) []T {
	return rapid.SliceOfN(rapid.SampledFrom(choices), 0, 2).Draw(d.T, what)
}

func (d *draws) transaction() []step {
	var steps []step
	for range rapid.IntRange(1, 8).Draw(d.T, "calls") {
		name := one(d, "call", callNames...)
		d.names = append(d.names, name)
		steps = append(steps, calls[name](d))
	}
	d.names = append(d.names, ";")
	return steps
}

// nothing turns a write into a step.
func nothing(write func(taskqueue.Tx) error) step {
	return func(tx taskqueue.Tx) (any, error) { return nil, write(tx) }
}

func (d *draws) flow() task.WorkflowID { return one(d, "workflow", someFlows...) }
func (d *draws) site() task.Site       { return one(d, "site", someSites...) }
func (d *draws) task() task.ID         { return task.NewID(d.flow(), one(d, "name", someNames...)) }
func (d *draws) number() int           { return rapid.IntRange(0, 12).Draw(d.T, "number") }

func (d *draws) state(id task.ID) taskqueue.TaskState {
	state := taskqueue.TaskState{
		ID: id, State: one(d, "state", task.States()...), Priority: d.number()%3 - 1,
		Class: one(d, "class", someClasses...), NotBefore: taskqueue.Instant(one(d, "backoff", 0, 0, 5, 10)),
		Lease: one(d, "lease", someLeases...), Reason: one(d, "reason", "", "because"),
	}
	if key := d.number() % 3; key > 0 {
		state.MemoKey = digest(byte(key))
	}
	return state
}

func (d *draws) attempt() taskqueue.Attempt {
	made := attempt(d.task(), one(d, "pilot", somePilots...), uint64(d.number()%3),
		one(d, "attempt state", taskqueue.AttemptRunning, taskqueue.AttemptSucceeded, taskqueue.AttemptLost))
	made.Known = taskqueue.Instant(d.number())
	return made
}

func (d *draws) revocation() taskqueue.Revocation {
	return taskqueue.Revocation{
		Site: d.site(), Lease: one(d, "lease", someLeases...), Task: d.task(),
		Pilot: one(d, "holder", "", somePilots[0], somePilots[1]), Cancel: d.number()%2 == 0,
	}
}

func (d *draws) replica() task.Replica {
	return task.Replica{Site: d.site(), URL: one(d, "url", "file:///a", "file:///b", foreignCopy.URL)}
}
