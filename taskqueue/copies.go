package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// What becomes of the copies of a file follows from what is recorded of it, by two
// rules: fateOf for what an attempt has stored on a storage element, and cached for what
// only the caches of a site have (docs/decisions/0023-copies.md). Where nobody has a file
// any more that is needed, its maker runs again (lost_files.go).

// fate is what becomes of a copy on a storage element.
type fate uint8

const (
	foreign fate = iota // it is none of this file's, or others may name it: it stays
	counts              // it is a copy of what the catalogue has
	waits               // its attempt may still be accepted
	goes                // nobody will ever need it
)

// fateOf says what becomes of a copy of a file that an attempt has stored. Task and
// attempt are loaded.
func (c *catalogue) fateOf(f *FileRecord, id task.AttemptID) fate {
	attempt := c.attempts.held[id]
	switch {
	case f == nil:
		return foreign
	case f.Going != Stays: // the copy came after its file had gone
		return goes
	case f.Producer == id:
		return counts
	case f.ProducerTask != id.Task:
		return foreign
	case c.tasks.held[id.Task].awaits(id, attempt):
		return waits
	case attempt == nil || attempt.State != AttemptSucceeded || !f.Shared:
		return goes
	case !f.Producer.IsZero() && f.Producer.Generation < id.Generation:
		return goes // what an earlier generation had made was there still
	}
	return foreign // a later run may have taken over what it won with
}

// awaits tells whether the outcome of an attempt may still be accepted: it is not
// judged, and the task is neither over nor in a later generation. An attempt that
// vanished with its pilot is not judged: the pilot may have been cut off only.
func (s *TaskState) awaits(id task.AttemptID, attempt *Attempt) bool {
	judged := attempt != nil && attempt.State != AttemptRunning && attempt.State != AttemptLost
	return s != nil && !judged && !s.State.Terminal() && s.Generation == id.Generation
}

// discard has copies deleted that attempts have stored. What another copy that a file names
// may be, on a storage element with two names, joins its bad ones, and goes with them.
func (c *catalogue) discard(copies ...task.Replica) {
	var garbage []task.Replica
	for _, r := range copies {
		if !c.stored(r) {
			continue
		}
		switch f := c.namer("", r.URL); {
		case f == nil:
			garbage = append(garbage, r)
		case f.ReplicaAt(r.URL) < 0 && !slices.Contains(f.Bad, r):
			f.Bad = append(slices.Clip(f.Bad), r)
			c.files.touch(f.LFN)
		}
	}
	saveAll(garbage, c.Files().AddGarbage)
}

// discardOutputs has an attempt's own copies of outputs deleted, also if it has not told
// of a copy, or does so later.
func (c *catalogue) discardOutputs(site *SiteRecord, id task.AttemptID, outputs []task.Output) {
	if site == nil || site.SE == "" {
		return // it was removed, with what is there
	}
	saveAll(keysOf(outputs, func(out *task.Output) task.Replica {
		return task.Replica{Site: site.Name, URL: site.place(id, out.LFN)}
	}), c.Files().AddGarbage)
}

// discardLosers has deleted what attempts of an ended task may have stored that can
// win no more. Those whose pilots went without a word told nothing of it, so all that
// they were to make is looked for.
func (c *catalogue) discardLosers(s *TaskState) {
	if s.Number <= 1 || !s.State.Terminal() {
		return
	}
	spec := c.specs.one(s.ID)
	if spec == nil || len(spec.Outputs) == 0 {
		return
	}
	for _, a := range c.attempts.ofTask(s.ID) {
		if a.State == AttemptLost {
			c.discardOutputs(c.sites.one(a.Outcome.Site), a.Outcome.Attempt, spec.Outputs)
		}
	}
}

// discardBad has the bad copies of a file deleted that has a good one. Where an earlier or
// a later run may be about to store it in the same place, they go with the file.
func (c *catalogue) discardBad(f *FileRecord) {
	if len(f.Bad) == 0 {
		return
	}
	f.Bad = slices.DeleteFunc(slices.Clone(f.Bad), func(r task.Replica) bool { return f.ReplicaAt(r.URL) >= 0 })
	c.files.touch(f.LFN)
	if !f.Shared && !f.takenOver() {
		bad := f.Bad
		f.Bad = nil // else they are named, and stay
		c.discard(bad...)
	}
}

