package fetch

import (
	"context"
	"log/slog"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/wire"
	"github.com/pilotage-grid/pilotage/internal/loop"
	"github.com/pilotage-grid/pilotage/task"
)

// Desk is the home's side of the questions about storage reads: a safe shell
// around cache.Grants. The pilot's shell feeds it the questions and carries its
// answers. Safe for concurrent use.
type Desk struct {
	send func(to task.PeerID, data []byte)
	log  *slog.Logger
	loop *loop.Loop
	// Redirect, if set before the first question, names a nearer home of the file
	// to whoever asks, and tells whether it knows one: then this one grants nothing.
	Redirect func(asker task.PeerID, key task.FileKey) bool

	grants *cache.Grants // of Run's goroutine
}

// NewDesk returns a desk, which answers while Run runs. Send may deliver to this
// process at once; it must not block for long.
func NewDesk(send func(to task.PeerID, data []byte)) *Desk {
	return NewDeskWith(cache.GrantsConfig{}, send, nil)
}

// NewDeskWith is NewDesk with other times than the defaults, and a logger
// (nil: slog.Default()).
func NewDeskWith(config cache.GrantsConfig, send func(to task.PeerID, data []byte), log *slog.Logger) *Desk {
	if log == nil {
		log = slog.Default()
	}
	return &Desk{send: send, log: log, loop: loop.New(), grants: cache.NewGrants(config)}
}

// Handle takes in a message of a pilot. What makes no sense is dropped.
func (d *Desk) Handle(from task.PeerID, data []byte) {
	event, err := wire.ReadQuestion(from, data)
	if err != nil {
		d.log.Debug("a question about a storage read makes no sense", "error", err)
		return
	}
	if ask, ok := event.(cache.Ask); ok && d.Redirect != nil && d.Redirect(from, ask.Key) {
		return
	}
	d.tell(event)
}

// PeerGone tells that a pilot left or died: its grant goes to the next.
func (d *Desk) PeerGone(peer task.PeerID) { d.tell(cache.PeerGone{Peer: peer}) }

// Run answers, and ends grants in time, until the context ends.
func (d *Desk) Run(ctx context.Context) error {
	return d.loop.Run(ctx, func() { d.step(cache.Tick{}) }, d.grants.Deadline)
}

func (d *Desk) tell(event cache.GrantEvent) { d.loop.Post(func() { d.step(event) }) }

func (d *Desk) step(event cache.GrantEvent) {
	for _, action := range d.grants.Step(time.Now(), event) {
		if answer, ok := action.(cache.Answer); ok {
			d.send(answer.To, wire.Answer(answer))
		}
	}
}
