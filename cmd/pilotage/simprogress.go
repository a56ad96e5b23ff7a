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

// longRun tells now and then how far a long simulation is.
type longRun struct {
	stderr io.Writer
	tasks  int

	lock sync.Mutex
	told time.Time
}

// noted takes the state of a run; it may come from several at once.
func (l *longRun) noted(setting string, at time.Duration, done int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if time.Since(l.told) < countEvery {
		return
	}
	l.told = time.Now()
	_, _ = fmt.Fprintf(l.stderr, "%s: %s simulated, %d of %d tasks done, %s of memory in use\n",
		setting, at.Round(time.Second), done, l.tasks, memoryInUse())
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