// stored tells whether a copy is one that an attempt has stored at its site's element.
// No other is ever deleted: it is a user's, who may have given it to others.
func (c *catalogue) stored(replica task.Replica) bool {
	site := c.sites.one(replica.Site)
	if site == nil {
		return false
	}
	name, ok := NameAt(site.SE, replica.URL)
	_, err := task.ParseWorkflowID(string(task.StoredFile(name).Workflow()))
	return ok && err == nil
}

// namer returns another file that has the same copy, under whatever URL; nil if none has.
func (c *catalogue) namer(except task.LFN, url string) *FileRecord {
	name := task.CopyName(url)
	others := append(read(c.Files().Foreign(url)), task.StoredFile(name))
	c.files.load(others...)
	for _, other := range others {
		f := c.files.held[other]
		if other != except && f != nil && slices.ContainsFunc(slices.Concat(f.Replicas, f.Bad), func(r task.Replica) bool { return task.CopyName(r.URL) == name }) {
			return f
		}
	}
	return nil
}

// Garbage lists copies that are to be deleted, but for those of some sites, the
// oldest first, at most limit. Those that the catalogue names are apart: they must not be
// deleted, whatever put them on the list. What later runs have taken over never comes on
// it.
func (r *Rules) Garbage(t *Turn, limit int, except ...task.Site) (garbage, named []task.Replica, err error) {
	defer catch(&err)
	q := r.open(t)
	for _, replica := range read(t.Files().Garbage(limit, append(slices.Clip(except), nowhere)...)) {
		if q.catalogue.namer("", replica.URL) != nil {
			named = append(named, replica)
		} else {
			garbage = append(garbage, replica)
		}
	}
	return garbage, named, nil
}

// letGo has the copies of a file deleted, and caches drop what they have of it. What a
// later run has taken over, or was taken over, caches keep as long as they like.
func (c *catalogue) letGo(f *FileRecord, how Going) {
	copies, common := slices.Concat(f.Replicas, f.Bad), f.Shared || f.takenOver()
	c.alter(f)
	f.Replicas, f.Bad, f.Struck, f.Doubted, f.Going = nil, nil, false, Doubt{}, how
	c.discard(copies...)
	f.Announced = slices.DeleteFunc(slices.Clone(f.Announced), func(name task.Site) bool {
		site := c.sites.one(name)
		return common || site == nil || site.InForce().Central() // where no master can tell its pilots
	})
	for _, name := range f.Announced {
		c.sites.look(c.sites.need(name))
		c.Effects.wake(name)
	}
	if how == EntryGoes {
		f.ProducerTask = ""
	}
	c.settleGoing(f)
}

// settleGoing notes that an entry is to go.
func (c *catalogue) settleGoing(f *FileRecord) {
	if f.Going == EntryGoes && f.Uses == 0 && !exists(f) {
		c.gone = append(c.gone, f.LFN)
	}
}

// forgetGone deletes entries whose last copy and last reader have gone.
func (c *catalogue) forgetGone() {
	gone := slices.DeleteFunc(c.gone, func(name task.LFN) bool {
		f := c.files.held[name]
		return f == nil || f.Going != EntryGoes || exists(f)
	})
	c.gone = nil
	saveAll(gone, c.Files().Delete)
	for _, name := range gone {
		c.files.remove(name)
	}
}

// lose books that no pilot of a site holds the files any more, and strikes bad
// copies.
func (c *catalogue) lose(site task.Site, lost []task.LostFile) {
	c.files.load(keysOf(lost, func(l *task.LostFile) task.LFN { return l.LFN })...)
	for i := range lost {
		f := c.files.held[lost[i].LFN]
		if f == nil || !lost[i].Digest.IsZero() && lost[i].Digest != f.Digest {
			continue // an older generation's
		}
		if lost[i].URL == "" {
			c.withdraw(f, site)
		} else {
			c.badCopy(f, &lost[i])
		}
	}
}

