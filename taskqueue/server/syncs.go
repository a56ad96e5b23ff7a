package server

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// sync serves one Sync. It is answered at once if it brings news or the queue
// has some; else it is parked until something changes for its site, a newer
// Sync of the site comes, or its time is over.
func (s *Server) sync(ctx context.Context, c caller, in task.Sync) (task.SyncReply, error) {
	ticket := s.desk.arrive(in.Site, in.Term, connectionOf(ctx))
	defer func() { s.desk.leave(in.Site, ticket, s.turns.clock.now()) }()
	hold := time.NewTimer(min(in.Hold, s.config.Timing.MaxHold))
	defer hold.Stop()
	for {
		reply, err := s.syncOnce(ctx, in, ticket)
		if err == nil && slices.Contains(reply.Denied, c.peer) {
			err = revoked(c) // while the call was under way
		}
		if err != nil {
			return task.SyncReply{}, err
		}
		if bringsNews(in) || s.saysNews(in, reply) || in.Hold <= 0 {
			s.desk.supersede(in.Site, ticket)
			s.desk.tell(in.Site, in.Term, reply)
			return reply, nil
		}
		s.desk.park(in.Site, ticket)
		looked := time.Now()
		select {
		case <-ticket.wake:
		case <-ticket.ended:
			return reply, nil
		case <-hold.C:
			s.desk.tell(in.Site, in.Term, reply)
			return reply, nil
		case <-s.stopping:
			return reply, nil
		case <-ctx.Done():
			return task.SyncReply{}, ctx.Err()
		}
		if err := s.access.recheck(c, time.Now()); err != nil {
			return task.SyncReply{}, err
		}
		if err := s.pause(ctx, s.config.Timing.WakePause-time.Since(looked)); err != nil {
			return task.SyncReply{}, err
		}
	}
}

func (s *Server) syncOnce(ctx context.Context, in task.Sync, ticket *ticket) (task.SyncReply, error) {
	var reply task.SyncReply
	if len(in.Outcomes) > 0 {
		s.config.Log.Debug("outcomes received", "site", in.Site, "outcomes", len(in.Outcomes))
	}
	err := s.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		reply, err = s.turns.rules.Sync(t, in)
		return err
	})
	if err == nil {
		reply.Wanted = s.relays.ask(in.Site)
		s.desk.hear(in.Site, ticket, s.turns.clock.now())
		s.warnOfUnknown(in.Site, reply.Acks)
	}
	return reply, err
}

// warnOfUnknown logs that outcomes were refused whose pilots, tasks or leases
// the queue has no record of: work that is done in vain.
func (s *Server) warnOfUnknown(site task.Site, acks []task.Ack) {
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
		s.config.Log.Warn("outcomes were refused: the queue knows nothing of their attempts, as after going back to a backup; pilots that it does not know are told to leave",
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
func (s *Server) saysNews(in task.Sync, reply task.SyncReply) bool {
	if len(reply.Leases)+len(reply.Acks)+len(reply.Wanted) > 0 {
		return true
	}
	told, any := s.desk.told(in.Site, in.Term)
	return !any || !reflect.DeepEqual(told, standing(reply))
}

// pause waits, if there is anything to wait for.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claim decides on a claim for a mastership. How long the old master has been
// silent counts from its last Sync, or the end of one that was parked.
func (s *Server) claim(ctx context.Context, c taskqueue.Claim) (taskqueue.ClaimResult, error) {
	var result taskqueue.ClaimResult
	err := s.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		if err := s.saveSign(t, c.Site); err != nil {
			return err
		}
		c.BrokenOff = s.desk.brokenOff(c.Site, c.Expected, t.Clock)
		result, err = s.turns.rules.Claim(t, c)
		return err
	})
	if err == nil && result.Granted {
		s.desk.wake(string(c.Site)) // a Sync of the old term is over
		if result.Why != "" {
			s.config.Log.Info("a site has a new master", "site", c.Site, "pilot", c.Pilot, "term", result.Term, "why", result.Why)
		}
	}
	return result, err
}

// saveSign brings a site's last sign of life into its record.
func (s *Server) saveSign(t *taskqueue.Turn, site task.Site) error {
	last, ever := s.desk.heard(site, t.Clock)
	if !ever || last.at > t.Clock {
		return nil
	}
	then := *t
	then.Clock = last.at
	return s.turns.marks.Heard(&then, site, last.term)
}
