package server

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// masters serves the masters of sites: it answers and parks their calls, and decides on
// claims.
type masters struct {
	turns    *turns
	syncs    *parkedSyncs
	relays   *relays
	access   *access
	config   *Config
	shown    *shown
	stopping <-chan struct{}
}

// sync serves one Sync. It is answered at once if it brings news or the queue
// has some; else it is parked until something changes for its site, a newer
// Sync of the site comes, or its time is over.
func (m *masters) sync(ctx context.Context, c caller, in task.Sync) (task.SyncReply, error) {
	ticket := m.syncs.arrive(in.Site, in.Term, connectionOf(ctx))
	defer func() { m.syncs.leave(in.Site, ticket, m.turns.clock.now()) }()
	hold := time.NewTimer(min(in.Hold, m.config.Timing.MaxHold))
	defer hold.Stop()
	for {
		reply, err := m.syncOnce(ctx, in, ticket)
		if err == nil && slices.Contains(reply.Denied, c.peer) {
			err = revoked(c) // while the call was under way
		}
		if err != nil {
			return task.SyncReply{}, err
		}
		if bringsNews(in) || m.saysNews(in, reply) || in.Hold <= 0 {
			m.syncs.supersede(in.Site, ticket)
			m.syncs.tell(in.Site, in.Term, reply)
			return reply, nil
		}
		m.syncs.park(in.Site, ticket)
		looked := time.Now()
		select {
		case <-ticket.wake:
		case <-ticket.ended:
			return reply, nil
		case <-hold.C:
			m.syncs.tell(in.Site, in.Term, reply)
			return reply, nil
		case <-m.stopping:
			return reply, nil
		case <-ctx.Done():
			return task.SyncReply{}, ctx.Err()
		}
		if err := m.access.recheck(c, time.Now()); err != nil {
			return task.SyncReply{}, err
		}
		if err := pause(ctx, m.stopping, m.config.Timing.WakePause-time.Since(looked)); err != nil {
			return task.SyncReply{}, err
		}
	}
}

func (m *masters) syncOnce(ctx context.Context, in task.Sync, ticket *ticket) (task.SyncReply, error) {
	var reply task.SyncReply
	if len(in.Outcomes) > 0 {
		m.config.Log.Debug("outcomes received", "site", in.Site, "outcomes", len(in.Outcomes))
	}
	err := m.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		reply, err = m.turns.rules.Sync(t, in)
		return err
	})
	if err == nil {
		reply.Wanted = m.relays.ask(in.Site)
		m.syncs.hear(in.Site, ticket, m.turns.clock.now())
		m.warnOfUnknown(in.Site, reply.Acks)
		m.shown.attempts(in.Site, in.Starts, in.Outcomes, in.Stored, reply.Acks)
	}
	return reply, err
}

// warnOfUnknown logs that outcomes were refused whose pilots, tasks or leases
// the queue has no record of: work that is done in vain.
func (m *masters) warnOfUnknown(site task.Site, acks []task.Ack) {
	refused := 0
	first := task.AttemptID{}
	for _, ack := range acks {
		if ack.Verdict != task.AckUnknown {
			continue
		}
		if refused++; refused == 1 {
			first = ack.Attempt
		}
	}
	if refused > 0 {
		m.config.Log.Warn("outcomes were refused: the queue knows nothing of their attempts, as after going back to a backup; pilots that it does not know are told to leave",
			"site", site, "outcomes", refused, "first", first, "pilot", first.Pilot)
	}
}

// bringsNews tells whether a master reports anything but its standing state.
func bringsNews(in task.Sync) bool {
	return len(in.Outcomes)+len(in.Starts)+len(in.Returns)+len(in.Stored)+len(in.Lost)+len(in.Departed)+
		len(in.Refused)+len(in.Confirmed) > 0 || !in.Report.Empty()
}

// saysNews tells whether the answer holds anything but what this master was
// last told.
func (m *masters) saysNews(in task.Sync, reply task.SyncReply) bool {
	if len(reply.Leases)+len(reply.Acks)+len(reply.Wanted) > 0 {
		return true
	}
	told, any := m.syncs.told(in.Site, in.Term)
	return !any || !reflect.DeepEqual(told, standing(reply))
}

// pause waits, if there is anything to wait for.
func pause(ctx context.Context, stopping <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claim decides on a claim for a mastership. How long the old master has been
// silent counts from its last Sync, or the end of one that was parked.
func (m *masters) claim(ctx context.Context, c taskqueue.Claim) (taskqueue.ClaimResult, error) {
	var result taskqueue.ClaimResult
	err := m.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		if err := m.saveSign(t, c.Site); err != nil {
			return err
		}
		c.BrokenOff = m.syncs.brokenOff(c.Site, c.Expected, t.Clock)
		result, err = m.turns.rules.Claim(t, c)
		return err
	})
	if err == nil && result.Granted {
		m.syncs.wake(string(c.Site)) // a Sync of the old term is over
	}
	return result, err
}

// saveSign brings a site's last sign of life into its record.
func (m *masters) saveSign(t *taskqueue.Turn, site task.Site) error {
	last, ever := m.syncs.heard(site, t.Clock)
	if !ever || last.at > t.Clock {
		return nil
	}
	then := *t
	then.Clock = last.at
	return m.turns.marks.Heard(&then, site, last.term)
}
