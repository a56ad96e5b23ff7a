package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// countEvery is how often a program that waits for simulations without a
// terminal hears how far they are.
const countEvery = 30 * time.Second

// runCount tells on stderr how many runs are over: on a terminal at each, else in
// a line now and then. Several may add at once.
type runCount struct {
	out      io.Writer
	terminal bool
	total    int // 0 where nobody knows
	began    time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu   sync.Mutex
	over int
}

// countRuns begins to count. Whoever calls it calls end.
func (o *console) countRuns(total int) *runCount {
	c := &runCount{out: terminalOf(o.stderr), terminal: isTerminal(o.stderr), total: total, began: time.Now(), stop: make(chan struct{})}
	if !c.terminal {
		c.stopped.Go(c.tell)
	}
	return c
}

// tell writes a line every now and then until the end.
func (c *runCount) tell() {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.mu.Lock()
			_, _ = fmt.Fprintf(c.out, "%s are over after %s\n", c.text(), time.Since(c.began).Round(time.Second))
			c.mu.Unlock()
		case <-c.stop:
			return
		}
	}
}

func (c *runCount) text() string {
	if c.total > 0 {
		return fmt.Sprintf("%d of %d runs", c.over, c.total)
	}
	return fmt.Sprintf("%d runs", c.over)
}

// add counts a run that is over.
func (c *runCount) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over++; c.terminal {
		_, _ = fmt.Fprintf(c.out, "\r%s", c.text())
	}
}

// end is called once, when all are over.
func (c *runCount) end() {
	close(c.stop)
	c.stopped.Wait()
	if c.terminal {
		_, _ = fmt.Fprintln(c.out)
	}
}
