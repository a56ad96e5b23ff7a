package agent

import "sync"

// mailbox is an unbounded queue of work for the loop: whoever posts never
// waits, so hooks of the overlay cannot deadlock with the loop.
type mailbox struct {
	mu     sync.Mutex
	queued []func()
	wake   chan struct{}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) post(work func()) {
	m.mu.Lock()
	m.queued = append(m.queued, work)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	work := m.queued
	m.queued = nil
	return work
}
