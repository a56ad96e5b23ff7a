package bench

import (
	"context"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shareEvery is the time between two looks at what a process has used.
	shareEvery = time.Millisecond
	// shareAhead is what a process may use at once of what it has not used before.
	shareAhead = 10 * time.Millisecond
)

// limit gives a process a share of one processor, until the function returned is
// called: whenever it has used more it is stopped for a moment. That counts the
// processor time of all its threads, whatever else the machine does.
func (p *process) limit(ctx context.Context, share float64) (end func()) {
	if share == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer p.Signal(syscall.SIGCONT)
		ticker := time.NewTicker(shareEvery)
		defer ticker.Stop()
		left, at, stopped := shareAhead, time.Now(), false
		used, err := p.processorTime()
		for err == nil {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			var sum time.Duration
			sum, err = p.processorTime()
			now := time.Now()
			left += time.Duration(share*float64(now.Sub(at))) - (sum - used)
			if !stopped { // what it could have used and did not is gone
				left = min(shareAhead, left)
			}
			used, at = sum, now
			if exhausted := left < 0; exhausted != stopped {
				stopped = exhausted
				p.Signal(map[bool]syscall.Signal{true: syscall.SIGSTOP, false: syscall.SIGCONT}[stopped])
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// processorTime is what all threads of a process have used, to the nanosecond.
func (p *process) processorTime() (time.Duration, error) {
	var used unix.Timespec
	clock := ^int32(p.PID())<<3 | 2 // as clock_getcpuclockid(3) has it
	err := unix.ClockGettime(clock, &used)
	return time.Duration(used.Nano()), err
}
