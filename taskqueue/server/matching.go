package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// matching serves the pilots of sites whose tasks the queue matches: it answers their
// calls, and looks after such sites.
type matching struct {
	turns    *turns
	pulls    *pulls
	desk     *desk // where their masters are heard as well
	relays   *relays
	access   *access
	config   *Config
	stopping <-chan struct{}
}

// runMatching calls pilots in when tasks come up for them, and looks after the
// sites at which the queue matches tasks, until ctx ends.
func (m *matching) runMatching(ctx context.Context) error {
	ticker := time.NewTicker(m.config.Timing.MatchTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.pulls.signal:
			m.callIn(ctx)
		case <-ticker.C:
			if m.turns.clock.failing() == "" {
				if err := m.lookAfter(ctx); err != nil && ctx.Err() == nil {
					m.config.Log.Warn("cannot look after sites whose tasks the queue matches; trying again", "error", err)
				}
			}
		}
	}
}

// callIn wakes pilots for tasks that have come up.
func (m *matching) callIn(ctx context.Context) {
	p := m.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	due := p.due
	p.due = make(map[task.Site]struct{})
	for site := range due {
		if err := m.refresh(ctx, site); err != nil {
			if ctx.Err() == nil {
				m.config.Log.Warn("cannot read the tasks that wait for a site", "site", site, "error", err)
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
func (m *matching) lookAfter(ctx context.Context) error {
	var central []*centralSite
	err := m.turns.view(ctx, func(t *taskqueue.Turn) error {
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
			if c.unsafe, err = m.turns.rules.Unguarded(t, all[i].Name); err != nil {
				return err
			}
			central = append(central, c)
		}
		m.shareOut(t, all)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range central {
		m.judgeSite(c)
		if err := m.carryOutFor(ctx, c); err != nil {
			return err
		}
	}
	m.callIn(ctx)
	return nil
}

// shareOut tells the matchmaker which sites are alive, and forgets those at which
// masters match or that were removed, with their pilots.
func (m *matching) shareOut(t *taskqueue.Turn, all []taskqueue.SiteRecord) {
	p := m.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var live, storing []task.Site
	central := make(map[task.Site]bool)
	for i := range all {
		if m.turns.rules.Live(t, &all[i]) {
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
func (m *matching) judgeSite(c *centralSite) {
	p := m.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now, name := m.turns.clock.now(), c.site.Name
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
func (m *matching) carryOutFor(ctx context.Context, c *centralSite) error {
	name := c.site.Name
	guarded := c.site.Check && len(c.unsafe) == 0
	defer m.pulls.wakeAll(c.changed)
	if !c.reclaim && !guarded && !c.judged && len(c.silent)+len(c.lost)+len(c.retract) == 0 {
		return nil
	}
	return m.turns.update(ctx, func(t *taskqueue.Turn) error {
		if c.judged {
			if err := m.turns.rules.Judge(t, name, c.nodes); err != nil {
				return err
			}
		}
		if len(c.silent) > 0 {
			if err := m.turns.rules.Dismiss(t, name, c.silent, "it fell silent"); err != nil {
				return err
			}
		}
		if c.reclaim {
			if err := m.turns.rules.Reclaim(t, name, m.inHand(name)); err != nil {
				return err
			}
		}
		if guarded {
			if err := m.turns.rules.Guarded(t, name); err != nil {
				return err
			}
		}
		if len(c.lost) > 0 {
			if err := m.turns.rules.Lose(t, name, c.lost); err != nil {
				return err
			}
		}
		if len(c.retract) > 0 {
			return m.turns.rules.AskBack(t, name, c.retract)
		}
		return nil
	})
}

func (m *matching) inHand(site task.Site) func(task.ID) bool {
	return func(id task.ID) bool {
		m.pulls.mutex.Lock()
		defer m.pulls.mutex.Unlock()
		return m.pulls.maker.InHand(site, id)
	}
}
