package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// runMatching calls pilots in when tasks come up for them, and looks after the
// sites at which the queue matches tasks, until ctx ends.
func (s *Server) runMatching(ctx context.Context) error {
	ticker := time.NewTicker(s.config.Timing.MatchTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.pulls.signal:
			s.callIn(ctx)
		case <-ticker.C:
			if s.clock.failing() == "" {
				if err := s.lookAfter(ctx); err != nil && ctx.Err() == nil {
					s.config.Log.Warn("cannot look after sites whose tasks the queue matches; trying again", "error", err)
				}
			}
		}
	}
}

// callIn wakes pilots for tasks that have come up.
func (s *Server) callIn(ctx context.Context) {
	p := s.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	due := p.due
	p.due = make(map[task.Site]struct{})
	for site := range due {
		if err := s.refresh(ctx, site); err != nil {
			if ctx.Err() == nil {
				s.config.Log.Warn("cannot read the tasks that wait for a site", "site", site, "error", err)
			}
			continue
		}
		for _, id := range p.maker.CallIn(site, p.waits) {
			p.wakeUp(id)
		}
	}
}

// centralSite is a site at which the queue matches tasks, with its live pilots.
type centralSite struct {
	site    taskqueue.SiteRecord
	pilots  []taskqueue.PilotRecord
	unsafe  []task.File // that only caches hold and that nobody stores by itself
	silent  []task.PilotID
	retract []task.Revoked
	reclaim bool
	lost    []task.LostFile
	nodes   []task.NodeMark // that are set back
	judged  bool            // they are others than is kept
	changed []task.PilotID  // of nodes of which is thought otherwise than before
}

// lookAfter does what at other sites a master does: it notices pilots that are
// gone, and what is gone with them.
func (s *Server) lookAfter(ctx context.Context) error {
	var central []*centralSite
	err := s.view(ctx, func(t *taskqueue.Turn) error {
		all, err := t.Sites().All()
		if err != nil {
			return fmt.Errorf("load sites: %w", err)
		}
		central = nil
		for i := range all {
			if !all[i].InForce().Central() {
				continue
			}
			c := &centralSite{site: all[i]}
			if c.pilots, err = t.Pilots().OfSite(all[i].Name, taskqueue.PilotAlive, taskqueue.PilotDraining); err != nil {
				return fmt.Errorf("load pilots of %s: %w", all[i].Name, err)
			}
			if c.unsafe, err = s.rules.Unguarded(t, all[i].Name); err != nil {
				return err
			}
			central = append(central, c)
		}
		s.shareOut(t, all)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range central {
		s.judgeSite(c)
		if err := s.carryOutFor(ctx, c); err != nil {
			return err
		}
	}
	s.callIn(ctx)
	return nil
}

// shareOut tells the matchmaker which sites are alive, and forgets those at which
// masters match or that were removed, with their pilots.
func (s *Server) shareOut(t *taskqueue.Turn, all []taskqueue.SiteRecord) {
	p := s.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var live, storing []task.Site
	central := make(map[task.Site]bool)
	for i := range all {
		if s.rules.Live(t, &all[i]) {
			live = append(live, all[i].Name)
			if all[i].SE != "" {
				storing = append(storing, all[i].Name)
			}
		}
		central[all[i].Name] = all[i].InForce().Central()
	}
	p.maker.Share(live, storing)
	p.keepOnly(central)
}

// judgeSite decides what is to be done for a site.
func (s *Server) judgeSite(c *centralSite) {
	p := s.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now, name := s.clock.now(), c.site.Name
	present := make(map[task.PilotID]bool, len(c.pilots))
	for i := range c.pilots {
		present[c.pilots[i].ID] = true
	}
	for id, g := range p.guests {
		if g.site == name && !present[id] && g.ticket == nil {
			delete(p.guests, id)
			p.maker.Left(name, id)
		}
	}
	c.silent = p.maker.Silent(now, name, c.pilots, p.waits)
	for _, id := range c.silent {
		delete(p.guests, id)
		p.maker.Left(name, id)
	}
	c.reclaim = c.site.Orphans && p.maker.AllHeard(&c.site, c.pilots)
	if c.site.Check {
		c.lost = p.maker.Guard(name, c.unsafe, c.pilots)
		for i := range c.pilots {
			if len(p.maker.Checks(name, c.pilots[i].ID)) > 0 {
				p.wakeUp(c.pilots[i].ID)
			}
		}
	}
	c.nodes, c.judged, c.changed = p.maker.Look(now, &c.site)
	c.retract = p.maker.Retract(now, name)
	p.due[name] = struct{}{}
}

// carryOutFor does what was decided for a site.
func (s *Server) carryOutFor(ctx context.Context, c *centralSite) error {
	name := c.site.Name
	guarded := c.site.Check && len(c.unsafe) == 0
	defer s.pulls.wakeAll(c.changed)
	if !c.reclaim && !guarded && !c.judged && len(c.silent)+len(c.lost)+len(c.retract) == 0 {
		return nil
	}
	return s.update(ctx, func(t *taskqueue.Turn) error {
		if c.judged {
			if err := s.rules.Judge(t, name, c.nodes); err != nil {
				return err
			}
		}
		if len(c.silent) > 0 {
			if err := s.rules.Dismiss(t, name, c.silent, "it fell silent"); err != nil {
				return err
			}
		}
		if c.reclaim {
			if err := s.rules.Reclaim(t, name, s.inHand(name)); err != nil {
				return err
			}
		}
		if guarded {
			if err := s.rules.Guarded(t, name); err != nil {
				return err
			}
		}
		if len(c.lost) > 0 {
			if err := s.rules.Lose(t, name, c.lost); err != nil {
				return err
			}
		}
		if len(c.retract) > 0 {
			return s.rules.AskBack(t, name, c.retract)
		}
		return nil
	})
}

func (s *Server) inHand(site task.Site) func(task.ID) bool {
	return func(id task.ID) bool {
		s.pulls.mutex.Lock()
		defer s.pulls.mutex.Unlock()
		return s.pulls.maker.InHand(site, id)
	}
}
