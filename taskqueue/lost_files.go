package taskqueue

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// remakeFinal asks for a final output that nobody has to be made again, if it
// was made. That may have been in this very turn: news of a dead pilot's output
// and of its loss come together.
func (r *readiness) remakeFinal(f *FileRecord) {
	if f.Final && f.ProducerTask != "" {
		r.life.remaking = append(r.life.remaking, f.ProducerTask)
	}
}

// askMakers asks those who made the missing inputs of a waiting task to make
// them again. If one of them ended badly the task ends with it.
func (r *readiness) askMakers(s *TaskState, spec *task.Task) {
	for _, name := range inputs(spec) {
		f := r.files.held[name]
		if f == nil || exists(f) || f.ProducerTask == "" {
			continue
		}
		maker := r.tasks.held[f.ProducerTask]
		switch {
		case maker == nil:
		case maker.State == task.Done:
			r.life.remaking = append(r.life.remaking, maker.ID)
		case maker.State.EndedBadly():
			r.life.cancelUpstream(s, maker)
			return
		}
	}
}

// remakeAll opens a new generation of every task whose lost output is needed.
func (r *readiness) remakeAll() {
	ids := r.life.remaking
	r.life.remaking = nil
	if len(ids) == 0 {
		return
	}
	r.tasks.load(ids...)
	r.loadOutputs(ids)
	for _, id := range ids {
		if s := r.tasks.held[id]; s != nil && s.State == task.Done {
			r.regenerate(s)
		}
	}
}

// loadOutputs loads descriptions and output files of tasks.
func (r *records) loadOutputs(ids []task.ID) {
	r.specs.load(ids...)
	var names []task.LFN
	for _, id := range ids {
		if spec := r.specs.held[id]; spec != nil {
			for _, out := range spec.Outputs {
				names = append(names, out.LFN)
			}
		}
	}
	r.files.load(names...)
}

// regenerate reopens a DONE task because its output was lost, or fails it
// when that happened too often or nothing is gained by it.
func (r *readiness) regenerate(s *TaskState) {
	w := r.workflow(s.ID.Workflow())
	if w.Cancelled || w.Deleted {
		return
	}
	inVain := r.inVain(w)
	site := s.Site
	r.life.move(s, task.Regenerate, "its output was lost and is needed again")
	r.life.renew(s)
	if inVain {
		r.life.giveUp(s, fmt.Sprintf("its output was on no storage element, and has left the caches of %s", site))
		return
	}
	s.Remade++
	if s.Remade > r.config.Retry.MaxGenerations {
		r.life.giveUp(s, fmt.Sprintf("its output was lost %s: storage or pilots of the sites that ran it lose files", task.Counted(s.Remade, "time")))
		return
	}
	r.life.review(s.ID)
}

// renew gives a reopened task its next generation and empties the entries of
// those outputs that nobody has.
func (l *lifecycle) renew(s *TaskState) {
	s.Generation++
	s.Winner = task.AttemptID{}
	s.Failures, s.Losses, s.PilotFaults, s.StorageFaults, s.NotBefore = 0, 0, 0, 0, 0
	s.Site = ""
	l.tasks.touch(s.ID)
	spec := l.specs.held[s.ID]
	if spec == nil {
		return
	}
	for _, out := range spec.Outputs {
		if f := l.files.held[out.LFN]; f != nil && !exists(f) && !f.Producer.IsZero() {
			f.Producer, f.Digest, f.Size, f.Struck = task.AttemptID{}, task.Digest{}, -1, false
			l.files.touch(f.LFN)
		}
	}
}

// giveUp fails an open task for good, with all that depends on it.
func (l *lifecycle) giveUp(s *TaskState, reason string) {
	l.move(s, task.GiveUp, reason)
	l.ended = append(l.ended, s.ID)
}

// cancelDependants cancels the open readers of what the tasks that ended
// badly will not make, and theirs in turn.
func (r *readiness) cancelDependants() {
	for len(r.life.ended) > 0 {
		ids := r.life.ended
		r.life.ended = nil
		r.tasks.load(ids...)
		r.loadOutputs(ids)
		for _, id := range ids {
			r.cancelReaders(id)
			if s := r.tasks.held[id]; s != nil {
				r.catalogue.discardLosers(s)
			}
		}
	}
}

