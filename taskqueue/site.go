package taskqueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Longest period of a task list, most tasks that wait at one slot, and longest
// wait of a slot: beyond them a site would stand still, or hoard.
const (
	maxRound        = time.Hour
	maxPrefill      = 1000
	maxLocalityWait = time.Hour
)

// AddSite creates a site, or changes the settings of one: storage element and the
// files with its credentials, remote reads, reach, mode, rounds, prefill, locality wait, solver, rank and
// replica policies. A fallback ends unless the record still has it. Everything
// else of the record is ignored.
//
// Errors: ErrInvalid.
func (r *Rules) AddSite(t *Turn, s SiteRecord) (created bool, err error) {
	err = r.apply(t, func(q *queue) error {
		if _, err := task.ParseSite(string(s.Name)); err != nil {
			return invalid("%w", err)
		}
		if s.Mode == "" {
			s.Mode = ModeDistributed
		}
		if s.Mode != ModeDistributed && !s.Mode.Central() {
			return invalid("mode %q is not known: give %s, %s or %s", s.Mode, ModeDistributed, ModeCentralized, ModeIsolated)
		}
		if s.Mode == ModeIsolated && s.SE == "" {
			return invalid("site %s: mode %s needs a storage element: without one, what a pilot makes no other pilot can read", s.Name, s.Mode)
		}
		if s.RoundEvery < 0 || s.RoundEvery > maxRound {
			return invalid("round period %s: give 0 to %s", s.RoundEvery, maxRound)
		}
		if s.Prefill < NoPrefill || s.Prefill > maxPrefill {
			return invalid("prefill %d: give 0 to %d tasks per slot", s.Prefill, maxPrefill)
		}
		if s.LocalityWait < NoLocalityWait || s.LocalityWait > maxLocalityWait {
			return invalid("locality wait %s: give at most %s, 0 for none", s.LocalityWait, maxLocalityWait)
		}
		if err := checkPolicy(&s); err != nil {
			return err
		}
		site, err := q.site(s.Name)
		if err != nil {
			if !isNotFound(err) {
				return err
			}
			created = true
			site = &SiteRecord{Name: s.Name, Created: q.Wall}
			q.sites.put(s.Name, site)
			if err := (&removal{q.records, q.catalogue}).denyFormer(site); err != nil {
				return err
			}
		}
		if err := q.checkReach(site, s.Reach); err != nil {
			return err
		}
		before := site.InForce()
		if s.SE != "" && site.SE == "" {
			q.look(site) // what was taken over from its caches can be stored now
		}
		site.SEFiles = s.SEFiles
		site.SE, site.RemoteRead, site.Mode = s.SE, s.RemoteRead, s.Mode
		if s.Fallback == "" || site.SE == "" { // an isolated site needs a storage element
			site.endFallback()
			site.TrialPause = 0
		}
		if err := q.changedMode(site, before, "an operator has set it"); err != nil {
			return err
		}
		site.RoundEvery, site.Prefill = s.RoundEvery, s.Prefill
		site.LocalityWait, site.Solver, site.Rank = s.LocalityWait, s.Solver, s.Rank
		site.Replicate = s.Replicate
		site.Reach = nil
		if len(s.Reach) > 0 {
			site.Reach = slices.Compact(slices.Sorted(slices.Values(s.Reach)))
		}
		if err := q.reassessAll(); err != nil || created {
			return err
		}
		q.catalogue.readable, q.life.walkable = nil, nil
		return q.ready.reassess() // where little waits, whoever looks next sees what came of it
	})
	return created, err
}

// checkReach refuses, of the sites whose storage elements a site is to read,
// itself and those that the queue does not know. A name that was given before
// stays good when its site has been removed.
func (q *queue) checkReach(site *SiteRecord, reach []task.Site) error {
	for _, name := range reach {
		if name == site.Name {
			return invalid("reach: site %s always reads its own storage element: name other sites, or forbid these with --remote-read=false", name)
		}
		if slices.Contains(site.Reach, name) {
			continue
		}
		if _, err := q.site(name); !isNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		all, err := q.Sites().All()
		if err != nil {
			return fmt.Errorf("load sites: %w", err)
		}
		known := make([]string, 0, len(all))
		for i := range all {
			if all[i].Name != site.Name {
				known = append(known, string(all[i].Name))
			}
		}
		return invalid("reach: there is no site %s (beside %s there is %s): add it first; what %s reads can be set at any time",
			name, site.Name, cmp.Or(strings.Join(known, ", "), "no site yet"), site.Name)
	}
	return nil
}

// DrainSite stops hand-outs to a site, or resumes them. What it holds it
// finishes; what then waits for files that only its caches have, because it has no
// storage, is made possible elsewhere.
//
// Errors: ErrNotFound.
func (r *Rules) DrainSite(t *Turn, name task.Site, drain bool) error {
	return r.apply(t, func(q *queue) error {
		site, err := q.site(name)
		if err != nil {
			return err
		}
		site.Draining = drain
		q.sites.touch(name)
		if site.abandons() {
			if err := q.reassessAll(); err != nil {
				return err
			}
		}
		q.Effects.Modes = true
		q.Effects.WakeAll = true // its share goes to the others, or comes back
		return nil
	})
}

