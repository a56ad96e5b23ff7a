package fetch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// Desk is the home's side of the questions about storage reads: a safe shell
// around cache.Grants. The pilot's shell feeds it the questions and carries its
// answers. Safe for concurrent use.
type Desk struct {
	send func(to task.PeerID, data []byte)
	log  *slog.Logger
	wake chan struct{}
	// Redirect, if set before the first question, names a nearer home of the file
	// to whoever asks, and tells whether it knows one: then this one grants nothing.
	Redirect func(asker task.PeerID, key task.FileKey) bool

	mu     sync.Mutex
	grants *cache.Grants
}

// NewDesk returns a desk. It sends without holding a lock, so send may deliver
// to this process at once; it must not block for long. Run must be running
// for grants to end.
func NewDesk(send func(to task.PeerID, data []byte)) *Desk {
	return NewDeskWith(cache.GrantsConfig{}, send, nil)
}

// NewDeskWith is NewDesk with other times than the defaults, and a logger
// (nil: slog.Default()).
func NewDeskWith(config cache.GrantsConfig, send func(to task.PeerID, data []byte), log *slog.Logger) *Desk {
	if log == nil {
		log = slog.Default()
	}
	return &Desk{send: send, log: log, wake: make(chan struct{}, 1), grants: cache.NewGrants(config)}
}

// Handle takes in a message of a pilot. What makes no sense is dropped.
func (d *Desk) Handle(from task.PeerID, data []byte) {
	event, err := decodeQuestion(from, data)
	if err != nil {
		d.log.Debug("a question about a storage read makes no sense", "error", err)
		return
	}
	if ask, ok := event.(cache.Ask); ok && d.Redirect != nil && d.Redirect(from, ask.Key) {
		return
	}
	d.step(event)
}

// PeerGone tells that a pilot left or died: its grant goes to the next.
func (d *Desk) PeerGone(peer task.PeerID) { d.step(cache.PeerGone{Peer: peer}) }

// Run ends grants in time, until the context ends.
func (d *Desk) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		deadline := d.grants.Deadline()
		d.mu.Unlock()
		wait := time.Hour
		if !deadline.IsZero() {
			wait = max(0, time.Until(deadline))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-timer.C:
			d.step(cache.Tick{})
		}
	}
}

func (d *Desk) step(event cache.GrantEvent) {
	d.mu.Lock()
	before := d.grants.Deadline()
	actions := d.grants.Step(time.Now(), event)
	changed := !d.grants.Deadline().Equal(before)
	d.mu.Unlock()
	if changed {
		select {
		case d.wake <- struct{}{}:
		default: // Run is about to look already
		}
	}
	for _, action := range actions {
		if answer, ok := action.(cache.Answer); ok {
			d.send(answer.To, encodeReply(answer))
		}
	}
}
