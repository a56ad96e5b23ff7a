package taskqueue

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// RetainConfig says how long the queue keeps what nobody needs any more.
type RetainConfig struct {
	// Intermediates is how long after the end of its workflow the copies of a file go
	// that is no final output, if all of it is DONE; 0 is never.
	Intermediates time.Duration
	// Workflows is how long after its end a workflow goes, however it has ended, but for
	// its final outputs on storage elements; 0 is never.
	Workflows time.Duration
}

// Names of the values that clearing keeps.
const (
	metaClearing = "clearing" // what is being cleared away
	metaRetain   = "retain"   // how far the look for what is to be cleared away has come
)

// clearance is what is being cleared away, and how far that has come. A turn does a
// page of it, so a kill between two pages loses nothing but time.
type clearance struct {
	Workflow task.WorkflowID
	Whole    bool    // with its tasks; else only the copies of its intermediates
	Retired  bool    // whole, by its age: its final outputs stay in the catalogue
	From     Instant // not before
	Files    bool    // its files are done
	After    task.LFN
	Uses     bool // what its tasks read of shared files is done
	Seq      uint64
}

const (
	// mostRetired bounds how many workflows go at the same time by their age.
	mostRetired = 16
	// retainEvery is between two looks at all workflows, and retainPage how many are looked
	// at in a tick. Workflows are kept for hours and days.
	retainEvery = time.Minute
	retainPage  = 100
	// tidyLooks is how long the queue's server may look for what a workflow's attempts
	// have stored without a word, when it begins.
	tidyLooks = 15 * time.Minute
)

// clearing clears away what nobody needs any more, page by page.
type clearing struct {
	*records
	catalogue *catalogue
	left      int // rows that this turn may still touch
}

// clearAway does a page of what is to be cleared away.
func (q *queue) clearAway() {
	c := &q.clearing
	c.left = q.config.Workflow.SweepPage
	c.retire()
	list := clearances(q.Meta())
	before := slices.Clone(list)
	if slices.ContainsFunc(list, func(x clearance) bool { return x.From <= q.Clock }) {
		q.turnPage() // rows are deleted behind the working copy's back
	}
	for i := range list {
		x := &list[i]
		if c.left > 0 && x.From <= q.Clock && c.carryOut(x) {
			x.Workflow = ""
		}
	}
	list = slices.DeleteFunc(list, func(x clearance) bool { return x.Workflow == "" })
	if !slices.Equal(before, list) {
		rememberList(c.Meta(), metaClearing, list)
	}
}

func clearances(meta MetaTable) (list []clearance) {
	recall(meta, metaClearing, &list)
	return list
}

// add puts a workflow on the list. One that goes as a whole is gone for users from
// now on, and its rows go when no attempt of it can be told of any more.
func (c *clearing) add(w *Workflow, x clearance) {
	x.Workflow = w.ID
	if x.Whole {
		x.From = c.silentFrom(w)
		w.Deleted = true
		c.workflows.touch(w.ID)
		c.Effects.progress(w.ID)
	}
	list := slices.DeleteFunc(clearances(c.Meta()), func(other clearance) bool { return other.Workflow == w.ID })
	rememberList(c.Meta(), metaClearing, append(list, x))
}

// silentFrom is when nothing can be told any more of the attempts of a workflow, and what
// they have stored without a word has been looked for.
func (c *clearing) silentFrom(w *Workflow) Instant {
	from, told := c.Clock, w.Closed.Add(c.config.Lease.TTL+c.config.Site.Pilot.AbsentAfter)
	if w.Closed != 0 && !w.Finished() {
		from = max(from, told)
	}
	looked := told.Add(tidyLooks)
	if w.Closed != 0 && looked > from && c.config.Workflow.LookFor > 0 && len(w.suspects(read(c.Sites().All()))) > 0 {
		return looked
	}
	return from
}

// dropUnsealed removes workflows whose next part did not come in time.
func (c *clearing) dropUnsealed() {
	for _, id := range unsealed(c.Meta()) {
		w := c.workflows.need(id)
		if c.Clock.Sub(w.Last) < c.config.Workflow.UnsealedFor {
			continue
		}
		noteUnsealed(c.Meta(), w.ID, false)
		c.add(w, clearance{Whole: true})
	}
}

// retaining is how far the look for workflows that are old enough has come: all but
// those that go come before After.
type retaining struct {
	At    Instant // the end of the last look at all
	After task.WorkflowID
}

