package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// job is what the shell holds for an attempt. The loop owns it.
type job struct {
	cancel context.CancelFunc // of stage-in, then of the payload
	reason string             // why it was killed by the pilot itself
	staged []fetch.Staged
	folder string
	files  []exec.Collected
}

// kill ends an attempt's payload on behalf of the pilot.
func (j *job) kill(reason string) {
	j.reason = reason
	j.cancel()
}

func (j *job) release() {
	for _, s := range j.staged {
		s.Release()
	}
	j.staged = nil
}

// stepWorker runs the worker's core and carries its actions out.
func (a *Agent) stepWorker(event message.Event) {
	for _, action := range a.worker.Step(time.Now(), event) {
		switch act := action.(type) {
		case message.Tell:
			a.tell(act)
		case worker.AnswerBroadcast:
			a.answer(act)
		case worker.StageIn:
			a.stageIn(act)
		case worker.StartPayload:
			a.startPayload(act)
		case worker.KillPayload:
			if j := a.jobs[act.Attempt]; j != nil {
				j.cancel()
			}
		case worker.Publish:
			a.publish(act)
		case worker.Upload:
			a.uploads.put(upload{output: act.Output})
		case worker.Keep:
			a.keep(act.File)
		case worker.CopyIn:
			a.copyIn(act.File)
		case worker.DropCopy:
			a.dropCopy(act.File)
		case worker.LetGo:
			a.cache.LetGo(task.KeyOf("", act.Output.Digest), act.Output.ID())
		case worker.Discard:
			a.discard(act.Attempt)
		case worker.DropLogs:
			a.group.Go(func() error {
				a.payloads.DropLogs(act.Attempt)
				return nil
			})
		case worker.DeliverToQueue:
			a.deliverToQueue(act)
		case worker.Draining:
			a.ordered = act.Reason
			a.log.Info("the pilot drains: it finishes what runs, and leaves", "reason", act.Reason)
		case worker.Drained:
			close(a.drained)
		}
	}
}

func (a *Agent) answer(act worker.AnswerBroadcast) {
	if a.office.Own() && act.ID.Root == a.peer {
		a.answerAside(act)
		return
	}
	a.node.Reply(broadcastID(act.ID), wire.Encode(act.Answer))
}

// stageIn fetches and pins the inputs of an attempt.
func (a *Agent) stageIn(act worker.StageIn) {
	ctx, cancel := context.WithCancel(a.context)
	a.jobs[act.Attempt] = &job{cancel: cancel}
	a.group.Go(func() error {
		staged, err := a.fetcher.Stage(ctx, act.Files)
		cancel()
		reads := make([]task.Read, 0, len(staged))
		var keys []task.FileKey
		for _, s := range staged {
			file := s.File
			reads = append(reads, task.Read{
				LFN: file.LFN, Size: s.Entry.Size, Digest: s.Entry.Digest, Source: s.Source,
				Intermediate: !file.Producer.IsZero(), Producer: file.Producer,
			})
			a.aliases.learn(file.LFN, s.Entry.Digest)
			if s.Source != task.SourceLocal {
				keys = append(keys, task.KeyOf(file.LFN, task.Digest{}))
			}
		}
		if len(keys) > 0 {
			a.cacheChanged(keys)
		}
		seReads := a.fetcher.SEReads()
		a.mailbox.post(func() { a.stagedIn(act.Attempt, staged, reads, seReads, err) })
		return nil
	})
}

func (a *Agent) stagedIn(id task.AttemptID, staged []fetch.Staged, reads []task.Read, seReads []task.SERead, err error) {
	if len(seReads) > 0 {
		a.stepWorker(worker.SERead{Reads: seReads})
	}
	j := a.jobs[id]
	if j == nil { // discarded while it was staged in
		for _, s := range staged {
			s.Release()
		}
		return
	}
	if err == nil {
		j.staged = staged
		a.stepWorker(worker.StagedIn{Attempt: id, Reads: reads})
		return
	}
	failed := worker.StageFailed{Attempt: id, Failure: task.PilotFailed, Reason: err.Error()}
	var failures fetch.StageErrors
	if errors.As(err, &failures) {
		failed.Failure, failed.Lost = failures.Kind(), failures.Lost()
	}
	var full *cache.NoSpaceError
	failed.NoRoom = failed.Failure == task.PilotFailed && errors.As(err, &full)
	level := slog.LevelWarn
	if failed.NoRoom {
		level = slog.LevelDebug // the job waits for others; if it does not, its outcome tells
	}
	a.log.Log(a.context, level, "inputs cannot be staged in", "attempt", id.String(), "error", err)
	a.stepWorker(failed)
}

