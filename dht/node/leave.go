package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
)

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
	case <-n.left:
	case <-ctx.Done():
		return fmt.Errorf("leave the overlay: %w", ctx.Err())
	case <-n.ctx.Done():
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
	n.closed.Do(func() {
		n.mutex.Lock()
		n.stopped = true
		n.mutex.Unlock()
		n.gate.open.Store(false)
		n.cancel()
		var routing error
		if n.routing != nil {
			routing = n.routing.Close()
		}
		n.end = errors.Join(routing, n.host.Close())
		n.work.Wait()
	})
	return n.end
}
