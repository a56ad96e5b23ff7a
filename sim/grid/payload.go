package grid

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// RowsPerNode is the distance between the Gantt rows of two nodes: bar.Row is
// the node's number times this plus the slot's.
const RowsPerNode = 4096

// stageIn fetches and pins the inputs of an attempt.
func (n *node) stageIn(a worker.StageIn) {
	j := &attempt{missing: len(a.Files), since: n.timeline.Now(), slot: -1, reads: make([]task.Read, len(a.Files))}
	n.attempts[a.Attempt] = j
	if len(a.Files) == 0 {
		n.timeline.After(0, func() { n.staged(a, j) })
		return
	}
	for i, file := range a.Files {
		n.fetcher.want(file, func(source task.Source, err error) {
			n.arrived(a, j, i, source, err)
		})
	}
}

func (n *node) arrived(a worker.StageIn, j *attempt, i int, source task.Source, err error) {
	file := a.Files[i]
	if err != nil {
		if !errors.As(err, &j.err) {
			j.other = err
		}
	} else if !j.gone {
		if err := n.cached.Pin(file.Key()); err != nil {
			n.fail("%s: pin %s: %w", n.peer, file.LFN, err)
		}
		j.pinned = append(j.pinned, file.Key())
	}
	j.reads[i] = task.Read{
		LFN: file.LFN, Size: file.Size, Digest: file.Digest, Source: source, Intermediate: !file.Producer.IsZero(), Producer: file.Producer,
	}
	if j.missing--; j.missing == 0 {
		// Not within the planner's step: the worker may want more files.
		n.timeline.After(0, func() { n.staged(a, j) })
	}
}

func (n *node) staged(a worker.StageIn, j *attempt) {
	if j.gone || !n.alive {
		return
	}
	if j.err != nil || j.other != nil {
		failed := worker.StageFailed{Attempt: a.Attempt, Failure: task.PilotFailed, Reason: "an input cannot be read"}
		if j.err != nil {
			failed.Reason = j.err.Error()
			if j.err.Lost {
				failed.Failure, failed.Lost = task.InputMissing, []task.File{j.err.File}
			}
			var full *cache.NoSpaceError
			failed.NoRoom = errors.As(j.err, &full)
		}
		n.world.trouble = fmt.Sprintf("%s on %s: %s", a.Attempt.Task.Name(), n.peer, failed.Reason)
		n.stepWorker(failed)
		return
	}
	n.record.Note(n.timeline.Now(), "staged", int64(n.index), int64(n.taskOf(a.Attempt.Task)))
	for _, read := range j.reads {
		sums := &n.sums.Reads[read.Source]
		sums.Files++
		sums.Bytes += float64(read.Size)
		if read.Intermediate {
			sums.Intermediate++
		}
	}
	n.sums.Staging += n.timeline.Now() - j.since
	n.stepWorker(worker.StagedIn{Attempt: a.Attempt, Reads: j.reads})
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
	outcome.Run, outcome.Started, outcome.Ended, outcome.Delay = ran, n.now().Add(-ran), n.now(), -1
	n.unpin(j)
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

func (n *node) unpin(j *attempt) {
	for _, key := range j.pinned {
		if err := n.cached.Unpin(key); err != nil && !errors.Is(err, cache.ErrUnknown) {
			n.fail("%s: unpin: %w", n.peer, err)
		}
	}
	j.pinned = nil
}

func (n *node) discard(id task.AttemptID) {
	if j := n.attempts[id]; j != nil {
		j.gone = true
		n.unpin(j)
		delete(n.attempts, id)
	}
}

// publish takes the outputs of a payload into the cache.
func (n *node) publish(a worker.Publish) {
	published := worker.Published{Attempt: a.Attempt, Outcome: a.Outcome}
	var keys []task.FileKey
	for _, output := range a.Assignment.Task.Outputs {
		file := &n.config.Workload.Files[n.files[output.LFN.Local()]]
		produced := task.Produced{LFN: output.LFN, Size: file.Size, Digest: digest(string(output.LFN), a.Attempt.String())}
		key := task.KeyOf(output.LFN, produced.Digest)
		evicted, err := n.cached.Insert(key, produced.Size, true)
		n.gone(evicted)
		if err != nil {
			published.Failure = err.Error()
			n.world.trouble = fmt.Sprintf("output %s on %s: %s", output.LFN.Local(), n.peer, err)
			break
		}
		n.alias(output.LFN, key)
		published.Outputs = append(published.Outputs, produced)
		n.unstored = append(n.unstored, made{a.Attempt, produced})
		keys = append(keys, key)
	}
	n.timeline.After(0, func() {
		if !n.alive {
			return
		}
		if len(keys) > 0 {
			n.changed(keys)
		}
		n.stepWorker(published)
		n.discard(a.Attempt)
	})
}

// upload copies the outputs that are in the cache only to the storage element,
// in the background.
func (n *node) upload() {
	for _, m := range n.unstored {
		n.site.storage.transfer(float64(m.output.Size), []sim.LinkID{n.up}, func() {
			if !n.alive {
				return
			}
			key := task.KeyOf(m.output.LFN, m.output.Digest)
			if err := n.cached.MarkStored(key); err != nil {
				return // removed meanwhile
			}
			n.sums.Uploads++
			n.stepWorker(worker.Uploaded{Stored: []task.Stored{{
				LFN: m.output.LFN, Attempt: m.attempt, Size: m.output.Size, Digest: m.output.Digest,
				URL: "file:///" + string(n.site.Name) + "/" + m.attempt.Suffix() + "/" + m.output.LFN.Local(),
			}}})
		})
	}
	n.unstored = nil
}
