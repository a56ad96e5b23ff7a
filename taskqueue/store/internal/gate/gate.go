// Package gate closes a store for newcomers and waits for those inside. It
// starts no goroutine.
package gate

import "sync"

// Gate is open at first. The zero value is ready for use and safe for
// concurrent use.
type Gate struct {
	mutex  sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// Enter tells whether the gate is open; who got in must Leave.
func (g *Gate) Enter() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

// Leave undoes one Enter.
func (g *Gate) Leave() { g.inside.Done() }

// Close shuts the gate and returns once everybody has left. Only the first
// call returns true.
func (g *Gate) Close() bool {
	g.mutex.Lock()
	first := !g.closed
	g.closed = true
	g.mutex.Unlock()
	g.inside.Wait()
	return first
}
