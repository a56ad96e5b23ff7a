package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// RemoveSite forgets a site: its settings, mastership and sums, the copies of
// files on its storage element, and the accesses of its pilots, which are
// revoked. Every file of the catalogue is looked at, in one transaction. Files of
// which it alone has a copy are lost if lose says so: what tasks made is made
// again, and readers of external ones wait.
//
// Errors: ErrNotFound, ErrConflict (it has live pilots, open leases, or, without
// lose, the only copy of a file).
func (r *Rules) RemoveSite(t *Turn, name task.Site, lose bool) error {
	return r.apply(t, func(q *queue) error {
		if _, err := q.site(name); err != nil {
			return err
		}
		gone := &removal{q.records, q.catalogue}
		if err := gone.checkIdle(name); err != nil {
			return err
		}
		if err := gone.dropCopies(name, lose); err != nil {
			return err
		}
		if err := gone.revokeGrants(name); err != nil {
			return err
		}
		revocations, err := q.Leases().Revocations(name)
		if err != nil {
			return fmt.Errorf("load what %s was asked for: %w", name, err)
		}
		if err := q.Leases().Confirm(revocations...); err != nil {
			return fmt.Errorf("forget what %s was asked for: %w", name, err)
		}
		if err := q.Sites().Delete(name); err != nil {
			return fmt.Errorf("delete site %s: %w", name, err)
		}
		q.sites.put(name, nil)
		q.siteNames, q.catalogue.readable, q.life.walkable = nil, nil, nil
		q.Effects.WakeAll = true // its share goes to the others
		return q.reassessAll()
	})
}

// removal takes what a site has left behind out of the records.
type removal struct {
	*records
	catalogue *catalogue
}

// checkIdle refuses a site that somebody still works at.
func (r *removal) checkIdle(name task.Site) error {
	live, err := r.alive(name)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return conflict("site %s has live pilots (%d, %s first): drain it with `pilotage site drain %s`, "+
			"end its batch jobs, and remove it when they have gone", name, len(live), live[0].ID, name)
	}
	leases, err := r.Leases().OfSite(name)
	if err != nil {
		return fmt.Errorf("load the leases of %s: %w", name, err)
	}
	open := 0
	for i := range leases {
		open += leases[i].Open
	}
	if open > 0 {
		return conflict("site %s holds %s: they come back when its lease ends; remove it then", name, task.Counted(open, "task"))
	}
	return nil
}

// dropCopies takes the site out of the catalogue. It refuses to leave a file
// without a copy on any storage element unless lose says so.
func (r *removal) dropCopies(name task.Site, lose bool) error {
	var sole []task.LFN
	page := r.config.Workflow.SweepPage
	for after := task.LFN(""); ; {
		files, err := r.Files().List("", after, page)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		for i := range files {
			f := &files[i]
			elsewhere := slices.DeleteFunc(slices.Clone(f.Replicas), func(r task.Replica) bool { return r.Site == name })
			switch {
			case len(elsewhere) < len(f.Replicas) && len(elsewhere) == 0 && !lose:
				sole = append(sole, f.LFN)
			case len(elsewhere) < len(f.Replicas) || slices.Contains(f.Announced, name):
				r.files.put(f.LFN, f)
				r.catalogue.withdraw(f, name)
				r.catalogue.alter(f)
				struck := len(f.Replicas) > 0 && len(elsewhere) == 0
				f.Replicas = elsewhere
				if struck && f.ProducerTask != "" {
					if err := r.catalogue.askCaches(f); err != nil {
						return err
					}
				}
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
	return conflict("site %s has the only copy of %s on its storage element, of %s first (`pilotage file list --only-at %s` lists them): "+
		"copy what is needed to another site and register it there (`pilotage file register`), keep the site drained, so that it gets no "+
		"tasks and no uploads, or remove it with --force, which loses them",
		name, task.Counted(len(sole), "file"), sole[0], name)
}

func (r *removal) revokeGrants(name task.Site) error {
	grants, err := r.Grants().All()
	if err != nil {
		return fmt.Errorf("load access tokens: %w", err)
	}
	for _, grant := range grants {
		if grant.Site != name || grant.Revoked {
			continue
		}
		grant.Revoked = true
		if err := r.Grants().Save(grant); err != nil {
			return fmt.Errorf("revoke access %s: %w", grant.ID, err)
		}
	}
	return nil
}

// denyFormer keeps pilots of a removed site of the same name out of the new
// one: their certificates may still be valid.
func (r *removal) denyFormer(site *SiteRecord) error {
	former, err := r.Pilots().OfSite(site.Name)
	if err != nil {
		return fmt.Errorf("load earlier pilots of %s: %w", site.Name, err)
	}
	for i := range former {
		if r.config.validUntil(&former[i]).After(r.Wall) {
			site.Denied = append(site.Denied, former[i].Peer)
		}
	}
	return nil
}
