package world

import (
	"bytes"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// What stands for payloads.

func (n *node) stageIn(a worker.StageIn) {
	if !n.alive {
		return
	}
	n.site.begun++
	n.files.StageIn(a, func(event message.Event) {
		if failed, ok := event.(worker.StageFailed); ok {
			n.unread++
			n.note("%s stages nothing in for %s: %s", n.id, a.Attempt, failed.Reason)
		}
		n.stepWorker(event)
	})
}

func (n *node) startPayload(a worker.StartPayload) {
	id := a.Assignment.Task.ID
	p := &payload{assignment: a.Assignment, started: n.clock()}
	n.payloads[a.Attempt], n.logs[a.Attempt] = p, true
	if running := n.running(); len(running) > n.slots {
		n.judge.Errorf("%s runs %v in %d slots", n.id, running, n.slots)
	}
	n.world.started[id]++
	n.note("%s starts %s", n.id, a.Attempt)
	n.after(0, func() { n.stepWorker(worker.PayloadStarted{Attempt: a.Attempt, At: p.started}) })
	outcome := task.Outcome{OK: true}
	if n.world.fails(id, n) {
		outcome = task.Outcome{Failure: task.PayloadFailed, ExitCode: 1, Reason: "exit code 1"}
	}
	n.after(n.world.run1(id, n), func() {
		if n.payloads[a.Attempt] == p {
			n.payloadEnds(a.Attempt, outcome)
		}
	})
}

func (n *node) payloadEnds(id task.AttemptID, outcome task.Outcome) {
	p := n.payloads[id]
	if p == nil || p.over || !n.alive {
		return
	}
	p.over = true
	n.files.Release(id)
	if outcome.OK {
		n.world.ended[id.Task]++
	}
	outcome.Started, outcome.Ended, outcome.Run, outcome.Delay = p.started, n.clock(), n.clock().Sub(p.started), -1
	if size := n.world.logBytes; size != nil {
		outcome.Stderr = bytes.Repeat([]byte("x"), size(id))
	}
	n.note("%s ends %s, ok %v", n.id, id, outcome.OK)
	n.stepWorker(worker.PayloadEnded{Attempt: id, Outcome: outcome})
}

// publish puts outputs into the cache.
func (n *node) publish(a worker.Publish) {
	if !n.alive {
		return
	}
	made := func(name task.LFN) (task.Bytes, task.Digest) {
		if n.world.alike {
			return task.MiB, digestOf(string(name))
		}
		return task.MiB, digestOf(string(name), a.Attempt.String())
	}
	n.files.Publish(a, made, func(published worker.Published) { n.stepWorker(published) })
}
