package taskqueue

import (
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// A pilot that stores an output and dies before anybody told the queue of that
// attempt leaves a copy of which no record speaks. So does any that ran since a backup
// to which the queue was put back. Once all of a workflow is over, and who is dead has
// been taken for dead, the folders of its tasks are listed at the sites that lost pilots
// meanwhile, and at all if the queue has been started meanwhile. Who was taken for dead
// may live all the same, as one that was stopped for an hour does, and go on storing
// until it is heard and refused, or to its declared end: then they are listed once more.

// nowhere is the site of those entries of the garbage that are a workflow's id: what
// its tasks have left is to be looked for, for the first time.
const nowhere task.Site = ""

// saveClosed notes the workflows that were closed in this turn.
func (l *lifecycle) saveClosed() {
	closed := l.closed
	l.closed = nil
	if l.config.Workflow.LookFor == 0 {
		return // nobody looks
	}
	saveAll(entriesOf(closed...), l.Files().AddGarbage)
}

func entriesOf(ids ...task.WorkflowID) []task.Replica {
	return keysOf(ids, func(id *task.WorkflowID) task.Replica { return task.Replica{Site: nowhere, URL: string(*id)} })
}

// Untidy lists workflows whose copies on storage elements are to be compared with what
// the queue knows, for the first time, the oldest entry first, and for the second, each at
// most limit; with those on the list of which nothing can be left. Nothing is told of a
// workflow that was just closed.
func (r *Rules) Untidy(t *Turn, limit int) (untidy, clean []task.WorkflowID, err error) {
	defer catch(&err)
	sites := read(t.Sites().All())
	page := read(t.Files().Garbage(limit, keysOf(sites, func(s *SiteRecord) task.Site { return s.Name })...))
	for _, entry := range page {
		if entry.Site != nowhere {
			continue // of a site that was removed
		}
		id := task.WorkflowID(entry.URL)
		switch due, anything := r.Config.looksFor(t, id, sites); {
		case !due:
		case anything:
			untidy = append(untidy, id)
		default:
			clean = append(clean, id)
		}
	}
	again := read(t.Workflows().ToLookAt(t.Clock, limit))
	return append(untidy, keysOf(again, func(w *Workflow) task.WorkflowID { return w.ID })...), clean, nil
}

// looksFor tells whether it can be said whether anything is to be looked for of a workflow
// for the first time, and whether it is. Nothing is of one that is gone or goes on, nor if
// no pilot was lost by the time at which all dead count as such.
func (c *Config) looksFor(t *Turn, id task.WorkflowID, sites []SiteRecord) (due, anything bool) {
	found := read(t.Workflows().Load(id))
	if len(found) == 0 || found[0].Closed == 0 {
		return true, false
	}
	w := &found[0]
	return t.Clock.Sub(w.Closed) >= c.Lease.TTL+c.Site.Pilot.AbsentAfter, len(w.suspects(sites)) > 0
}

// suspects are the sites that have lost a pilot since a workflow was submitted, or have
// run what a queue that was put back to a backup has forgotten.
func (w *Workflow) suspects(sites []SiteRecord) []SiteRecord {
	return slices.DeleteFunc(slices.Clone(sites), func(s SiteRecord) bool { return s.SE == "" || s.Untold < w.Last })
}

// Clean takes workflows off the list of which nothing can be left.
func (r *Rules) Clean(t *Turn, ids ...task.WorkflowID) (err error) {
	defer catch(&err)
	sites := read(t.Sites().All())
	ids = slices.DeleteFunc(ids, func(id task.WorkflowID) bool {
		due, anything := r.Config.looksFor(t, id, sites)
		return !due || anything
	})
	saveAll(entriesOf(ids...), t.Files().DropGarbage)
	return nil
}

// Tidied ends a look at a workflow that began at an instant. The first one is followed by
// a second if a pilot that was taken for dead could go on storing then.
func (r *Rules) Tidied(t *Turn, id task.WorkflowID, began Instant) (err error) {
	defer catch(&err)
	found := read(t.Workflows().Load(id))
	if len(found) > 0 && found[0].Closed > began {
		return nil // it has ended once more since, and has an entry for that
	}
	check(t.Files().DropGarbage(entriesOf(id)...))
	if len(found) == 0 || found[0].Closed == 0 {
		return nil
	}
	w := &found[0]
	if w.SecondLook != 0 {
		w.SecondLook = 0
		return t.Workflows().Save(*w)
	}
	for _, s := range w.suspects(read(t.Sites().All())) {
		w.SecondLook = max(w.SecondLook, s.DeadUntil)
	}
	if w.SecondLook <= began {
		return nil
	}
	return t.Workflows().Save(*w)
}

// TidyLater has a look at a workflow begin anew, after the others: a storage element did
// not answer. Where that has been so for long nobody looks any more.
func (r *Rules) TidyLater(t *Turn, id task.WorkflowID) (err error) {
	defer catch(&err)
	found, pilots := read(t.Workflows().Load(id)), r.Config.Site.Pilot
	if len(found) > 0 && found[0].SecondLook != 0 {
		w := &found[0]
		if w.SecondLook = t.Clock.Add(tidyLooks); t.Clock.Sub(w.Closed) > pilots.MaxLifetime+pilots.LateFor {
			w.SecondLook = 0
		}
		return t.Workflows().Save(*w)
	}
	check(t.Files().DropGarbage(entriesOf(id)...))
	if len(found) == 0 || t.Clock.Sub(found[0].Closed) > pilots.LateFor {
		return nil
	}
	return t.Files().AddGarbage(entriesOf(id)...)
}

// Folder is a place where attempts of a task may have stored what nobody told.
type Folder struct {
	Task    task.ID
	Site    task.Site
	Element string   // the site's
	Name    string   // below it
	Found   []string // the names in it, those of folders with a slash at their end
}

// untoldPage is how many tasks are looked at in one round.
const untoldPage = 100

// Untold lists folders of a workflow's tasks, by age after a Seq, and tells after
// which the next page begins; 0 is that this was the last one.
func (r *Rules) Untold(t *Turn, id task.WorkflowID, after uint64) (folders []Folder, next uint64, err error) {
	defer catch(&err)
	found := read(t.Workflows().Load(id))
	if len(found) == 0 || found[0].Closed == 0 {
		return nil, 0, nil // it was dropped, or goes on
	}
	sites := found[0].suspects(read(t.Sites().All()))
	states := read(t.Tasks().InWorkflow(id, after, untoldPage))
	for i := range states {
		for k := range sites {
			had := func(p PastLease) bool { return p.Site == sites[k].Name }
			if s := &states[i]; !s.Bare && slices.ContainsFunc(s.Past, had) {
				folders = append(folders, Folder{Task: s.ID, Site: sites[k].Name, Element: sites[k].SE, Name: task.TaskFolder(s.ID)})
			}
		}
	}
	if len(states) == untoldPage {
		next = states[untoldPage-1].Seq
	}
	return folders, next, nil
}

// Tidy has deleted what was found in folders of tasks that have ended, and is of
// attempts of which the queue has never heard, or which have not won, or whose output
// was taken for lost. It returns how many attempts these are.
func (r *Rules) Tidy(t *Turn, folders []Folder) (attempts int, err error) {
	q := r.open(t)
	defer q.close(&err)
	for i := range folders {
		attempts += q.catalogue.tidy(&folders[i])
	}
	return attempts, nil
}

func (c *catalogue) tidy(folder *Folder) (attempts int) {
	s := c.tasks.one(folder.Task)
	if s == nil || !s.State.Terminal() {
		return 0
	}
	site := c.sites.one(folder.Site)
	if site == nil || site.SE != folder.Element {
		return 0
	}
	var found []task.AttemptID
	for _, name := range folder.Found {
		suffix, isFolder := strings.CutSuffix(name, "/")
		if id, ok := task.AttemptOf(s.ID, suffix); ok && isFolder && id.Generation <= s.Generation {
			found = append(found, id)
		}
	}
	c.attempts.load(found...)
	spec := c.specs.one(s.ID)
	if spec == nil {
		return 0
	}
	c.files.load(keysOf(spec.Outputs, func(out *task.Output) task.LFN { return out.LFN })...)
	for _, id := range found {
		a := c.attempts.held[id]
		if a != nil && a.State == AttemptRunning {
			continue // it will end, and be judged
		}
		left := slices.DeleteFunc(slices.Clone(spec.Outputs), func(out task.Output) bool {
			f := c.files.held[out.LFN]
			fate := c.fateOf(f, id)
			lost := f != nil && !exists(f) && len(f.Bad) == 0 // a bad copy may still be read
			return fate != goes && (fate != counts || !lost)  // what was not made again nobody needs
		})
		if len(left) > 0 {
			attempts++
			c.discardOutputs(site, id, left)
		}
	}
	return attempts
}
