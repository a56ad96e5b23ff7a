package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// payload is what the shell holds for an attempt. The loop owns it.
type payload struct {
	cancel context.CancelFunc // of stage-in, then of the process, then of taking its outputs
	reason string             // why it was killed by the pilot itself
	staged []fetch.Staged
	folder string
	files  []exec.Collected
}

func (p *payload) release() {
	for _, s := range p.staged {
		s.Release()
	}
	p.staged = nil
}

// payloads are those in hand. The loop calls the methods.
type payloads struct {
	*shell

	files  *files
	runner Payloads
	worker workerEvents
	inHand map[task.AttemptID]*payload
}

// kill ends a payload.
func (p *payloads) kill(id task.AttemptID) {
	if held := p.inHand[id]; held != nil {
		held.cancel()
	}
}

// killAll ends all of them on behalf of the pilot.
func (p *payloads) killAll(reason string) {
	for _, held := range p.inHand {
		held.reason = reason
		held.cancel()
	}
}

// stageIn fetches and pins the inputs of an attempt.
func (p *payloads) stageIn(act worker.StageIn) {
	ctx, cancel := context.WithCancel(p.context)
	p.inHand[act.Attempt] = &payload{cancel: cancel}
	p.beside(func(context.Context) {
		staged, err := p.files.fetcher.Stage(ctx, act.Files)
		cancel()
		reads := make([]task.Read, 0, len(staged))
		var came []task.FileKey
		for _, s := range staged {
			file := s.File
			reads = append(reads, task.Read{
				LFN: file.LFN, Size: s.Entry.Size, Digest: s.Entry.Digest, Source: s.Source,
				Intermediate: !file.Producer.IsZero(), Producer: file.Producer,
			})
			p.files.aliases.learn(file.LFN, s.Entry.Digest)
			if s.Source != task.SourceLocal {
				came = append(came, task.KeyOf(file.LFN, task.Digest{}))
			}
		}
		if len(came) > 0 {
			p.files.note(came)
		}
		seReads := p.files.fetcher.SEReads()
		p.worker(func() (events []message.Event) {
			if len(seReads) > 0 {
				events = append(events, worker.SERead{Reads: seReads})
			}
			held := p.inHand[act.Attempt]
			switch {
			case held == nil: // discarded while it was staged in
				for _, s := range staged {
					s.Release()
				}
				return events
			case err != nil:
				return append(events, p.stageFailed(act.Attempt, err))
			}
			held.staged = staged
			return append(events, worker.StagedIn{Attempt: act.Attempt, Reads: reads})
		})
	})
}

func (p *payloads) stageFailed(id task.AttemptID, err error) worker.StageFailed {
	failed := worker.StageFailed{Attempt: id, Failure: task.PilotFailed, Reason: err.Error()}
	var failures cache.FetchErrors
	if errors.As(err, &failures) {
		failed.Failure, failed.Lost, failed.NoRoom = failures.Kind(), failures.Lost(), failures.NoRoom()
	}
	level := slog.LevelWarn
	if failed.NoRoom {
		level = slog.LevelDebug // the payload waits for others; if it does not, its outcome tells
	}
	p.log.Log(p.context, level, "inputs cannot be staged in", "attempt", id.String(), "error", err)
	return failed
}

// start runs a staged attempt.
func (p *payloads) start(act worker.StartPayload) {
	held := p.inHand[act.Attempt]
	ctx, cancel := context.WithCancel(p.context)
	held.cancel = cancel
	spec := exec.Spec{Attempt: act.Attempt, Number: act.Assignment.Number, Task: act.Assignment.Task}
	for i, s := range held.staged {
		spec.Inputs = append(spec.Inputs, exec.StagedInput{Name: act.Assignment.Task.Inputs[i].Name, Path: s.Path, Exec: s.File.Exec || s.Entry.Exec})
	}
	p.beside(func(context.Context) {
		defer cancel()
		result := p.runner.Run(ctx, spec, func(at time.Time, process int) {
			p.worker.tell(worker.PayloadStarted{Attempt: act.Attempt, At: at, Process: process})
		})
		p.worker(func() []message.Event { return []message.Event{p.ended(act.Attempt, result)} })
	})
}

func (p *payloads) ended(id task.AttemptID, r exec.Result) worker.PayloadEnded {
	held := p.inHand[id]
	held.folder, held.files = r.Folder, r.Outputs
	for _, s := range held.staged {
		if slices.ContainsFunc(r.ModifiedInputs, func(name string) bool {
			return name == s.File.LFN.Local() || name == string(s.File.LFN) || name == s.Path
		}) {
			p.files.drop(s)
		}
	}
	outcome := task.Outcome{
		OK: r.OK, Failure: r.Failure, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, Usage: r.Usage,
		Stdout: r.Stdout, Stderr: r.Stderr, Run: r.Run, Started: r.Started, Ended: r.Ended, Process: r.Process,
	}
	if held.reason != "" && !r.OK {
		outcome.Failure, outcome.Reason = task.PilotFailed, held.reason
	}
	held.release()
	return worker.PayloadEnded{Attempt: id, Outcome: outcome}
}

// publish takes the outputs of a payload into the cache and announces them.
func (p *payloads) publish(act worker.Publish) {
	held := p.inHand[act.Attempt]
	folder, outputs := held.folder, held.files
	ctx, cancel := context.WithCancel(p.context)
	held.cancel = cancel // the end of the attempt ends the reading of what it made
	p.beside(func(context.Context) {
		defer cancel()
		published := worker.Published{Attempt: act.Attempt, Outcome: act.Outcome}
		var names, announced []task.FileKey
		for _, file := range outputs {
			made := task.OutputID{Attempt: act.Attempt, LFN: file.LFN}
			entry, err := p.files.cache.Adopt(ctx, folder, file.Name, file.Exec, made)
			if err != nil {
				published.Failure = fmt.Sprintf("output %s cannot be kept: %v", file.Name, err)
				for _, output := range published.Outputs { // nobody needs what a failed attempt has made
					p.files.cache.LetGo(task.KeyOf("", output.Digest), task.OutputID{Attempt: act.Attempt, LFN: output.LFN})
				}
				break
			}
			p.files.aliases.learn(file.LFN, entry.Digest)
			names = append(names, task.KeyOf(file.LFN, task.Digest{}))
			announced = append(announced, entry.Key)
			published.Outputs = append(published.Outputs, task.Produced{
				LFN: file.LFN, Size: entry.Size, Digest: entry.Digest, Exec: file.Exec,
			})
		}
		p.files.came(announced, names...)
		p.worker(func() []message.Event {
			p.discard(act.Attempt)
			return []message.Event{published}
		})
	})
}

// discard lets go of an attempt's pins and work folder.
func (p *payloads) discard(id task.AttemptID) {
	held := p.inHand[id]
	if held == nil {
		return
	}
	delete(p.inHand, id)
	held.cancel()
	held.release()
	if folder := held.folder; folder != "" {
		p.beside(func(context.Context) {
			if err := p.runner.Release(folder); err != nil {
				p.log.Warn("a work folder stays behind", "folder", folder, "error", err)
			}
		})
	}
}

// dropLogs removes what is left of an attempt's output.
func (p *payloads) dropLogs(id task.AttemptID) {
	p.beside(func(context.Context) { p.runner.DropLogs(id) })
}
