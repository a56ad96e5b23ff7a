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

// These stand for the site in entries of the garbage that are a workflow's id: what
// its tasks have left is to be looked for.
const (
	nowhere task.Site = ""
	again   task.Site = "(again)" // once who was taken for dead has reached its declared end
)

// saveClosed notes the workflows that were closed in this turn.
func (l *lifecycle) saveClosed() {
	closed := l.closed
	l.closed = nil
	if l.config.Workflow.LookFor == 0 {
		return // nobody looks
	}
	saveAll(entriesOf(nowhere, closed...), l.Files().AddGarbage)
}

func entriesOf(list task.Site, ids ...task.WorkflowID) []task.Replica {
	return keysOf(ids, func(id *task.WorkflowID) task.Replica { return task.Replica{Site: list, URL: string(*id)} })
}

// Untidy lists workflows whose copies on storage elements are to be compared with what
// the queue knows, the oldest entry first, at most limit for the first time and as many
// for the second, with those on the lists of which nothing can be left. Nothing is told
// of a workflow that was just closed.
func (r *Rules) Untidy(t *Turn, limit int) (untidy, clean []task.WorkflowID, err error) {
	defer catch(&err)
	sites := read(t.Sites().All())
	others := append(keysOf(sites, func(s *SiteRecord) task.Site { return s.Name }), again)
	page := read(t.Files().Garbage(limit, others...))
	others[len(others)-1] = nowhere
	page = append(page, read(t.Files().Garbage(limit, others...))...)
	for _, entry := range page {
		if entry.Site != nowhere && entry.Site != again {
			continue // of a site that was removed
		}
		id := task.WorkflowID(entry.URL)
		found := read(t.Workflows().Load(id))
		if len(found) == 0 || found[0].Closed == 0 {
			clean = append(clean, id)
			continue
		}
		w, silent := &found[0], r.Config.Lease.TTL+r.Config.Site.Pilot.AbsentAfter // until all dead count as such
		switch {
		case entry.Site == again && t.Clock < w.LookAgain, t.Clock.Sub(w.Closed) < silent:
		case len(w.suspects(sites)) == 0:
			clean = append(clean, id)
		default:
			untidy = append(untidy, id)
		}
	}
	return untidy, clean, nil
}

// suspects are the sites that have lost a pilot since a workflow was submitted, or have
// run what a queue that was put back to a backup has forgotten.
func (w *Workflow) suspects(sites []SiteRecord) []SiteRecord {
	return slices.DeleteFunc(slices.Clone(sites), func(s SiteRecord) bool { return s.SE == "" || s.Untold < w.Last })
}

// Tidied takes workflows off their list. One whose folders were looked through for the
// first time is put on the other while a pilot that was taken for dead may go on storing.
func (r *Rules) Tidied(t *Turn, ids ...task.WorkflowID) (err error) {
	defer catch(&err)
	saveAll(append(entriesOf(nowhere, ids...), entriesOf(again, ids...)...), t.Files().DropGarbage)
	if len(ids) == 0 {
		return nil
	}
	sites := read(t.Sites().All())
	for _, w := range read(t.Workflows().Load(ids...)) {
		if w.Closed == 0 || w.LookAgain != 0 {
			continue
		}
		for _, s := range w.suspects(sites) {
			w.LookAgain = max(w.LookAgain, s.DeadUntil)
		}
		if w.LookAgain > t.Clock {
			check(t.Workflows().Save(w))
			check(t.Files().AddGarbage(entriesOf(again, w.ID)...))
		}
	}
	return nil
}

// TidyLater puts a workflow to the end of its list: a storage element did not answer.
// Where that has been so for long it is taken off.
func (r *Rules) TidyLater(t *Turn, id task.WorkflowID) (err error) {
	defer catch(&err)
	saveAll(append(entriesOf(nowhere, id), entriesOf(again, id)...), t.Files().DropGarbage)
	found := read(t.Workflows().Load(id))
	if len(found) == 0 || t.Clock.Sub(max(found[0].Closed, found[0].LookAgain)) > r.Config.Site.Pilot.LateFor {
		return nil
	}
	list := nowhere
	if found[0].LookAgain != 0 {
		list = again
	}
	return t.Files().AddGarbage(entriesOf(list, id)...)
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
