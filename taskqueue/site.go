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
	q := r.open(t)
	defer q.close(&err)
	check(checkSettings(&s))
	site := q.sites.one(s.Name)
	if created = site == nil; created {
		site = &SiteRecord{Name: s.Name, Created: q.Wall}
		q.sites.put(s.Name, site)
		(&removal{q.records, &q.catalogue}).denyFormer(site)
	}
	q.checkReach(site, s.Reach)
	before, were := site.InForce(), site.SiteSettings
	if s.SE != "" && site.SE == "" {
		q.sites.look(site) // what was taken over from its caches can be stored now
	}
	site.SEFiles = s.SEFiles
	site.SE, site.RemoteRead, site.Mode = s.SE, s.RemoteRead, s.Mode
	if s.Fallback == "" || site.SE == "" { // an isolated site needs a storage element
		site.endFallback()
		site.TrialPause = 0
	}
	q.changedMode(site, before, "an operator has set it")
	site.RoundEvery, site.Prefill = s.RoundEvery, s.Prefill
	site.LocalityWait, site.Solver, site.Rank = s.LocalityWait, s.Solver, s.Rank
	site.Replicate, site.MinConfinement = s.Replicate, s.MinConfinement
	site.Reach = nil
	if len(s.Reach) > 0 {
		site.Reach = slices.Compact(slices.Sorted(slices.Values(s.Reach)))
	}
	q.audit.add(AuditEntry{Kind: AuditSite, Subject: string(s.Name), Site: s.Name, Note: site.changes(&were)})
	if q.life.reassessAll(); !created {
		q.catalogue.readable, q.life.walkable = nil, nil
		q.ready.reassess() // where little waits, whoever looks next sees what came of it
	}
	return created, nil
}

// checkSettings refuses settings that no site can have.
func checkSettings(s *SiteRecord) error {
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
	return checkPolicy(s)
}

// checkReach refuses, of the sites whose storage elements a site is to read,
// itself and those that the queue does not know. A name that was given before
// stays good when its site has been removed.
func (q *queue) checkReach(site *SiteRecord, reach []task.Site) {
	for _, name := range reach {
		if name == site.Name {
			end(invalid("reach: site %s always reads its own storage element: name other sites, or forbid these with --remote-read=false", name))
		}
		if slices.Contains(site.Reach, name) {
			continue
		}
		if q.sites.one(name) != nil {
			continue
		}
		all := read(q.Sites().All())
		known := make([]string, 0, len(all))
		for i := range all {
			if all[i].Name != site.Name {
				known = append(known, string(all[i].Name))
			}
		}
		end(invalid("reach: there is no site %s (beside %s there is %s): add it first; what %s reads can be set at any time",
			name, site.Name, cmp.Or(strings.Join(known, ", "), "no site yet"), site.Name))
	}
}

// DrainSite stops hand-outs to a site, or resumes them. What it holds it
// finishes; what then waits for files that only its caches have, because it has no
// storage, is made possible elsewhere.
//
// Errors: ErrNotFound.
func (r *Rules) DrainSite(t *Turn, name task.Site, drain bool) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	site.Draining = drain
	note := ""
	if !drain {
		note = "no more: it gets tasks again"
	}
	q.audit.add(AuditEntry{Kind: AuditDrained, Subject: string(name), Site: name, Note: note})
	q.sites.touch(name)
	if site.abandons() {
		q.life.reassessAll()
	}
	q.Effects.Modes = true
	q.Effects.WakeAll = true // its share goes to the others, or comes back

	return nil
}

// DrainPilot asks a live pilot, through its master, to finish what runs and
// to leave.
//
// Errors: ErrNotFound, ErrConflict (it has gone).
func (r *Rules) DrainPilot(t *Turn, id task.PilotID) (err error) {
	q := r.open(t)
	defer q.close(&err)
	pilot := q.pilots.need(id)
	site := q.sites.need(pilot.Site)
	if !pilot.State.Present() {
		end(conflict("pilot %s is %s: there is nothing to drain", id, pilot.State))
	}
	q.audit.add(AuditEntry{Kind: AuditDrained, Subject: string(id), Site: site.Name, Node: pilot.Node(), Pilot: id, Job: pilot.BatchJob})
	q.members.drain(site, pilot)
	return nil
}

// drain has a live pilot told, from now on or again, that it is to leave.
func (m *members) drain(site *SiteRecord, pilot *PilotRecord) {
	pilot.Drain, pilot.State = true, PilotDraining
	m.pilots.touch(pilot.ID)
	if !slices.Contains(site.Drain, pilot.ID) {
		site.Drain = append(site.Drain, pilot.ID)
		m.sites.touch(site.Name)
	}
	m.Effects.wake(site.Name)
	m.Effects.wakePilot(pilot.ID)
}

// Deny revokes a pilot's membership, named by its pilot id or peer id: the
// site's pilots learn it with the next Sync and talk to it no more, and it
// cannot register again.
//
// Errors: ErrNotFound.
func (r *Rules) Deny(t *Turn, name string) (err error) {
	q := r.open(t)
	defer q.close(&err)
	id := task.PilotID(name)
	if _, err := task.ParsePilotID(name); err != nil {
		id = read(q.Pilots().ByPeer(task.PeerID(name)))
		if id == "" {
			end(NotFound("pilot or peer", name))
		}
	}
	pilot := q.pilots.need(id)
	site := q.sites.need(pilot.Site)
	q.expel(site, pilot, "its membership was revoked")
	return nil
}

