package server

import (
	"context"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// masters serves the masters of sites, and pilots that are their own: it answers and
// parks their calls, decides on claims, and matches tasks where the queue does so.
type masters struct {
	turns    *turns
	desk     *serving.Desk
	matching *serving.Matching
	due      chan struct{} // pilots are to be called in; holds one
	relays   *relays
	access   *access
	config   *Config
	shown    *shown
}

func (s *Server) newMasters() masters {
	m := masters{
		turns: s.turns, desk: serving.NewDesk(s.config.Timing.Holds), due: make(chan struct{}, 1),
		relays: &s.relays, access: &s.access, config: &s.config, shown: &s.shown,
	}
	m.matching = serving.NewMatching(serving.Turns{
		Rules: s.turns.rules, Update: s.turns.update, Clock: s.turns.clock.now,
		View: func(ctx context.Context, read func(*taskqueue.Turn) error) error {
			return s.turns.view(ofQueue(ctx), read)
		},
	}, m.desk, func() { wake(m.due) })
	return m
}

// wake signals to a channel that holds one signal.
func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// now is this moment by both clocks.
func (ts *turns) now() serving.Moment {
	return serving.Moment{Service: ts.clock.now(), Machine: time.Now()}
}

// sync serves one Sync.
func (m *masters) sync(ctx context.Context, c caller, in task.Sync) (task.SyncReply, error) {
	signal := make(chan struct{}, 1)
	call := m.desk.Sync(m.turns.now(), &in, connectionOf(ctx), func() { wake(signal) })
	defer func() { m.desk.Leave(m.turns.now(), call) }()
	if len(in.Outcomes) > 0 {
		m.config.Log.Debug("outcomes received", "site", in.Site, "outcomes", len(in.Outcomes))
	}
	reply, err := m.serve(ctx, c, call, signal, func() (reply task.PullReply, office bool, err error) {
		err = m.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
			reply.SyncReply, err = m.turns.rules.Sync(t, in)
			return err
		})
		if err == nil {
			m.warnOfUnknown(in.Site, reply.Acks)
			m.shown.attempts(in.Site, in.Starts, in.Outcomes, in.Stored, reply.Acks)
			reply.Wanted = m.relays.ask(in.Site)
		}
		return reply, true, err
	})
	return reply.SyncReply, err
}

// pull serves one Pull.
func (m *masters) pull(ctx context.Context, c caller, in task.Pull) (task.PullReply, error) {
	signal := make(chan struct{}, 1)
	call := m.desk.Pull(m.turns.now(), &in, connectionOf(ctx), func() { wake(signal) })
	capacity := m.matching.Hear(call, &in)
	defer func() {
		if m.desk.Leave(m.turns.now(), call) && ctx.Err() != nil {
			m.matching.Broken(in.Site, in.Pilot)
		}
	}()
	return m.serve(ctx, c, call, signal, func() (task.PullReply, bool, error) {
		reply, office, err := m.matching.Pull(ctx, call, &in, capacity)
		if err == nil {
			m.shown.attempts(in.Site, in.Starts, in.Outcomes, in.Stored, reply.Acks)
			reply.Wanted = m.relays.ask(in.Site)
		}
		return reply, office, err
	})
}

// serve does with a call what the desk says, until it is answered.
func (m *masters) serve(
	ctx context.Context, c caller, call *serving.Call, signal <-chan struct{}, look func() (task.PullReply, bool, error),
) (reply task.PullReply, err error) {
	for {
		do, wait := m.desk.Next(m.turns.now(), call)
		switch do {
		case serving.Answer:
			err = m.access.signDenied(c.site, &reply.SyncReply)
			return reply, err
		case serving.Look:
			var office bool
			if err = m.access.recheck(c, time.Now()); err == nil {
				reply, office, err = look()
			}
			if err == nil && slices.Contains(reply.Denied, c.peer) {
				err = revoked(c) // while the call was under way
			}
			if err != nil {
				return task.PullReply{}, err
			}
			m.desk.Looked(m.turns.now(), call, &reply, office)
		case serving.Wait:
			select {
			case <-signal:
			case <-time.After(wait):
			case <-ctx.Done():
				return task.PullReply{}, ctx.Err()
			}
		}
	}
}

// warnOfUnknown logs that outcomes were refused whose pilots, tasks or leases
// the queue has no record of: work that is done in vain.
func (m *masters) warnOfUnknown(site task.Site, acks []task.Ack) {
	unknown := slices.DeleteFunc(slices.Clone(acks), func(a task.Ack) bool { return a.Verdict != task.AckUnknown })
	if len(unknown) > 0 {
		m.config.Log.Warn("outcomes were refused: the queue knows nothing of their attempts, as after going back to a backup; pilots that it does not know are told to leave",
			"site", site, "outcomes", len(unknown), "first", unknown[0].Attempt, "pilot", unknown[0].Attempt.Pilot)
	}
}

// claim decides on a claim for a mastership.
func (m *masters) claim(ctx context.Context, c taskqueue.Claim) (taskqueue.ClaimResult, error) {
	result, err := changed(ctx, m.turns, func(t *taskqueue.Turn) (taskqueue.ClaimResult, error) { return m.matching.Claim(t, c) })
	if err == nil && result.Granted {
		m.desk.WakeSite(c.Site) // a Sync of the old term is over
	}
	return result, err
}

// runMatching calls pilots in when tasks come up for them, and looks after the
// sites at which the queue matches tasks, until ctx ends.
func (m *masters) runMatching(ctx context.Context) error {
	ticker := time.NewTicker(m.config.Timing.MatchTick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-m.due:
			err = m.matching.CallIn(ctx)
		case <-ticker.C:
			if m.turns.clock.failing() == "" {
				err = m.matching.LookAfter(ctx)
			}
		}
		if err != nil && ctx.Err() == nil {
			m.config.Log.Warn("cannot look after sites whose tasks the queue matches; trying again", "error", err)
		}
	}
}

// pause waits, if there is anything to wait for.
func pause(ctx context.Context, stopping <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
