package node

import "sync"

// inbox is what the loop has to do, in order. It is unbounded on purpose: the
// loop's own hooks add to it, and waiting for themselves would be for ever.
// What comes from the network is bounded before it gets here.
type inbox struct {
	mutex   sync.Mutex
	waiting []func()
	signal  chan struct{}
}

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

func (b *inbox) put(f func()) {
	b.mutex.Lock()
	b.waiting = append(b.waiting, f)
	b.mutex.Unlock()
	select {
	case b.signal <- struct{}{}:
	default: // the loop is awake already
	}
}

// take empties the inbox.
func (b *inbox) take() []func() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	all := b.waiting
	b.waiting = nil
	return all
}