// mostDropped bounds how many files a site is told to drop in one answer.
const mostDropped = 200

// maxCheckPages bounds how many files are looked at for one Sync's Check.
const maxCheckPages = 4

// Unguarded is what a Sync's answer asks the master of a site to check; where
// a site has none the queue decides itself. It reads only.
func (r *Rules) Unguarded(t *Turn, name task.Site) (_ []task.File, err error) {
	defer catch(&err)
	q := r.open(t)
	found, _ := q.catalogue.unguarded(q.sites.need(name))
	return found, nil
}

// look marks a site whose caches may be all that has some files, and where
// perhaps nobody stores them by itself. While none of its pilots is there the queue looks
// on its storage element itself, and whoever comes is asked.
func (r *siteRecords) look(site *SiteRecord) {
	if site.Forget {
		return
	}
	site.Check, site.CheckAfter = true, ""
	r.touch(site.Name)
}

// LookAgain has every site tell anew what it has told once: its members and what
// they have in hand, and the outputs that the queue knows now and of which it knows
// no stored copy. After it was put back to a backup it does not know what it was
// told since. It is called at every start.
func (r *Rules) LookAgain(t *Turn) (err error) {
	q := r.open(t)
	defer q.close(&err)
	sites := read(q.Sites().All())
	for i := range sites {
		site := q.sites.need(sites[i].Name)
		q.sites.look(site)
		q.office.callRoll(site, q.Random.Uint64()) // the next one a master may know from before
		site.CheckUntil, site.Untold = q.Clock, q.Clock
	}

	return nil
}

// takenOver tells whether a file is the result of an earlier run. Its maker
// stores it under that run's name only.
func (f *FileRecord) takenOver() bool {
	return f.ProducerTask != "" && !f.Producer.IsZero() && f.Producer.Task != f.ProducerTask
}

// cached says what is to be done about a file that only the caches of a site have: they
// are to drop it, or somebody is to store it or to report it lost. Neither is needed
// while its maker is there and stores it by itself: it has made it for this run, after
// CheckUntil, and has not stored it before. Maker and attempt are loaded.
func (c *catalogue) cached(f *FileRecord, site *SiteRecord) (drop, ask bool) {
	if f.Going != Stays {
		return true, false
	}
	maker, known := c.pilots.held[f.Producer.Pilot], c.attempts.held[f.Producer]
	if maker == nil || !maker.State.Present() || maker.Site != site.Name {
		return false, true
	}
	return false, site.SE != "" && (f.takenOver() || f.Struck || known != nil && known.Known <= site.CheckUntil)
}

// unguarded returns, of a page of files that only the caches of a site have, those that
// its master is to have stored or to report lost, and those that pilots are to drop. They
// are repeated until they are settled; where a few pages have none, the next call goes on
// behind them. The site's mark is cleared when there are none at all.
func (c *catalogue) unguarded(site *SiteRecord) (ask, drop []task.File) {
	if !site.Check {
		return nil, nil
	}
	page := c.config.Workflow.SweepPage
	for range maxCheckPages {
		files := read(c.Files().OnlyAnnouncedAt(site.Name, site.CheckAfter, page))
		if site.CheckUntil != 0 {
			c.attempts.load(keysOf(files, func(f *FileRecord) task.AttemptID { return f.Producer })...)
		}
		c.pilots.load(keysOf(files, func(f *FileRecord) task.PilotID { return f.Producer.Pilot })...)
		for i := range files {
			dropped, asked := c.cached(&files[i], site)
			if dropped && len(drop) < mostDropped {
				drop = append(drop, files[i].File)
			}
			if asked {
				ask = append(ask, files[i].File)
			}
		}
		if len(ask)+len(drop) > 0 {
			break
		}
		c.sites.touch(site.Name)
		if len(files) < page {
			site.Check, site.CheckAfter, site.CheckUntil = false, "", 0
			break
		}
		site.CheckAfter = files[len(files)-1].LFN
	}
	return ask, drop
}
