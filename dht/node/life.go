package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
)

// life is how far a node has come: who may start, and whom Close waits for. It is safe
// for concurrent use.
type life struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine of the node, Run's included
	closed sync.Once
	end    error // of closing

	mutex   sync.Mutex
	joined  bool
	running bool
	stopped bool // no goroutine may start any more

	left     chan struct{} // closed when the core has said its goodbyes
	leftOnce sync.Once
}

func (l *life) begin() {
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.left = make(chan struct{})
}

// join notes that the node may run, once ready has been called.
func (l *life) join(ready func()) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.joined || l.stopped {
		return fmt.Errorf("join the overlay: joined before, or %w", ErrClosed)
	}
	ready()
	l.joined = true
	return nil
}

// run counts the goroutine of Run, which is called once.
func (l *life) run() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.stopped || l.running || !l.joined {
		return errors.New("run the overlay: it runs once, after Join and before Close")
	}
	l.running = true
	l.work.Add(1)
	return nil
}

// enter counts a goroutine of libp2p's among those that Close waits for.
func (l *life) enter() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.stopped {
		l.work.Add(1)
	}
	return !l.stopped
}

// start runs f on a goroutine that Close waits for; after Close it does
// nothing.
func (l *life) start(f func()) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.stopped {
		l.work.Go(f)
	}
	return !l.stopped
}

// unlessStopped does at once what must not begin after Close.
func (l *life) unlessStopped(f func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.stopped {
		f()
	}
}

// stop lets no goroutine start any more.
func (l *life) stop() {
	l.mutex.Lock()
	l.stopped = true
	l.mutex.Unlock()
}

// leaveTime bounds the goodbyes, so that a hung peer holds nobody back.
const leaveTime = 5 * time.Second

// Leave ends the membership: records kept for others are handed over, everyone
// hears the goodbye, and what was sent is read by those who live. It takes 5 s
// at most, less if ctx ends before. Run has to go on meanwhile; afterwards
// only Close is of use.
func (n *Node) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	n.post(dht.Leave{})
	select {
	case <-n.life.left:
	case <-ctx.Done():
		return fmt.Errorf("leave the overlay: %w", ctx.Err())
	case <-n.life.ctx.Done():
		return fmt.Errorf("leave the overlay: %w", ErrClosed)
	}
	if err := n.lanes.flush(ctx); err != nil {
		return fmt.Errorf("leave the overlay: %w", err)
	}
	return nil
}

// Close ends the node at once and waits for all its goroutines: the core stays
// as it is, open connections break. Not to be called from a hook.
func (n *Node) Close() error {
	n.life.closed.Do(func() {
		n.life.stop()
		n.gate.open.Store(false)
		n.life.cancel()
		var routing error
		if n.routing.kad != nil {
			routing = n.routing.kad.Close()
		}
		n.life.end = errors.Join(routing, n.host.Close())
		n.life.work.Wait()
	})
	return n.life.end
}
