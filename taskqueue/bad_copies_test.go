package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// storeOne runs a workflow of a maker of x and a reader, until x is stored.
func (c *crew) storeOne(run taskqueue.Submission) (task.WorkflowID, task.File) {
	c.t.Helper()
	w := c.mustSubmit(run)
	c.sync()
	made := c.start(task.NewID(w, "t"), c.members[0])
	c.end(made.id.Task, c.succeed(made))
	c.sync()
	name := task.Qualify(w, "x")
	c.upload(name)
	c.sync()
	return w, c.file(name).File
}

func makerAndReader() taskqueue.Submission {
	return taskqueue.Submission{Name: "w", Outputs: []string{"y"}, Tasks: []task.Task{
		job("t", nil, []string{"x"}), job("u", []string{"x"}, []string{"y"}),
	}}
}

// badCopy has a member tell that the first copy of a file is bad.
func (c *crew) badCopy(f task.File, m *member) {
	c.next.Lost = append(c.next.Lost, task.LostFile{LFN: f.LFN, Digest: f.Digest, URL: f.Replicas[0].URL, Pilot: m.id})
	c.sync()
}

// bad has a member tell that the only copy of a file is bad, and that no cache
// has the file.
func (c *crew) bad(f task.File, m *member) {
	c.loseFile(f.LFN)
	c.badCopy(f, m)
}

// hosts joins one pilot at each node.
func (c *crew) hosts(names ...string) {
	for _, name := range names {
		c.host = name
		c.join(task.PeerID("peer-"+name), 1)
	}
}

// The last copy of a file is struck when a second node finds it bad, or the same
// node long after; readers avoid the one that doubts it.
func TestALastCopyIsStruckByASecondLook(t *testing.T) {
	for name, second := range map[string]func(a *crew, f task.File){
		"by another node":             func(a *crew, f task.File) { a.bad(f, a.members[2]) },
		"by the same node long after": func(a *crew, f task.File) { a.tick(time.Minute); a.bad(f, a.members[0]) },
	} {
		g := newGrid(t)
		a := g.addSite("A")
		a.hosts("one", "one", "two")
		w, f := a.storeOne(makerAndReader())
		reader := task.NewID(w, "u")
		a.giveBack(g.state(reader).Lease, reader, "x is bad")
		a.bad(f, a.members[0])
		a.bad(f, a.members[1]) // of the same node
		if got := g.file(f.LFN); len(got.Replicas) != 1 || got.Lost {
			t.Fatalf("%s: after one node's word: %+v", name, got)
		}
		a.tick(time.Minute)
		a.sync()
		if got := a.avoids(reader); !slices.Equal(got, []string{"one"}) {
			t.Errorf("%s: the reader avoids %v", name, got)
		}
		second(a, f)
		if got := g.state(task.NewID(w, "t")); got.Generation != 2 {
			t.Errorf("%s: the maker is %s in generation %d", name, got.State, got.Generation)
		}
		g.check()
	}
}

// A copy that another node reads is not doubted any more.
func TestACopyThatIsReadIsTrusted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.hosts("one", "two")
	w, f := a.storeOne(makerAndReader())
	a.bad(f, a.members[0])
	a.sync()
	read := a.start(task.NewID(w, "u"), a.members[1])
	o := a.succeed(read)
	o.Reads = []task.Read{{LFN: f.LFN, Digest: f.Digest, Producer: f.Producer, Source: task.SourceSE}}
	a.end(read.id.Task, o)
	a.sync()
	a.tick(time.Hour)
	a.bad(f, a.members[0])
	if got := g.file(f.LFN); len(got.Replicas) != 1 {
		t.Errorf("a copy that was read is struck by one node: %+v", got)
	}
}

// remove cancels and deletes a workflow, and has all of it go.
func (c *crew) remove(id task.WorkflowID) {
	c.must(func(t *taskqueue.Turn) error { _, err := c.rules.CancelWorkflow(t, id); return err })
	c.must(func(t *taskqueue.Turn) error { _, err := c.rules.DeleteWorkflow(t, id, false); return err })
	c.sweep(time.Hour)
}