// RegisterFiles makes external files known to every workflow, under "vo:" and
// their name, and returns how many were new. A file that is known gets further
// copies; its content cannot change. A name that belongs to a workflow which
// waits for it ("w-...:name", as explain prints it) is registered for that
// workflow only.
//
// Errors: ErrInvalid, ErrConflict (the name stands for other content).
func (r *Rules) RegisterFiles(t *Turn, files []task.File, group string) (n int, err error) {
	q := r.open(t)
	defer q.close(&err)
	check(q.By.shares(group))
	names := make([]task.LFN, len(files))
	for i := range files {
		names[i] = shared(string(files[i].LFN))
		if files[i].LFN.Workflow() != "" {
			names[i] = files[i].LFN
		}
	}
	q.files.load(names...)
	if len(names) > 0 {
		q.audit.add(AuditEntry{Kind: AuditFiles, Subject: string(names[0]), Note: task.Counted(len(names), "file")})
	}
	for i := range files {
		if q.catalogue.registerFile(names[i], &files[i], group) {
			n++
		}
	}
	return n, nil
}

func (c *catalogue) registerFile(name task.LFN, f *task.File, group string) (added bool) {
	c.checkFile(f)
	if len(f.Replicas) == 0 {
		end(invalid("file %s: give at least one copy", f.LFN))
	}
	record, shared := c.files.held[name], strings.HasPrefix(string(name), task.SharedPrefix)
	if record == nil && !shared {
		end(NotFound("file", name))
	}
	if record == nil || len(record.Replicas) == 0 {
		record = c.entry(name)
		if record.ProducerTask != "" {
			end(conflict("file %s is made by task %s", name, record.ProducerTask))
		}
		if shared {
			if record.Owner != "" {
				check(c.By.MayChangeFile(record))
			}
			record.Owner, record.Group = c.By.Name, group
		}
		c.describeFile(record, f)
		return true
	}
	if record.Size >= 0 && f.Size >= 0 && record.Size != f.Size ||
		!record.Digest.IsZero() && !f.Digest.IsZero() && record.Digest != f.Digest ||
		record.Adler32 != "" && f.Adler32 != "" && !strings.EqualFold(record.Adler32, f.Adler32) {
		end(conflict("file %s is registered with other content (%d bytes): files never change, choose another name",
			name, record.Size))
	}
	for _, replica := range f.Replicas {
		switch known := record.ReplicaAt(replica.URL) >= 0; {
		case known:
		case shared && c.By.MayChangeFile(record) != nil:
			end(c.By.MayChangeFile(record))
		case len(record.Replicas) >= maxCopies:
			end(fmt.Errorf("%w: file %s has %d copies: at most %d are kept", ErrLimit, name, len(record.Replicas), maxCopies))
		}
		c.replicate(record, replica)
	}
	return false
}

// AddGrant keeps what the queue knows of a new access token.
//
// Errors: ErrInvalid, ErrConflict (the id is taken), ErrNotFound (the site).
func (r *Rules) AddGrant(t *Turn, g Grant) (err error) {
	q := r.open(t)
	defer q.close(&err)
	switch {
	case g.ID == "" || g.Hash == [32]byte{}:
		end(invalid("a grant needs an id and the hash of its token"))
	case !slices.Contains([]string{"admin", "operator", "submit", "read-only", "pilot", "factory"}, g.Role):
		end(invalid("role %q: one of admin, operator, submit, read-only, pilot, factory", g.Role))
	case (g.Role == "pilot" || g.Role == "factory" || g.Role == "operator") != (g.Site != ""):
		end(invalid("the token of a pilot, a factory or an operator names one site, any other token none"))
	case g.Once && g.Role != "pilot":
		end(invalid("only a pilot's token is for one registration"))
	}
	if g.Site != "" {
		q.sites.need(g.Site)
	}
	known := read(q.Grants().Load(g.ID))
	if len(known) > 0 {
		end(conflict("access %s exists", g.ID))
	}
	check(q.Grants().Save(g))
	q.audit.add(AuditEntry{Kind: AuditAccess, Subject: g.ID, Site: g.Site, Note: g.Role + " for " + g.Holder().Name})

	return nil
}

// RevokeGrant makes an access token useless, and if told so revokes the live pilots
// that registered with it. It returns them. Revoking twice does nothing more.
//
// Errors: ErrNotFound.
func (r *Rules) RevokeGrant(t *Turn, id string, endPilots bool) (pilots []task.PilotID, err error) {
	q := r.open(t)
	defer q.close(&err)
	known := read(q.Grants().Load(id))
	if len(known) == 0 {
		end(NotFound("access", id))
	}
	known[0].Revoked = true
	check(q.Grants().Save(known[0]))
	q.audit.add(AuditEntry{Kind: AuditRevoked, Subject: id, Site: known[0].Site, Note: "access of " + known[0].Holder().Name})
	registered := func(p *PilotRecord) bool { return p.Token == id }
	if endPilots {
		return q.expelAll("", registered, "the access with which it registered was revoked"), nil
	}
	for site := range q.sites.all() {
		for _, pilot := range q.pilots.alive(site.Name) {
			if registered(pilot) {
				pilots = append(pilots, pilot.ID)
			}
		}
	}
	return pilots, nil
}
