package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// longRun tells how far a long simulation is: on a terminal every second in one
// line, else in a line now and then.
type longRun struct {
	stderr   io.Writer
	terminal bool
	tasks    int

	lock sync.Mutex
	told time.Time
}

// noted takes the state of a run; it may come from several at once.
func (l *longRun) noted(setting string, at time.Duration, done int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	every, line := countEvery, "%s\n"
	if l.terminal {
		every, line = time.Second, "\r%-79s"
	}
	if time.Since(l.told) < every {
		return
	}
	l.told = time.Now()
	_, _ = fmt.Fprintf(l.stderr, line, fmt.Sprintf("%s: %s simulated, %d of %d tasks done, %s of memory in use",
		setting, at.Round(time.Second), done, l.tasks, memoryInUse()))
}

// end is called once, when all is over.
func (l *longRun) end() {
	if l.terminal {
		_, _ = fmt.Fprintln(l.stderr)
	}
}

// memoryInUse is what this program has from the machine.
func memoryInUse() task.Bytes {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return task.Bytes(sample[0].Value.Uint64() - sample[1].Value.Uint64())
}

// threadClock ties the caller to its thread and tells the processor time of
// that.
func threadClock() (clock func() time.Duration, stop func()) {
	runtime.LockOSThread()
	return func() time.Duration {
		var used unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used) != nil {
			return 0
		}
		return time.Duration(used.Nano())
	}, runtime.UnlockOSThread
}