// Copies of one attempt at two sites may be one copy, on a storage element with two
// names: they are deleted together, whichever of them was bad.
func TestCopiesThatMayBeOneGoTogether(t *testing.T) {
	for name, second := range map[string]func(a, b *crew, f task.File){
		"bad, then stored elsewhere": func(a, b *crew, f task.File) {
			a.badCopy(f, a.members[0])
			a.badCopy(f, a.members[1])
			a.next.Stored = nil // of its own pilots nobody stores it again
			b.store(f)
		},
		"stored elsewhere, then bad": func(a, b *crew, f task.File) { b.store(f); b.sync(); a.badCopy(f, a.members[0]) },
		"stored elsewhere":           func(a, b *crew, f task.File) { b.store(f) },
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken over %v", name, again), func(t *testing.T) {
				g := newGrid(t)
				a, b := g.addSite("A"), g.addSite("B")
				a.hosts("one", "two")
				b.hosts("three")
				w, f := a.storeOne(makerAndReader())
				runs := []task.WorkflowID{w}
				if again {
					runs = append(runs, g.mustSubmit(makerAndReader()))
					g.expect(task.Done, task.NewID(runs[1], "t"))
				}
				second(a, b, f)
				b.sync()
				for _, run := range runs {
					if garbage := g.garbage(); len(garbage) > 0 {
						t.Errorf("to be deleted before %s has gone: %v", run, garbage)
					}
					a.remove(run)
				}
				garbage := g.garbage()
				for _, url := range []string{a.url(f), b.url(f)} {
					if !slices.ContainsFunc(garbage, func(r task.Replica) bool { return r.URL == url }) {
						t.Errorf("to be deleted are %v, without %s", garbage, url)
					}
				}
				g.check()
			})
		}
	}
}

// A bad copy is deleted when there is a good one, but one that a later run has taken over
// only when both have gone.
func TestBadCopiesAreDeletedOnceThereIsAGoodOne(t *testing.T) {
	for _, again := range []bool{false, true} {
		g := newGrid(t)
		a := g.addSite("A")
		a.hosts("one", "two")
		w, f := a.storeOne(makerAndReader())
		var later task.WorkflowID
		if again {
			later = g.mustSubmit(makerAndReader())
			g.expect(task.Done, task.NewID(later, "t"))
		}
		reader := task.NewID(w, "u")
		a.giveBack(g.state(reader).Lease, reader, "x is bad")
		a.bad(f, a.members[0])
		a.bad(f, a.members[1])
		if garbage := g.garbage(); len(garbage) != 0 {
			t.Errorf("to be deleted before there is another copy: %v", garbage)
		}
		a.sync()
		made := a.start(task.NewID(w, "t"), a.members[0])
		a.end(made.id.Task, a.succeed(made))
		a.sync()
		a.upload(f.LFN)
		a.sync()
		want := f.Replicas
		if again {
			want = nil
			if got := g.file(task.Qualify(later, "x")); len(got.Replicas) != 1 {
				t.Errorf("the later run's copies: %v", got.Replicas)
			}
		}
		if garbage := g.garbage(); !slices.Equal(garbage, want) {
			t.Errorf("taken over %v: to be deleted are %v, want %v", again, garbage, want)
		}
		g.check()
		if !again {
			continue
		}
		for _, id := range []task.WorkflowID{w, later} {
			if garbage := g.garbage(); slices.Contains(garbage, f.Replicas[0]) {
				t.Errorf("before %s has gone: to be deleted are %v", id, garbage)
			}
			a.remove(id)
		}
		if garbage := g.garbage(); !slices.Contains(garbage, f.Replicas[0]) {
			t.Errorf("both runs have gone: to be deleted are %v, without %v", garbage, f.Replicas)
		}
	}
}

// A site that has found a file somewhere and stores it, once the file is taken for lost
// and made again, leaves nothing on its storage element.
func TestACopyThatAnotherSiteStoresTooLateIsDeleted(t *testing.T) {
	for _, again := range []bool{false, true} {
		g := newGrid(t)
		a, b := g.addSite("A"), g.addSite("B")
		a.hosts("one", "two")
		b.hosts("three")
		w, f := a.storeOne(makerAndReader())
		reader := task.NewID(w, "u")
		a.giveBack(g.state(reader).Lease, reader, "x is bad")
		a.bad(f, a.members[0])
		a.bad(f, a.members[1])
		makeAgain := func() {
			a.sync()
			made := a.start(task.NewID(w, "t"), a.members[0])
			a.end(made.id.Task, a.succeed(made))
			a.sync()
			a.upload(f.LFN)
			a.sync()
		}
		if again {
			makeAgain()
		}
		b.store(f)
		b.sync()
		if !again {
			makeAgain()
		}
		want := append(slices.Clone(f.Replicas), task.Replica{Site: "B", URL: b.url(f)})
		if garbage := g.garbage(); !slices.Equal(garbage, want) {
			t.Errorf("made again %v: to be deleted are %v, want %v", again, garbage, want)
		}
		g.check()
	}
}

// Who reads a file waits after each bad copy of it, before it is handed out again.
func TestReadersWaitAfterEachBadCopy(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.hosts("one", "two")
	w, f := a.storeOne(makerAndReader())
	reader := task.NewID(w, "u")
	a.giveBack(g.state(reader).Lease, reader, "x is bad")
	a.bad(f, a.members[0])
	a.bad(f, a.members[1])
	if state := g.state(reader); state.NotBefore.Sub(g.clock) < time.Second {
		t.Errorf("the reader may be handed out %s after its input was bad", state.NotBefore.Sub(g.clock))
	}
	g.check()
}
