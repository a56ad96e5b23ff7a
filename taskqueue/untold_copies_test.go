package taskqueue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// untidy is what is to be looked for now.
func (g *grid) untidy() (folders []taskqueue.Folder) {
	g.t.Helper()
	g.must(func(t *taskqueue.Turn) error {
		untidy, clean, err := g.rules.Untidy(t, 100)
		if err != nil {
			return err
		}
		for _, id := range untidy {
			page, next, err := g.rules.Untold(t, id, 0)
			if err != nil || next != 0 {
				g.t.Errorf("the next page begins after %d, %v", next, err)
			}
			folders = append(folders, page...)
		}
		return g.rules.Clean(t, clean...)
	})
	return folders
}

// waste is what is to be deleted of copies.
func (g *grid) waste() (all []task.Replica) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		garbage, named, err := g.rules.Garbage(t, 100)
		all = slices.Concat(garbage, named)
		return err
	})
	return all
}

// happens is what may happen while a workflow runs.
type happens int

const (
	nothing happens = iota
	dies
	restarts
	leaves
	isSeenToLeave // its goodbye to the queue is lost
)

// ended is a workflow of two tasks that are done, at a site where a pilot dies or the
// queue starts anew meanwhile.
func ended(t *testing.T, what happens) (g *grid, a *crew, w task.WorkflowID, won *attempt) {
	g = newGrid(t)
	g.rules.Config.Workflow.LookFor = time.Minute
	a = g.addSite("A")
	g.addSite("B").join("peer3", 1)
	a.join("peer1", 2)
	dead := a.join("peer2", 1)
	w = g.mustSubmit(taskqueue.Submission{Name: "w", Outputs: []string{"dir/x"}, Tasks: []task.Task{
		job("t[1,2]", nil, []string{"dir/x", "y"}), job("u", nil, nil),
	}})
	id := task.NewID(w, "t[1,2]")
	a.sync()
	a.sync()
	g.crews["B"].sync()
	g.tick(time.Second)
	switch what {
	case restarts:
		g.must(func(turn *taskqueue.Turn) error { return g.rules.LookAgain(turn) })
	case leaves:
		g.must(func(turn *taskqueue.Turn) error {
			return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: dead.id, Reason: "told to stop"})
		})
		a.next.Departed = []task.Departure{{Pilot: dead.id, Reason: "left"}}
		a.sync()
	case isSeenToLeave:
		a.next.Departed = []task.Departure{{Pilot: dead.id, Reason: "left"}}
		a.sync()
	case dies:
		a.next.Departed = []task.Departure{{Pilot: dead.id, Dead: true, Reason: "not heard"}}
		a.sync()
	}
	won = a.start(id, a.members[0])
	a.end(id, a.succeed(won))
	if slices.Contains(a.held(), "u") {
		u := a.start(task.NewID(w, "u"), a.members[0])
		a.end(u.id.Task, a.succeed(u))
	}
	a.sync()
	a.upload(task.Qualify(w, "dir/x"))
	a.sync()
	if !g.workflow(w).Finished() {
		t.Fatalf("the workflow is not finished: %+v", g.workflow(w))
	}
	return g, a, w, won
}

// Folders of tasks that end are looked at once, when all who have died count as dead,
// where a pilot has died and the task was.
func TestUntoldCopiesAreLookedForOnce(t *testing.T) {
	g, _, w, _ := ended(t, dies)
	if found := g.untidy(); len(found) != 0 {
		t.Errorf("at once: %+v", found)
	}
	g.tick(g.rules.Config.Lease.TTL + g.rules.Config.Site.Pilot.AbsentAfter)
	found := g.untidy()
	want := taskqueue.Folder{Task: task.NewID(w, "t[1,2]"), Site: "A", Element: "file:///se/A", Name: string(w) + "/t.1_2"}
	if len(found) != 1 || found[0].Task != want.Task || found[0].Site != want.Site || found[0].Element != want.Element || found[0].Name != want.Name {
		t.Errorf("found %+v, want %+v", found, want)
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.TidyLater(turn, w) })
	if len(g.untidy()) != 1 {
		t.Error("a workflow whose storage element does not answer is forgotten")
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Tidied(turn, w, turn.Clock) })
	if found := g.untidy(); len(found) != 0 {
		t.Errorf("a tidy workflow is looked at again at once: %+v", found)
	}

	for what, want := range map[happens]int{nothing: 0, leaves: 0, isSeenToLeave: 1, restarts: 1} { // of a backup, perhaps: it has forgotten what ran since
		g, a, _, _ := ended(t, what)
		for range 2 {
			g.tick(g.rules.Config.Lease.TTL * 2 / 3)
			a.sync()
			g.crews["B"].sync()
		}
		if found := g.untidy(); len(found) != want || len(g.garbage()) != want {
			t.Errorf("case %d: %+v, %v", what, found, g.garbage())
		}
	}

	g, _, w, _ = ended(t, dies)
	g.tick(g.rules.Config.Lease.TTL + g.rules.Config.Site.Pilot.LateFor + time.Second)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.TidyLater(turn, w) })
	if found := g.untidy(); len(found) != 0 {
		t.Errorf("a storage element that never answers is asked for ever: %+v", found)
	}
}