// startPayload runs a staged attempt.
func (a *Agent) startPayload(act worker.StartPayload) {
	j := a.jobs[act.Attempt]
	ctx, cancel := context.WithCancel(a.context)
	j.cancel = cancel
	spec := exec.Spec{Attempt: act.Attempt, Number: act.Assignment.Number, Task: act.Assignment.Task}
	for i, s := range j.staged {
		spec.Inputs = append(spec.Inputs, exec.StagedInput{Name: act.Assignment.Task.Inputs[i].Name, Path: s.Path, Exec: s.File.Exec || s.Entry.Exec})
	}
	a.group.Go(func() error {
		defer cancel()
		result := a.payloads.Run(ctx, spec, func(at time.Time) {
			a.mailbox.post(func() { a.stepWorker(worker.PayloadStarted{Attempt: act.Attempt, At: at}) })
		})
		a.mailbox.post(func() { a.payloadEnded(act.Attempt, result) })
		return nil
	})
}

func (a *Agent) payloadEnded(id task.AttemptID, r exec.Result) {
	j := a.jobs[id]
	j.folder, j.files = r.Folder, r.Outputs
	if len(r.ModifiedInputs) > 0 {
		a.dropModified(j, r.ModifiedInputs)
	}
	outcome := task.Outcome{
		OK: r.OK, Failure: r.Failure, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, Usage: r.Usage,
		Stdout: r.Stdout, Stderr: r.Stderr, Run: r.Run, Started: r.Started, Ended: r.Ended,
	}
	if j.reason != "" && !r.OK {
		outcome.Failure, outcome.Reason = task.PilotFailed, j.reason
	}
	j.release()
	a.stepWorker(worker.PayloadEnded{Attempt: id, Outcome: outcome})
}

// dropModified discards cached inputs that a payload has written to.
func (a *Agent) dropModified(j *job, names []string) {
	for _, s := range j.staged {
		for _, name := range names {
			if name == s.File.LFN.Local() || name == string(s.File.LFN) || s.Path == name {
				if err := a.cache.Drop(s.Entry.Key); err != nil && !errors.Is(err, disk.ErrNotCached) {
					a.log.Warn("a modified input stays in the cache", "file", s.File.LFN, "error", err)
				}
			}
		}
	}
}

// publish takes the outputs of a payload into the cache and announces them.
func (a *Agent) publish(act worker.Publish) {
	j := a.jobs[act.Attempt]
	folder, files := j.folder, j.files
	ctx, cancel := context.WithCancel(a.context)
	j.cancel = cancel // the end of the attempt ends the reading of what it made
	a.group.Go(func() error {
		defer cancel()
		published := worker.Published{Attempt: act.Attempt, Outcome: act.Outcome}
		var keys, announced []task.FileKey
		for _, file := range files {
			made := task.OutputID{Attempt: act.Attempt, LFN: file.LFN}
			entry, err := a.cache.Adopt(ctx, folder, file.Name, file.Exec, made)
			if err != nil {
				published.Failure = fmt.Sprintf("output %s cannot be kept: %v", file.Name, err)
				for _, output := range published.Outputs { // nobody needs what a failed attempt has made
					a.cache.LetGo(task.KeyOf("", output.Digest), task.OutputID{Attempt: act.Attempt, LFN: output.LFN})
				}
				break
			}
			a.aliases.learn(file.LFN, entry.Digest)
			keys = append(keys, task.KeyOf(file.LFN, task.Digest{}))
			announced = append(announced, entry.Key)
			published.Outputs = append(published.Outputs, task.Produced{
				LFN: file.LFN, Size: entry.Size, Digest: entry.Digest, Exec: file.Exec,
			})
		}
		a.announce(announced...)
		a.cacheChanged(append(keys, announced...))
		a.mailbox.post(func() {
			a.stepWorker(published)
			a.discard(act.Attempt)
		})
		return nil
	})
}

// discard lets go of an attempt's pins and work folder.
func (a *Agent) discard(id task.AttemptID) {
	j := a.jobs[id]
	if j == nil {
		return
	}
	delete(a.jobs, id)
	j.cancel()
	j.release()
	if j.folder != "" {
		folder := j.folder
		a.group.Go(func() error {
			if err := a.payloads.Release(folder); err != nil {
				a.log.Warn("a work folder stays behind", "folder", folder, "error", err)
			}
			return nil
		})
	}
}

// deliverToQueue hands outcomes over while the site has no master.
func (a *Agent) deliverToQueue(act worker.DeliverToQueue) {
	a.group.Go(func() error {
		ctx, cancel := context.WithTimeout(a.context, syncTime)
		defer cancel()
		acks, err := a.queue.Deliver(ctx, act.Outcomes, act.Stored)
		if err != nil {
			a.heed(err)
			a.log.Warn("outcomes stay here until the site has a master or the queue answers", "outcomes", len(act.Outcomes), "error", err)
			return nil
		}
		delivered := worker.DeliveredToQueue{Acks: acks}
		for _, stored := range act.Stored {
			delivered.Stored = append(delivered.Stored, stored.Output())
		}
		a.mailbox.post(func() {
			a.noteVerdicts(acks)
			a.stepWorker(delivered)
		})
		return nil
	})
}
