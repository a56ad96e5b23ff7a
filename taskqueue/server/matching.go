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
	syncs    *parkedSyncs // where their masters are heard as well
	relays   *relays
	access   *access
	config   *Config
	shown    *shown
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

// centralSite is a site at which the queue matches tasks, with its live pilots and the
// files that only caches hold and that nobody stores by itself.
type centralSite struct {
	site   taskqueue.SiteRecord
	pilots []taskqueue.PilotRecord
	unsafe []task.File
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
		care, ask := m.pulls.tend(m.turns.clock.now(), c)
		if !care.Empty() {
			if err := m.turns.update(ctx, func(t *taskqueue.Turn) error { return m.turns.rules.Tend(t, c.site.Name, &care) }); err != nil {
				return err
			}
		}
		m.pulls.wakeAll(ask)
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