// retire adds to the list what is old enough by now. It looks at a page of workflows.
func (c *clearing) retire() {
	retain := &c.config.Retain
	if retain.Intermediates <= 0 && retain.Workflows <= 0 {
		return
	}
	var at retaining
	recall(c.Meta(), metaRetain, &at)
	if at.After == "" && at.At != 0 && c.Clock.Sub(at.At) < retainEvery {
		return
	}
	before := at
	list := clearances(c.Meta())
	room := mostRetired - len(list)
	if room <= 0 {
		return
	}
	page, err := c.Workflows().List("", "", at.After, retainPage)
	if errors.Is(err, ErrWorkflowGone) {
		at.After = ""
		page, err = c.Workflows().List("", "", "", retainPage)
	}
	check(err)
	for _, w := range c.workflows.of(page) {
		if room == 0 {
			break
		}
		age, listed := c.Clock.Sub(w.Closed), slices.ContainsFunc(list, func(x clearance) bool { return x.Workflow == w.ID })
		switch {
		case w.Deleted || w.Closed == 0:
		case retain.Workflows > 0 && age >= retain.Workflows && c.silentFrom(w) <= c.Clock:
			c.add(w, clearance{Whole: true, Retired: true})
			room--
		case retain.Intermediates > 0 && age >= retain.Intermediates && w.Finished() && !w.Keep && !w.Cleared && !listed:
			c.add(w, clearance{})
			room--
		}
		if !w.Deleted {
			at.After = w.ID
		}
	}
	if room > 0 && len(page) < retainPage {
		at = retaining{At: c.Clock}
	}
	if at != before {
		remember(c.Meta(), metaRetain, at)
	}
}

// carryOut does a page of a clearance and tells whether that was the last one.
func (c *clearing) carryOut(x *clearance) (done bool) {
	w := c.workflows.one(x.Workflow)
	if w == nil {
		return true
	}
	if !x.Whole && (w.Deleted || w.Keep || !w.Finished()) {
		return true // somebody needs them again
	}
	if !x.Files && !c.clearFiles(x, w) {
		return false
	}
	if !x.Whole {
		w.Cleared = true
		c.workflows.touch(w.ID)
		return true
	}
	if !x.Uses && !c.releaseShared(x) {
		return false
	}
	if c.left <= 0 || read(c.Tasks().DeleteWorkflow(x.Workflow, c.left)) {
		c.left = 0
		return false
	}
	check(c.Workflows().Delete(x.Workflow))
	c.workflows.remove(x.Workflow)
	c.Effects.progress(x.Workflow)
	return true
}

// clearFiles lets go of files of a workflow and tells whether these were all.
func (c *clearing) clearFiles(x *clearance, w *Workflow) bool {
	const most = 500
	for c.left > 0 {
		page := min(c.left, most)
		found := read(c.Files().List(string(x.Workflow)+":", x.After, page))
		for _, f := range c.files.of(found) {
			c.clearFile(x, w, f)
			x.After = f.LFN
		}
		if c.left -= len(found); len(found) < page {
			x.Files = true
			return true
		}
	}
	return false
}

func (c *clearing) clearFile(x *clearance, w *Workflow, f *FileRecord) {
	made := f.ProducerTask != "" && exists(f) && f.Going == Stays
	kept := made && (f.Final || w.Keep) && len(f.Replicas) > 0
	switch {
	case !x.Whole:
		if made && !f.Final {
			c.left -= f.Uses
			c.catalogue.letGo(f, CopiesGo)
		}
	case x.Retired && kept:
		f.Owner, f.Group = w.Owner, w.Group
		f.ProducerTask, f.Final, f.Uses = "", false, 0 // as an external one: nobody can make it again
		c.files.touch(f.LFN)
	default:
		f.Final, f.Uses = false, 0
		c.catalogue.letGo(f, EntryGoes)
	}
}

// releaseShared takes a workflow's reads of shared files out of their counts, and tells
// whether these were all.
func (c *clearing) releaseShared(x *clearance) bool {
	for c.left > 0 {
		page := min(c.left, sealPage)
		states := read(c.Tasks().InWorkflow(x.Workflow, x.Seq, page))
		specs := read(c.Tasks().Describe(keysOf(states, func(s *TaskState) task.ID { return s.ID })...))
		for i := range specs {
			for _, name := range inputs(&specs[i]) {
				if f := c.files.one(name); f != nil && strings.HasPrefix(string(name), task.SharedPrefix) {
					f.Uses--
					c.files.touch(name)
					c.catalogue.settleGoing(f)
				}
			}
		}
		if len(states) > 0 {
			x.Seq = states[len(states)-1].Seq
		}
		if c.left -= len(states); len(states) < page {
			x.Uses = true
			return true
		}
	}
	return false
}