// looks are the workflows whose folders are listed, and each of them is looked through.
func (g *grid) looks() (untidy []task.WorkflowID) {
	g.t.Helper()
	g.must(func(t *taskqueue.Turn) (err error) {
		untidy, _, err = g.rules.Untidy(t, 100)
		return err
	})
	for _, id := range untidy {
		g.must(func(t *taskqueue.Turn) error { return g.rules.Tidied(t, id, t.Clock) })
	}
	return untidy
}

// A pilot that was taken for dead may have been stopped, and store what it has made as
// soon as it goes on: the folders are looked through once more after its declared end,
// and after that of no pilot that has died since.
func TestFoldersAreLookedThroughAgainWhenTheDeadHaveReachedTheirEnd(t *testing.T) {
	g, a, w, _ := ended(t, dies)
	pilots := g.rules.Config.Site.Pilot
	silent, ends := g.rules.Config.Lease.TTL+pilots.AbsentAfter, pilots.MaxLifetime+pilots.DeadAfterEnd // of one that declares none
	g.tick(silent)
	if found := g.looks(); !slices.Equal(found, []task.WorkflowID{w}) {
		t.Fatalf("first look: %v", found)
	}
	g.tick(ends - silent - time.Minute)
	if found := g.looks(); len(found) != 0 {
		t.Errorf("before the end: %v", found)
	}
	a.next.Departed = []task.Departure{{Pilot: a.join("peer9", 1).id, Dead: true, Reason: "not heard"}}
	a.sync()
	g.tick(time.Minute)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.TidyLater(turn, w) })
	if found := g.looks(); len(found) != 0 {
		t.Errorf("a storage element that does not answer is asked at once: %v", found)
	}
	g.tick(time.Hour)
	if found := g.untidy(); len(found) == 0 || found[0].Task.Workflow() != w {
		t.Errorf("folders after the end: %+v", found)
	}
	if found := g.looks(); !slices.Equal(found, []task.WorkflowID{w}) {
		t.Errorf("second look: %v", found)
	}
	g.tick(2 * ends)
	if found := g.looks(); len(found) != 0 {
		t.Errorf("third look: %v", found)
	}
}

// What is stored while the folders are being looked through, by a pilot that reaches its
// declared end meanwhile, may be where was looked before.
func TestAPilotThatEndsDuringALookHasAnotherOneFollow(t *testing.T) {
	g, _, w, _ := ended(t, dies)
	began := g.clock
	g.tick(g.rules.Config.Site.Pilot.MaxLifetime + g.rules.Config.Site.Pilot.DeadAfterEnd)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Tidied(turn, w, began) })
	if found := g.looks(); !slices.Equal(found, []task.WorkflowID{w}) {
		t.Errorf("looked at: %v", found)
	}
}

// A workflow that has lost what it was to make, and ends again, is looked at as if for the
// first time: whatever was under way of the look at its first end.
func TestFoldersOfAWorkflowThatEndsAgainAreLookedThroughAnew(t *testing.T) {
	for name, before := range map[string]func(g *grid) taskqueue.Instant{
		"after the first look":      func(g *grid) taskqueue.Instant { g.looks(); return 0 },
		"during the first look":     func(g *grid) taskqueue.Instant { return g.clock },
		"before the list was taken": func(g *grid) taskqueue.Instant { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			g, a, w, won := ended(t, dies)
			pilots := g.rules.Config.Site.Pilot
			silent := g.rules.Config.Lease.TTL + pilots.AbsentAfter
			g.tick(silent)
			began := before(g)
			for range 2 {
				a.bad(a.file(task.Qualify(w, "dir/x")).File, a.members[0])
				g.tick(time.Minute)
			}
			if open := g.workflow(w); open.Closed != 0 {
				t.Fatalf("it is over although what it was to make is lost: %+v", open)
			}
			a.sync()
			next := a.start(won.id.Task, a.members[0])
			a.end(next.id.Task, a.succeed(next))
			a.sync()
			a.upload(task.Qualify(w, "dir/x"))
			a.sync()
			if began != 0 {
				g.must(func(turn *taskqueue.Turn) error { return g.rules.Tidied(turn, w, began) })
			}
			g.tick(silent)
			for _, look := range []string{"first", "second"} {
				if found := g.looks(); !slices.Equal(found, []task.WorkflowID{w}) {
					t.Errorf("%s look after the second end: %v", look, found)
				}
				g.tick(pilots.MaxLifetime + pilots.DeadAfterEnd)
			}
			if found := g.looks(); len(found) != 0 {
				t.Errorf("third look: %v", found)
			}
		})
	}
}

