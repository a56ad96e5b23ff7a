package grid

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// RowsPerNode is the distance between the Gantt rows of two nodes: bar.Row is
// the node's number times this plus the slot's.
const RowsPerNode = 4096

// stageIn fetches and pins the inputs of an attempt.
func (n *node) stageIn(a worker.StageIn) {
	j := &attempt{since: n.timeline.Now(), slot: -1}
	n.attempts[a.Attempt] = j
	n.files.StageIn(a, func(event message.Event) {
		switch e := event.(type) {
		case worker.StageFailed:
			n.world.trouble = fmt.Sprintf("%s on %s: %s", a.Attempt.Task.Name(), n.peer, e.Reason)
		case worker.StagedIn:
			n.staged(a, j, e.Reads)
		}
		n.stepWorker(event)
	})
}

func (n *node) staged(a worker.StageIn, j *attempt, reads []task.Read) {
	n.record.Note(n.timeline.Now(), "staged", int64(n.index), int64(n.taskOf(a.Attempt.Task)))
	for _, read := range reads {
		sums := &n.sums.Reads[read.Source]
		sums.Files++
		sums.Bytes += float64(read.Size)
		if read.Intermediate {
			sums.Intermediate++
		}
	}
	n.sums.Staging += n.timeline.Now() - j.since
}

// start runs a payload for its recorded time on this node.
func (n *node) start(a worker.StartPayload) {
	j, now := n.attempts[a.Attempt], n.timeline.Now()
	recorded := &n.config.Workload.Tasks[n.taskOf(a.Attempt.Task)]
	j.slot = max(slices.Index(n.slots, false), 0)
	n.slots[j.slot] = true
	n.bar(j, a.Attempt, sim.Transferring)
	n.sums.Waited += a.Assignment.Waited
	n.sums.Starts++
	n.record.Note(now, "start", int64(n.index), int64(n.taskOf(a.Attempt.Task)))
	n.timeline.After(0, func() { n.stepWorker(worker.PayloadStarted{Attempt: a.Attempt, At: epoch.Add(now)}) })
	takes := n.load.Takes(now, time.Duration(float64(recorded.Runtime)/n.Speed))
	j.end = n.timeline.After(max(takes, time.Microsecond), func() { n.ended(a.Attempt, j, task.Outcome{OK: true}) })
}

func (n *node) bar(j *attempt, attempt task.AttemptID, kind sim.BarKind) {
	row := n.index*RowsPerNode + j.slot
	n.record.Bar(sim.Bar{Row: row, Kind: kind, Task: n.taskOf(attempt.Task), From: j.since, To: n.timeline.Now()})
	j.since = n.timeline.Now()
}

func (n *node) ended(id task.AttemptID, j *attempt, outcome task.Outcome) {
	if !n.alive || j.end == nil {
		return
	}
	n.timeline.Cancel(j.end)
	j.end = nil
	n.slots[j.slot] = false
	ran := n.timeline.Now() - j.since
	n.computing += ran
	n.bar(j, id, sim.Computing)
	n.record.Note(n.timeline.Now(), "end", int64(n.index), int64(n.taskOf(id.Task)))
	outcome.Run, outcome.Started, outcome.Ended, outcome.Delay = ran, n.Now().Add(-ran), n.Now(), -1
	n.files.Release(id)
	n.stepWorker(worker.PayloadEnded{Attempt: id, Outcome: outcome})
}

func (n *node) kill(id task.AttemptID) {
	j := n.attempts[id]
	if j == nil || j.end == nil {
		return
	}
	n.timeline.After(0, func() {
		n.ended(id, j, task.Outcome{Failure: task.PayloadFailed, Signal: "SIGKILL", ExitCode: -1})
	})
}

func (n *node) discard(id task.AttemptID) {
	n.files.Discard(id)
	delete(n.attempts, id)
}

// publish takes the outputs of a payload into the cache.
func (n *node) publish(a worker.Publish) {
	made := func(name task.LFN) (task.Bytes, task.Digest) {
		return n.config.Workload.Files[n.world.files[name.Local()]].Size, digest(string(name), a.Attempt.String())
	}
	n.files.Publish(a, made, func(published worker.Published) {
		if published.Failure != "" {
			n.world.trouble = fmt.Sprintf("on %s: %s", n.peer, published.Failure)
		}
		n.stepWorker(published)
		n.discard(a.Attempt)
	})
}
