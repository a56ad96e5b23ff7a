package exec

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// burialPatience bounds the wait for descendants that SIGKILL does not end.
const burialPatience = 10 * time.Second

// execute starts the payload, watches it until it and all its descendants are
// gone, and notes how it ended.
func (a *attempt) execute(result *Result, started func(at time.Time, process int)) {
	taken, err := a.runner.gpus.take(a.spec.Task.Resources.GPUs)
	if err != nil {
		result.failWith(err)
		return
	}
	defer a.runner.gpus.giveBack(taken)
	a.gpus = taken
	environment := a.environment()
	program, arguments, search, err := a.command(environment)
	if err != nil {
		result.failWith(err)
		return
	}
	if err := a.makeGroup(); err != nil {
		result.failWith(err)
		return
	}
	defer func() {
		if err := a.group.remove(); err != nil {
			a.log.Warn("the control group of a payload stays behind", "error", err)
		}
	}()
	stdout, stderr, err := a.openStreams()
	if err != nil {
		result.failWith(err)
		return
	}
	p, err := a.start(birth{
		program: program, search: search, arguments: arguments, environment: environment, folder: a.folder,
		files: files(a.runner.null, stdout, stderr), account: a.runner.cfg.PayloadUser,
	})
	stdout.closeWriter()
	stderr.closeWriter()
	if err != nil {
		result.failWith(err)
		stdout.finish()
		stderr.finish()
		return
	}
	result.Started, result.Process = p.began, p.first()
	if started != nil {
		started(p.began, result.Process)
	}
	watch := newWatch(a)
	ended := watch.until(p)
	status, usage, survivors := p.bury(burialPatience)
	if survivors > 0 {
		a.log.Error("processes of a payload do not end although killed", "processes", survivors, "payload", p.pid)
	}
	result.Ended, result.Run = p.ended, p.ended.Sub(p.began)
	result.Usage = usage
	result.Usage.MaxMemory = max(watch.largest, p.peak)
	result.ExitCode, result.Signal = exitOf(status)
	if ended != nil {
		result.fail(ended.kind, ended.reason)
	} else if a.group.outOfMemory() {
		result.fail(task.PayloadFailed, fmt.Sprintf("memory exceeded %s, which is %g x the request of %s: ended by the kernel",
			a.memoryLimit(), a.runner.cfg.Watch.Excess, a.spec.Task.Resources.Memory))
	} else if reason := exitReason(result); reason != "" {
		kind := task.PayloadFailed
		if a.foundDiskFull() {
			kind, reason = task.PilotFailed, reason+"; the disk of the node is full, and not by this task"
		}
		result.fail(kind, reason)
	}
	result.Stdout, result.Stderr = stdout.finish(), stderr.finish()
	a.keepLogs()
}

// exitReason is empty for exit code 0.
func exitReason(result *Result) string {
	switch {
	case result.Signal == "SIGKILL":
		return "killed by SIGKILL, not by the pilot: the node may have run out of memory"
	case result.Signal != "":
		return "killed by " + result.Signal
	case result.ExitCode != 0:
		return fmt.Sprintf("exit code %d", result.ExitCode)
	default:
		return ""
	}
}

// stopped says why the pilot ended a payload.
type stopped struct {
	kind   task.FailureKind
	reason string
}
