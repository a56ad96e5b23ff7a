package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// RemoveSite forgets a site: its settings, mastership and sums, the copies of
// files on its storage element, and the accesses of its pilots, which are
// revoked. Every file of the catalogue is looked at, in one transaction.
//
// Errors: ErrNotFound, ErrConflict (it has live pilots, open leases, or the
// only copy of a file).
func (r *Rules) RemoveSite(t *Turn, name task.Site) error {
	return r.apply(t, func(b *book) error {
		if _, err := b.site(name); err != nil {
			return err
		}
		if err := b.checkIdle(name); err != nil {
			return err
		}
		if err := b.dropCopies(name); err != nil {
			return err
		}
		if err := b.revokeGrants(name); err != nil {
			return err
		}
		revocations, err := b.Leases().Revocations(name)
		if err != nil {
			return fmt.Errorf("load what %s was asked for: %w", name, err)
		}
		if err := b.Leases().Confirm(revocations...); err != nil {
			return fmt.Errorf("forget what %s was asked for: %w", name, err)
		}
		if err := b.Sites().Delete(name); err != nil {
			return fmt.Errorf("delete site %s: %w", name, err)
		}
		b.sites.put(name, nil)
		b.siteNames, b.readable, b.walkable = nil, nil, nil
		b.Effects.WakeAll = true // its share goes to the others
		return b.reassessAll()
	})
}

// checkIdle refuses a site that somebody still works at.
func (b *book) checkIdle(name task.Site) error {
	live, err := b.alive(name)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return conflict("site %s has live pilots (%d, %s first): drain it with `pilotage site drain %s`, "+
			"end its batch jobs, and remove it when they have gone", name, len(live), live[0].ID, name)
	}
	leases, err := b.Leases().OfSite(name)
	if err != nil {
		return fmt.Errorf("load the leases of %s: %w", name, err)
	}
	open := 0
	for i := range leases {
		open += leases[i].Open
	}
	if open > 0 {
		return conflict("site %s holds %d tasks: they come back when its lease ends; remove it then", name, open)
	}
	return nil
}

// dropCopies takes the site out of the catalogue, unless a file would be left
// without a copy on any storage element.
func (b *book) dropCopies(name task.Site) error {
	var sole []task.LFN
	page := b.config.Workflow.SweepPage
	for after := task.LFN(""); ; {
		files, err := b.Files().List("", after, page)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		for i := range files {
			f := &files[i]
			elsewhere := slices.DeleteFunc(slices.Clone(f.Replicas), func(r task.Replica) bool { return r.Site == name })
			switch {
			case len(elsewhere) < len(f.Replicas) && len(elsewhere) == 0:
				sole = append(sole, f.LFN)
			case len(elsewhere) < len(f.Replicas) || slices.Contains(f.Announced, name):
				b.files.put(f.LFN, f)
				b.withdraw(f, name)
				b.alter(f)
				f.Replicas = elsewhere
			}
		}
		if len(files) < page {
			break
		}
		after = files[len(files)-1].LFN
	}
	if len(sole) == 0 {
		return nil
	}
	return conflict("site %s has the only copy of %d files (%s first) on its storage element: copy what is needed to another "+
		"site and register it there (`pilotage file register`), or keep the site drained: it gets no tasks and no uploads then",
		name, len(sole), sole[0])
}

func (b *book) revokeGrants(name task.Site) error {
	grants, err := b.Grants().All()
	if err != nil {
		return fmt.Errorf("load access tokens: %w", err)
	}
	for _, grant := range grants {
		if grant.Site != name || grant.Revoked {
			continue
		}
		grant.Revoked = true
		if err := b.Grants().Save(grant); err != nil {
			return fmt.Errorf("revoke access %s: %w", grant.ID, err)
		}
	}
	return nil
}

// denyFormer keeps pilots of a removed site of the same name out of the new
// one: their certificates may still be valid.
func (b *book) denyFormer(site *SiteRecord) error {
	former, err := b.Pilots().OfSite(site.Name)
	if err != nil {
		return fmt.Errorf("load earlier pilots of %s: %w", site.Name, err)
	}
	for i := range former {
		if b.validUntil(&former[i]).After(b.Wall) {
			site.Denied = append(site.Denied, former[i].Peer)
		}
	}
	return nil
}
