package exec

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// watch observes one running payload.
type watch struct {
	attempt   *attempt
	largest   task.Bytes // memory that was measured
	measured  task.Bytes // the most that it could be, when it was measured last
	held      held
	nextDisk  time.Time
	nextEvery time.Duration
}

func newWatch(a *attempt) *watch {
	cfg := a.runner.cfg.Watch
	return &watch{attempt: a, nextDisk: time.Now().Add(cfg.DiskEvery), nextEvery: cfg.Every}
}

// until returns when the payload has ended: by itself (nil), or stopped for
// the reason returned.
func (w *watch) until(p *process) *stopped {
	a := w.attempt
	cfg := a.runner.cfg
	walltime := a.spec.Task.Walltime
	if walltime <= 0 {
		walltime = task.DefaultWalltime
	}
	limit := time.After(walltime)
	sample := time.NewTimer(cfg.Watch.First)
	defer sample.Stop()
	for {
		var why *stopped
		select {
		case <-p.exited:
			return nil
		case <-a.ctx.Done():
			kind, reason := a.cancelled()
			why = &stopped{kind, reason}
		case <-limit:
			why = &stopped{task.PayloadFailed, fmt.Sprintf("walltime %s exceeded", walltime)}
		case <-sample.C:
			var cost time.Duration
			why, cost = w.sample(p)
			// Watching may cost a tenth of a core at most.
			w.nextEvery = min(w.nextEvery+w.nextEvery/8, 4*cfg.Watch.Every)
			sample.Reset(max(w.nextEvery, 10*cost))
		}
		if why != nil {
			p.stop(cfg.KillGrace)
			return why
		}
	}
}

// sample looks once. cost is the processor's time that it took: on a busy node a cheap
// look may take long.
func (w *watch) sample(p *process) (why *stopped, cost time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	if reason := w.look(p); reason != "" {
		why = &stopped{task.PayloadFailed, reason}
	}
	return why, threadTime() - began
}

// threadTime is the processor's time that the calling thread has had.
func threadTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) // Linux has had it since 2.6.12
	return time.Duration(now.Nano())
}

// look looks at the payload's processes and their memory and, when due, at its disk and
// at what it holds without a name. It returns the reason to stop the payload, else "".
func (w *watch) look(p *process) (reason string) {
	pids := append(p.members(), p.pid) // pid 0: in namespaces, where it is a member
	seen := p.family.glance(pids)
	reason = w.tooMany(seen)
	if now := time.Now(); reason == "" && now.After(w.nextDisk) {
		reason = w.sampleDisk(p, pids)
		// A file system may be slow for all who use it: its time counts by the clock.
		w.nextDisk = now.Add(max(w.attempt.runner.cfg.Watch.DiskEvery, 20*time.Since(now)))
	}
	if reason == "" {
		reason = w.memoryExcess(p, pids, seen)
	}
	return reason
}

// tooMany returns the reason when processes or threads are beyond what the task
// may have, else "".
func (w *watch) tooMany(seen glance) string {
	cores := w.attempt.cores()
	for _, kind := range []struct {
		name       string
		are, allow int
	}{
		{"processes", seen.processes, w.attempt.runner.cfg.Watch.Processes * cores},
		{"threads", seen.threads, w.attempt.runner.cfg.Watch.Threads * cores},
	} {
		if kind.are > kind.allow {
			return fmt.Sprintf("%d %s, where a task that requests %s may have %d", kind.are, kind.name, task.Counted(cores, "core"), kind.allow)
		}
	}
	return ""
}

// sampleDisk looks at files: in the work folder, without a name, in memory.
func (w *watch) sampleDisk(p *process, pids []int) string {
	a := w.attempt
	w.held = heldBy(a.ctx, pids, a.runner.cfg.payloadUID())
	if w.held.fault != "" {
		return w.held.fault
	}
	if p.spawner != nil {
		w.held.memory += p.spawner.askHeld()
	}
	return a.diskExcess(w.held.disk)
}

// memoryExcess returns the reason when the memory is beyond the limit, else "". The
// sum of resident sizes is never less than the memory and costs little. The memory
// itself costs 65 ms for each GiB: it is measured where that sum is beyond the limit,
// or has grown and is of several processes, which may share some.
func (w *watch) memoryExcess(p *process, pids []int, seen glance) string {
	limit, most := w.attempt.memoryLimit(), seen.resident+w.held.memory
	if limit <= 0 || most <= limit {
		if seen.processes == 1 {
			w.largest = max(w.largest, most)
			return ""
		}
		if most <= w.measured+w.measured/8 {
			return ""
		}
	}
	w.measured = most
	parts := p.family.proportional(pids)
	// What is held may be mapped as well: it counts once.
	used := parts.own + max(parts.shared, w.held.memory)
	w.largest = max(w.largest, used)
	if limit <= 0 || used <= limit {
		return ""
	}
	return fmt.Sprintf("memory %s exceeded %s, which is %g x the request of %s",
		used, limit, w.attempt.runner.cfg.Watch.Excess, w.attempt.spec.Task.Resources.Memory)
}