func (r *readiness) cancelReaders(id task.ID) {
	ended, spec := r.tasks.held[id], r.specs.held[id]
	if ended == nil || spec == nil || !ended.State.EndedBadly() {
		return
	}
	for _, out := range spec.Outputs {
		f := r.files.held[out.LFN]
		if f == nil || f.Uses == 0 || exists(f) {
			continue
		}
		readers := read(r.Files().Readers(f.LFN))
		r.tasks.load(readers...)
		for _, reader := range readers {
			if s := r.tasks.held[reader]; s != nil && !s.State.Terminal() {
				r.life.cancelUpstream(s, ended)
			}
		}
	}
}

// cancelUpstream ends a task because one that it depends on ended badly.
func (l *lifecycle) cancelUpstream(s, ended *TaskState) {
	root := ended.ID
	if ended.Upstream != "" {
		root = ended.Upstream
	}
	if s.State == task.Leased {
		l.revoke(s.Site, s.Lease, s.ID, true)
	}
	l.move(s, task.CancelUpstream, fmt.Sprintf("%s, on which it depends, ended %s", ended.ID, ended.State))
	s.Upstream = root
	l.ended = append(l.ended, s.ID)
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

// forgetCaches withdraws one page of what only the caches of a site held,
// after its last pilot has gone. It clears the site's mark when it is done.
func (c *catalogue) forgetCaches(site *SiteRecord) {
	page := c.config.Workflow.SweepPage
	files := read(c.Files().OnlyAnnouncedAt(site.Name, "", page))
	for _, f := range c.files.of(files) {
		c.withdraw(f, site.Name)
	}
	site.Forget = len(files) == page
	c.sites.touch(site.Name)
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
	found, _ := q.catalogue.unguarded(q.site(name))
	return found, nil
}

// look marks a site whose caches may be all that has some files, and where
// perhaps nobody stores them by itself.
func (r *records) look(site *SiteRecord) {
	site.Check, site.CheckAfter = true, ""
	r.sites.touch(site.Name)
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
		site := q.site(sites[i].Name)
		q.look(site)
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

// unguarded returns files that only the caches of a site hold and that nobody
// stores by itself: their maker is not there any more, made them for an earlier
// run, or has stored them before; and those that were known by CheckUntil. The master is asked to have them stored, or to report them lost.
// Those that are found are repeated until they are settled; where a few pages
// have none, the next call goes on behind them. The site's mark is cleared when
// there are none at all.
//
// Of those whose copies go the master is told that pilots are to drop them; so they are
// never stored.
func (c *catalogue) unguarded(site *SiteRecord) (found, drop []task.File) {
	if !site.Check {
		return nil, nil
	}
	before := site.CheckAfter
	defer func() {
		if !site.Check || site.CheckAfter != before {
			c.sites.touch(site.Name)
		}
	}()
	after, page := site.CheckAfter, c.config.Workflow.SweepPage
	for range maxCheckPages {
		if len(found)+len(drop) == 0 {
			site.CheckAfter = after
		}
		files := read(c.Files().OnlyAnnouncedAt(site.Name, after, page))
		makers, runs := make([]task.PilotID, len(files)), make([]task.AttemptID, len(files))
		for i := range files {
			makers[i], runs[i] = files[i].Producer.Pilot, files[i].Producer
		}
		if site.CheckUntil != 0 {
			c.attempts.load(runs...)
		}
		c.pilots.load(makers...)
		for i := range files {
			maker := c.pilots.held[makers[i]]
			known := c.attempts.held[runs[i]]
			if files[i].Going != Stays {
				if len(drop) < mostDropped {
					drop = append(drop, files[i].File)
				}
				continue
			}
			if site.SE != "" && (files[i].takenOver() || files[i].Struck || known != nil && known.Known <= site.CheckUntil) || maker == nil || !maker.State.present() || maker.Site != site.Name {
				found = append(found, files[i].File)
			}
		}
		if len(files) < page {
			if len(found)+len(drop) == 0 {
				site.Check, site.CheckAfter, site.CheckUntil = false, "", 0
			}
			return found, drop
		}
		after = files[len(files)-1].LFN
	}
	if len(found)+len(drop) == 0 {
		site.CheckAfter = after
	}
	return found, drop
}