// What was found clean is taken off the list only if it still is: it may have ended once
// more, or lost a pilot.
func TestWhatWasCleanMayNotBeWhenItIsTakenOffTheList(t *testing.T) {
	g, a, w, _ := ended(t, nothing)
	for range 2 {
		g.tick(g.rules.Config.Lease.TTL * 2 / 3)
		a.sync()
		g.crews["B"].sync()
	}
	a.next.Departed = []task.Departure{{Pilot: a.members[0].id, Dead: true, Reason: "not heard"}}
	a.sync()
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Clean(turn, w) })
	if found := g.looks(); !slices.Equal(found, []task.WorkflowID{w}) {
		t.Errorf("looked at: %v", found)
	}
}

// Only what has the name of an attempt's own copy is deleted, and only that of attempts
// that can win no more.
func TestOnlyUntoldCopiesAreDeleted(t *testing.T) {
	g, a, w, won := ended(t, dies)
	other := task.AttemptID{Task: won.id.Task, Generation: 1, Lease: 99, Pilot: "p-aaaaaaaa", Counter: 3}
	later := other
	later.Generation = 2
	foreign := []string{
		"README", "data/", later.Suffix() + "/", strings.TrimPrefix(other.Suffix(), "g") + "/", other.Suffix() + "0", "g01-l99-p-aaaaaaaa-3/",
		"g1-l+9-p-aaaaaaaa-3/", "g1-l9-p-AAAAAAAA-3/", "g1-l9-p-aaaaaaaa-3-4/", "g1-l9-p-aaaaaaaa-/", "g1-l9/", "-/", "/", "", "../",
	}
	tidy := func(id task.ID, found ...task.AttemptID) (n int) {
		folder := taskqueue.Folder{Task: id, Site: "A", Element: "file:///se/A", Found: slices.Clone(foreign)}
		for _, attempt := range found {
			folder.Found = append(folder.Found, attempt.Suffix()+"/")
		}
		g.must(func(turn *taskqueue.Turn) (err error) {
			n, err = g.rules.Tidy(turn, []taskqueue.Folder{folder})
			return err
		})
		return n
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Tidied(turn, w, turn.Clock) })
	if n := tidy(won.id.Task, won.id, other); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	want := []task.Replica{{Site: "A", URL: a.url(task.File{LFN: task.Qualify(w, "dir/x"), Producer: other})},
		{Site: "A", URL: a.url(task.File{LFN: task.Qualify(w, "y"), Producer: other})}}
	if got := g.waste(); !slices.Equal(got, want) {
		t.Errorf("to be deleted: %v, want %v", got, want)
	}
	g.must(func(turn *taskqueue.Turn) error { return turn.Files().DropGarbage(want...) })

	open := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "open", Tasks: []task.Task{job("t", nil, []string{"x"})}}), "t")
	a.sync()
	other.Task = open
	if n := tidy(open, other); n != 0 || len(g.waste()) != 0 {
		t.Errorf("%d attempts of a task that is %s: %v", n, g.state(open).State, g.waste())
	}
}

// A copy that arrived after its pilot had died, of an output that was taken for lost and
// that nobody needs, is deleted; one that the catalogue has stays.
func TestACopyOfWhatIsLostAndNotNeededIsDeleted(t *testing.T) {
	g, a, w, won := ended(t, dies)
	tidy := func() {
		g.must(func(turn *taskqueue.Turn) error {
			_, err := g.rules.Tidy(turn, []taskqueue.Folder{{Task: won.id.Task, Site: "A", Element: "file:///se/A", Found: []string{won.id.Suffix() + "/"}}})
			return err
		})
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Tidied(turn, w, turn.Clock) })
	if tidy(); len(g.waste()) != 0 {
		t.Errorf("to be deleted while the catalogue has it: %v", g.waste())
	}
	y := task.Qualify(w, "y")
	a.loseFile(y)
	a.sync()
	tidy()
	if want := []task.Replica{{Site: "A", URL: a.url(task.File{LFN: y, Producer: won.id})}}; !slices.Equal(g.waste(), want) {
		t.Errorf("to be deleted: %v, want %v", g.waste(), want)
	}
}

// An entry of the catalogue keeps its copy whatever site it is of.
func TestACopyThatAnotherSiteHasIsNotDeleted(t *testing.T) {
	g, a, w, won := ended(t, dies)
	g.addSite("C", func(s *taskqueue.SiteRecord) { s.SE = "file:///se/A" })
	copied := a.url(task.File{LFN: task.Qualify(w, "dir/x"), Producer: won.id})
	g.must(func(turn *taskqueue.Turn) error { return turn.Files().AddGarbage(task.Replica{Site: "C", URL: copied}) })
	g.view(func(turn *taskqueue.Turn) error {
		garbage, named, err := g.rules.Garbage(turn, 10)
		if len(garbage) != 0 || len(named) != 1 {
			t.Errorf("to be deleted %v, to be left %v", garbage, named)
		}
		return err
	})
}
