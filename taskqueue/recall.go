package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// recall asks the site with most work beyond its share for some of its newest
// unstarted tasks that an idle site can run.
func (b *book) recall(site *SiteRecord, idle int) error {
	work, slots := 0, 0
	for _, name := range b.siteNames {
		if s := b.sites.held[name]; s == site || b.live(s) {
			work, slots = work+s.Leased, slots+s.slots()
		}
	}
	var donor *SiteRecord
	most := 0
	for _, name := range b.siteNames {
		s := b.sites.held[name]
		if s == site || s.Leased == 0 || s.slots() == 0 {
			continue
		}
		excess := min(s.Leased-(work*s.slots()+slots-1)/slots, s.unstarted())
		if excess > s.slots()/4 && excess > most {
			donor, most = s, excess
		}
	}
	if donor == nil {
		site.Alone = b.Clock
		return nil
	}
	pending, err := b.Leases().Revocations(donor.Name)
	if err != nil {
		return fmt.Errorf("load revocations of %s: %w", donor.Name, err)
	}
	asked := make(map[task.ID]struct{}, len(pending))
	for _, r := range pending {
		asked[r.Task] = struct{}{}
	}
	n := min(most, b.config.HandOut.FloorTasks*idle) - len(asked)
	return b.recallFrom(donor, site, n, asked)
}

// lone tells whether a site has only just found that no other has work to spare.
func (b *book) lone(site *SiteRecord) bool {
	return site.Alone != 0 && b.Clock.Sub(site.Alone) < b.config.HandOut.RecallEvery
}

// AskBack asks a site's pilots for tasks that they have not started.
//
// Errors: ErrNotFound (the site).
func (r *Rules) AskBack(t *Turn, name task.Site, tasks []task.Revoked) error {
	return r.apply(t, func(b *book) error {
		if _, err := b.site(name); err != nil {
			return err
		}
		for _, want := range tasks {
			s, err := b.state(want.Task)
			if err != nil {
				return err
			}
			if s == nil || s.State != task.Leased || s.Lease != want.Lease || s.Site != name {
				continue
			}
			running, err := b.started(s)
			if err != nil {
				return err
			}
			if !running {
				b.revoke(name, want.Lease, want.Task, false)
			}
		}
		return nil
	})
}

// recallFrom walks the donor's leases from the newest.
func (b *book) recallFrom(donor, site *SiteRecord, n int, asked map[task.ID]struct{}) error {
	if n <= 0 {
		return nil
	}
	open, err := b.Leases().OfSite(donor.Name)
	if err != nil {
		return fmt.Errorf("load leases of %s: %w", donor.Name, err)
	}
	scan := b.config.HandOut.RecallScan
	for _, lease := range slices.Backward(open) {
		states, err := b.Tasks().InLease(lease.ID)
		if err != nil {
			return fmt.Errorf("load tasks of lease %d: %w", lease.ID, err)
		}
		states = states[max(0, len(states)-scan):]
		scan -= len(states)
		b.holdTasks(states)
		ids := make([]task.ID, 0, len(states))
		for i := range states {
			ids = append(ids, states[i].ID)
		}
		if err := b.loadInputs(ids); err != nil {
			return err
		}
		for _, id := range slices.Backward(ids) {
			s, spec := b.tasks.held[id], b.specs.held[id]
			if _, already := asked[id]; already || spec == nil || s.State != task.Leased || s.Lease != lease.ID ||
				s.Missing > 0 || !b.readsAll(site, spec) || b.refuses(site, spec.Class()) {
				continue
			}
			running, err := b.started(s)
			if err != nil {
				return err
			}
			if running {
				continue
			}
			b.revoke(donor.Name, lease.ID, id, false)
			if n--; n == 0 {
				return nil
			}
		}
		if scan <= 0 {
			return nil
		}
	}
	return nil
}
