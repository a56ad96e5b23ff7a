package storetest

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	flowA task.WorkflowID = "w-aaaaaaaaaa"
	flowB task.WorkflowID = "w-bbbbbbbbbb"
)

// made returns a task of workflow A and its state.
func made(name string, seq uint64, state task.State) (task.Task, taskqueue.TaskState) {
	return madeIn(flowA, name, seq, state)
}

func madeIn(flow task.WorkflowID, name string, seq uint64, state task.State) (task.Task, taskqueue.TaskState) {
	id := task.NewID(flow, name)
	return task.Task{ID: id, Argv: []string{"/bin/true"}, Retries: 2},
		taskqueue.TaskState{ID: id, Seq: seq, State: state, Generation: 1, Changed: time.Unix(int64(seq), 0).UTC()}
}

// add stores tasks that differ from made ones in their states only.
func add(tx taskqueue.Tx, states ...taskqueue.TaskState) error {
	var tasks []task.Task
	for _, state := range states {
		tasks = append(tasks, task.Task{ID: state.ID, Argv: []string{"/bin/true"}})
	}
	return tx.Tasks().Add(tasks, states)
}

func nameOf(state taskqueue.TaskState) string { return state.ID.Name() }

func lfnOf(file taskqueue.FileRecord) task.LFN { return file.LFN }

func pilotOf(pilot taskqueue.PilotRecord) task.PilotID { return pilot.ID }

func flowOf(workflow taskqueue.Workflow) task.WorkflowID { return workflow.ID }

// digest returns a digest that is not zero.
func digest(n byte) (d task.Digest) {
	d[0], d[31] = n, 1
	return d
}

// attempt returns the n-th attempt of a task by a pilot.
func attempt(id task.ID, pilot task.PilotID, n uint64, state taskqueue.AttemptState) taskqueue.Attempt {
	return taskqueue.Attempt{State: state, Outcome: task.Outcome{
		Attempt: task.AttemptID{Task: id, Generation: 1, Lease: 1, Pilot: pilot, Counter: n},
		Site:    "siteA",
	}}
}

func file(name task.LFN, announced []task.Site, replicas ...task.Replica) taskqueue.FileRecord {
	return taskqueue.FileRecord{File: task.File{LFN: name, Size: 7, Announced: announced, Replicas: replicas}}
}

// foreignCopy is what an attempt has stored as another file than the one that names it.
var foreignCopy = task.Replica{Site: "siteA", URL: "file:///se/siteA/w-aaaaaaaaaa/a/g1-l1-p-aaaaaaaa-1/x"}

// deleteWorkflow deletes the tasks of a workflow in pages of a size.
func deleteWorkflow(tx taskqueue.Tx, id task.WorkflowID, page int) error {
	for more := true; more; {
		var err error
		if more, err = tx.Tasks().DeleteWorkflow(id, page); err != nil {
			return err
		}
	}
	return nil
}