// DrainPilot asks a live pilot, through its master, to finish what runs and
// to leave.
//
// Errors: ErrNotFound, ErrConflict (it has gone).
func (r *Rules) DrainPilot(t *Turn, id task.PilotID) error {
	return r.apply(t, func(q *queue) error {
		pilot, site, err := q.pilot(id)
		if err != nil {
			return err
		}
		if !pilot.State.present() {
			return conflict("pilot %s is %s: there is nothing to drain", id, pilot.State)
		}
		pilot.Drain, pilot.State = true, PilotDraining
		q.pilots.touch(id)
		if !slices.Contains(site.Drain, id) {
			site.Drain = append(site.Drain, id)
			q.sites.touch(site.Name)
		}
		q.Effects.wake(site.Name)
		q.Effects.wakePilot(id)
		return nil
	})
}

// Deny revokes a pilot's membership, named by its pilot id or peer id: the
// site's pilots learn it with the next Sync and talk to it no more, and it
// cannot register again.
//
// Errors: ErrNotFound.
func (r *Rules) Deny(t *Turn, name string) error {
	return r.apply(t, func(q *queue) error {
		id := task.PilotID(name)
		if _, err := task.ParsePilotID(name); err != nil {
			if id, err = q.Pilots().ByPeer(task.PeerID(name)); err != nil {
				return fmt.Errorf("find the pilot of peer %s: %w", name, err)
			}
			if id == "" {
				return notFound("pilot or peer", name)
			}
		}
		pilot, site, err := q.pilot(id)
		if err != nil {
			return err
		}
		if !site.denies(pilot.Peer) {
			site.Denied = append(site.Denied, pilot.Peer)
			q.sites.touch(site.Name)
		}
		q.Effects.wake(site.Name)
		if !pilot.State.present() {
			return nil
		}
		return q.dismiss(site, pilot, PilotDead, "its membership was revoked")
	})
}

// RegisterFiles makes external files known to every workflow, under "vo:" and
// their name, and returns how many were new. A file that is known gets further
// copies; its content cannot change. A name that belongs to a workflow which
// waits for it ("w-...:name", as explain prints it) is registered for that
// workflow only.
//
// Errors: ErrInvalid, ErrConflict (the name stands for other content).
func (r *Rules) RegisterFiles(t *Turn, files []task.File) (int, error) {
	n := 0
	err := r.apply(t, func(q *queue) error {
		names := make([]task.LFN, len(files))
		for i := range files {
			names[i] = shared(string(files[i].LFN))
			if w := workflowOf(files[i].LFN); strings.HasPrefix(string(w), "w-") {
				names[i] = files[i].LFN
			}
		}
		if err := q.files.load(names...); err != nil {
			return err
		}
		for i := range files {
			added, err := q.catalogue.registerFile(names[i], &files[i])
			if err != nil {
				return err
			}
			if added {
				n++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (c *catalogue) registerFile(name task.LFN, f *task.File) (added bool, err error) {
	if err := c.checkFile(f); err != nil {
		return false, err
	}
	if len(f.Replicas) == 0 {
		return false, invalid("file %s: give at least one copy", f.LFN)
	}
	record := c.files.held[name]
	if record == nil && !strings.HasPrefix(string(name), task.SharedPrefix) {
		return false, notFound("file", name)
	}
	if record == nil || len(record.Replicas) == 0 {
		if record, err = c.entry(name); err != nil {
			return false, err
		}
		if record.ProducerTask != "" {
			return false, conflict("file %s is made by task %s", name, record.ProducerTask)
		}
		return true, c.describeFile(record, f)
	}
	if record.Size >= 0 && f.Size >= 0 && record.Size != f.Size ||
		!record.Digest.IsZero() && !f.Digest.IsZero() && record.Digest != f.Digest ||
		record.Adler32 != "" && f.Adler32 != "" && !strings.EqualFold(record.Adler32, f.Adler32) {
		return false, conflict("file %s is registered with other content (%d bytes): files never change, choose another name",
			name, record.Size)
	}
	for _, replica := range f.Replicas {
		if err := c.replicate(record, replica); err != nil {
			return false, err
		}
	}
	return false, nil
}

// AddGrant keeps what the queue knows of a new access token.
//
// Errors: ErrInvalid, ErrConflict (the id is taken), ErrNotFound (the site).
func (r *Rules) AddGrant(t *Turn, g Grant) error {
	return r.apply(t, func(q *queue) error {
		switch {
		case g.ID == "" || g.Hash == [32]byte{}:
			return invalid("a grant needs an id and the hash of its token")
		case g.Role != "admin" && g.Role != "submit" && g.Role != "pilot" && g.Role != "factory":
			return invalid("role %q: one of admin, submit, pilot, factory", g.Role)
		case (g.Role == "pilot" || g.Role == "factory") != (g.Site != ""):
			return invalid("the token of a pilot or a factory names one site, any other token none")
		case g.Once && g.Role != "pilot":
			return invalid("only a pilot's token is for one registration")
		}
		if g.Site != "" {
			if _, err := q.site(g.Site); err != nil {
				return err
			}
		}
		known, err := q.Grants().Load(g.ID)
		if err != nil {
			return fmt.Errorf("load grant %s: %w", g.ID, err)
		}
		if len(known) > 0 {
			return conflict("access %s exists", g.ID)
		}
		return q.Grants().Save(g)
	})
}

// RevokeGrant makes an access token useless. Revoking twice does nothing.
//
// Errors: ErrNotFound.
func (r *Rules) RevokeGrant(t *Turn, id string) error {
	return r.apply(t, func(q *queue) error {
		known, err := q.Grants().Load(id)
		if err != nil {
			return fmt.Errorf("load grant %s: %w", id, err)
		}
		if len(known) == 0 {
			return notFound("access", id)
		}
		known[0].Revoked = true
		return q.Grants().Save(known[0])
	})
}
