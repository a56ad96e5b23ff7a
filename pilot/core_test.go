package pilot_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// bench is one core, driven by hand.
type bench struct {
	t    *testing.T
	now  time.Time
	step func(time.Time, message.Event) []message.Action
}

func (b *bench) do(event message.Event) []message.Action { return b.step(b.now, event) }

// all returns the actions of one kind.
func all[A message.Action](actions []message.Action) (found []A) {
	for _, action := range actions {
		if a, ok := action.(A); ok {
			found = append(found, a)
		}
	}
	return found
}

// told returns the messages of one kind.
func told[M message.Message](actions []message.Action) (found []M) {
	for _, tell := range all[message.Tell](actions) {
		if m, ok := tell.Message.(M); ok {
			found = append(found, m)
		}
	}
	return found
}

var (
	firstTerm  = task.Term{Epoch: 1, Peer: "m1"}
	secondTerm = task.Term{Epoch: 2, Peer: "m2"}
)

func given(names ...string) (tasks []message.Assignment) {
	for _, name := range names {
		tasks = append(tasks, message.Assignment{
			Task: task.Task{ID: id(name), Shell: "true", Walltime: time.Hour, Resources: task.Resources{Cores: 1, Memory: task.MiB},
				Outputs: []task.Output{{LFN: "w-aaaaaaaaaa:x", Name: "x"}}},
			Lease: 7, Generation: 1, Number: 1,
		})
	}
	return tasks
}
