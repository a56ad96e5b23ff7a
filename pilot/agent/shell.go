package agent

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/internal/loop"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// shell is what all parts run on.
type shell struct {
	log     *slog.Logger
	loop    *loop.Loop // whose goroutine owns the cores
	group   *errgroup.Group
	context context.Context // of everything that runs until the farewell
	// expelled gets the error by which the queue has revoked the membership.
	expelled chan error
}

// beside runs something that takes its time, until the farewell at the latest.
func (s *shell) beside(run func(ctx context.Context)) {
	s.group.Go(func() error {
		run(s.context)
		return nil
	})
}

// heed looks at what the queue refuses: a pilot whose membership was revoked
// has to go.
func (s *shell) heed(err error) {
	if reason, _, _ := taskpb.Refusal(err); reason != taskpb.ReasonRevoked {
		return
	}
	select {
	case s.expelled <- err:
	default:
	}
}

// workerEvents brings events to the worker's core. It may be called from any
// goroutine: the work is done by the loop's, and what it returns are the events.
type workerEvents func(work func() []message.Event)

func (w workerEvents) tell(events ...message.Event) {
	w(func() []message.Event { return events })
}
