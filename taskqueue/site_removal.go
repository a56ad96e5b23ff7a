package taskqueue

import (
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
func (r *Rules) RemoveSite(t *Turn, name task.Site, lose bool) (err error) {
	q := r.open(t)
	defer q.close(&err)
	q.sites.need(name)
	gone := &removal{q.records, &q.catalogue}
	gone.checkIdle(name)
	gone.dropCopies(name, lose)
	gone.revokeGrants(name)
	q.leasing.dropRevocations(name)
	check(q.Sites().Delete(name))
	q.audit.add(AuditEntry{Kind: AuditSite, Subject: string(name), Site: name, Note: "removed"})
	q.sites.put(name, nil)
	q.sites.names, q.catalogue.readable, q.life.walkable = nil, nil, nil
	q.Effects.WakeAll = true // its share goes to the others
	q.life.reassessAll()

	return nil
}

// removal takes what a site has left behind out of the records.
type removal struct {
	*records
	catalogue *catalogue
}

// checkIdle refuses a site that somebody still works at.
func (r *removal) checkIdle(name task.Site) {
	if live := r.pilots.alive(name); len(live) > 0 {
		end(conflict("site %s has live pilots (%d, %s first): drain it with `pilotage site drain %s`, "+
			"end its batch jobs, and remove it when they have gone", name, len(live), live[0].ID, name))
	}
	leases := read(r.Leases().OfSite(name))
	open := 0
	for i := range leases {
		open += leases[i].Open
	}
	if open > 0 {
		end(conflict("site %s holds %s: they come back when its lease ends; remove it then", name, task.Counted(open, "task")))
	}
}

// dropCopies takes the site out of the catalogue. It refuses to leave a file
// without a copy on any storage element unless lose says so.
func (r *removal) dropCopies(name task.Site, lose bool) {
	var sole []task.LFN
	page := r.config.Workflow.SweepPage
	for after := task.LFN(""); ; {
		files := read(r.Files().List("", after, page))
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
					r.catalogue.askCaches(f)
				}
			}
		}
		if len(files) < page {
			break
		}
		after = files[len(files)-1].LFN
	}
	if len(sole) == 0 {
		return
	}
	end(conflict("site %s has the only copy of %s on its storage element, of %s first (`pilotage file list --only-at %s` lists them): "+
		"copy what is needed to another site and register it there (`pilotage file register`), keep the site drained, so that it gets no "+
		"tasks and no uploads, or remove it with --force, which loses them",
		name, task.Counted(len(sole), "file"), sole[0], name))
}

func (r *removal) revokeGrants(name task.Site) {
	for _, grant := range read(r.Grants().All()) {
		if grant.Site != name || grant.Revoked {
			continue
		}
		grant.Revoked = true
		check(r.Grants().Save(grant))
	}
}

// denyFormer keeps pilots of a removed site of the same name out of the new
// one: their certificates may still be valid.
func (r *removal) denyFormer(site *SiteRecord) {
	former := read(r.Pilots().OfSite(site.Name))
	for i := range former {
		if r.config.validUntil(&former[i]).After(r.Wall) {
			site.Denied = append(site.Denied, former[i].Peer)
		}
	}
}
