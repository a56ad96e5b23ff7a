package taskqueue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (g *grid) garbage() (all []task.Replica) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) (err error) {
		all, err = t.Files().Garbage(100)
		return err
	})
	return all
}

// TestForgedCopiesAreNeitherKeptNorDeleted: a copy counts only on the storage
// element of the site that reports it, and only an attempt's own is deleted.
func TestForgedCopiesAreNeitherKeptNorDeleted(t *testing.T) {
	for _, forged := range []string{
		"file:///etc/passwd", "file:///se/B/x", "file:///se/A/../B/x", "https://elsewhere.example/x", "file:///se/A",
	} {
		t.Run(forged, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			a.join("peer1", 2)
			w := g.mustSubmit(taskqueue.Submission{
				Name: "w", Outputs: []string{"x"}, Tasks: []task.Task{job("t", nil, []string{"x"}), job("u", nil, []string{"y"})},
			})
			id, x, y := task.NewID(w, "t"), task.Qualify(w, "x"), task.Qualify(w, "y")
			a.sync()
			won, failed := a.start(id, a.members[0]), a.start(task.NewID(w, "u"), a.members[0])
			a.next.Stored = []task.Stored{{LFN: x, Attempt: won.id, URL: forged}}
			a.sync()
			good := a.succeed(won)
			good.Outputs[0].URL = forged
			a.end(id, good)
			bad := a.fail(failed, task.PayloadFailed)
			bad.Outputs = []task.Produced{{LFN: y, URL: forged}, {LFN: "../../" + x}, {LFN: "w/../../../" + x}}
			a.end(failed.id.Task, bad)
			a.sync()
			a.next.Stored = []task.Stored{
				{LFN: x, Attempt: won.id, URL: forged}, {LFN: y, Attempt: failed.id, URL: forged},
				{LFN: "none", Attempt: won.id, URL: forged}, {LFN: "none", URL: forged},
			}
			a.sync()
			g.expect(task.Done, id)
			if f := g.file(x); len(f.Replicas) != 0 {
				t.Errorf("kept as a copy: %v", f.Replicas)
			}
			own := task.Replica{Site: "A", URL: a.url(task.File{LFN: y, Producer: failed.id})}
			if garbage := g.garbage(); !slices.Equal(garbage, []task.Replica{own}) {
				t.Errorf("to be deleted: %v, want only %v", garbage, own)
			}
			g.check()
		})
	}
}

// TestOnlyAnAttemptsOwnCopyIsDeleted: not even on its own storage element may
// a pilot have another's file deleted.
func TestOnlyAnAttemptsOwnCopyIsDeleted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("ext", 5, "A")}, Tasks: []task.Task{job("t", []string{"ext"}, []string{"x"})}})
	id, x := task.NewID(w, "t"), task.Qualify(w, "x")
	a.sync()
	failed := a.start(id, a.members[0])
	a.end(id, a.fail(failed, task.PayloadFailed))
	a.sync()
	own := a.url(task.File{LFN: x, Producer: failed.id})
	a.next.Stored = []task.Stored{
		{LFN: x, Attempt: failed.id, URL: "file:///se/A/ext"}, {LFN: task.Qualify(w, "ext"), Attempt: failed.id, URL: "file:///se/A/ext"},
		{LFN: x, Attempt: failed.id, URL: own},
	}
	a.sync()
	if garbage := g.garbage(); len(garbage) != 1 || garbage[0].URL != own {
		t.Errorf("to be deleted: %v, want %s only", garbage, own)
	}
}

// TestNobodyStoresAnExternalFile: a report without an attempt adds no copy to
// a file that came from outside.
func TestNobodyStoresAnExternalFile(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	g.addSite("B")
	a.join("peer1", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("ext", 5, "B")}, Tasks: []task.Task{job("t", []string{"ext"}, nil)}})
	name := task.Qualify(w, "ext")
	a.next.Stored = []task.Stored{{LFN: name, URL: "file:///se/A/forged"}}
	a.sync()
	if f := g.file(name); len(f.Replicas) != 1 {
		t.Errorf("copies %v", f.Replicas)
	}
	g.view(func(turn *taskqueue.Turn) error {
		found, err := turn.Attempts().Load(task.AttemptID{})
		if len(found) != 0 {
			t.Errorf("booked with attempt %+v", found)
		}
		return err
	})
	if garbage := g.garbage(); len(garbage) != 0 {
		t.Errorf("to be deleted: %v", garbage)
	}
}

// deliver hands in outcomes as any pilot of a site may, and returns the
// verdict on the first.
func (c *crew) deliver(outcomes ...task.Outcome) task.AckVerdict {
	c.t.Helper()
	var acks []task.Ack
	c.must(func(t *taskqueue.Turn) (err error) {
		acks, err = c.rules.Deliver(t, taskqueue.Delivery{Site: c.site, Pilot: c.members[0].id, Outcomes: outcomes})
		return err
	})
	if len(acks) == 0 {
		return 0
	}
	return acks[0].Verdict
}

// TestOnlyTheHolderOfALeaseReports: nobody wins, starts, or keeps a task with
// a lease that its site never held, whatever the task's state.
func TestOnlyTheHolderOfALeaseReports(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 2)
	b.join("peerB", 2)
	g.must(func(t *taskqueue.Turn) error { return g.rules.DrainSite(t, "B", true) })
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, []string{"x"}), job("u", nil, nil)}})
	id, x := task.NewID(w, "t"), task.Qualify(w, "x")
	forge := func(state task.State) {
		t.Helper()
		g.expect(state, id)
		s := g.state(id)
		for lease := range task.LeaseID(4) {
			for generation := range s.Generation + 2 {
				for _, pilot := range []task.PilotID{b.members[0].id, a.members[0].id} {
					forged := task.AttemptID{Task: id, Generation: generation, Lease: lease, Pilot: pilot, Counter: 99}
					o := b.outcome(&attempt{id: forged, number: 70})
					o.OK, o.Outputs = true, []task.Produced{{LFN: x, Size: 1, Digest: task.Digest{1}}}
					if verdict := b.deliver(o); verdict != task.AckUnknown {
						t.Errorf("%s: the forged outcome %s is answered %v", state, forged, verdict)
					}
					b.next.Starts = []task.Start{{Attempt: forged, Number: 70}}
					b.next.Stored = []task.Stored{{LFN: x, Attempt: forged, URL: b.url(task.File{LFN: x, Producer: forged})}}
					b.sync()
				}
			}
		}
		g.expect(state, id)
		g.view(func(turn *taskqueue.Turn) error {
			attempts, err := turn.Attempts().OfTask(id)
			for _, known := range attempts {
				if known.Outcome.Site == "B" {
					t.Errorf("%s: booked %+v", state, known.Outcome.Attempt)
				}
			}
			return err
		})
		if garbage := g.garbage(); len(garbage) != 0 {
			t.Errorf("%s: to be deleted: %v", state, garbage)
		}
		if n := g.state(id).Number; n > 3 {
			t.Errorf("%s: the next attempt is a%d", state, n)
		}
	}
	forge(task.Ready)
	a.sync()
	forge(task.Leased)
	running := a.start(id, a.members[0])
	a.sync()
	g.must(func(t *taskqueue.Turn) error { return g.rules.DrainSite(t, "A", true) })
	g.tick(11 * time.Minute)
	forge(task.Ready)
	if verdict := a.deliver(a.succeed(running)); verdict != task.AckAccepted {
		t.Errorf("the late outcome of the true holder is answered %v", verdict)
	}
	forge(task.Done)
	if got := g.state(id).Winner; got != running.id {
		t.Errorf("the winner is %s", got)
	}
	g.check()
}

// TestLateOutcomeOfAnEarlierHolder: a lease that lapsed is remembered while
// others hold the task, and an outcome cannot move to another generation.
func TestLateOutcomeOfAnEarlierHolder(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	a.sync()
	early := a.start(id, a.members[0])
	g.tick(11 * time.Minute)
	b.join("peerB", 1)
	b.sync()
	g.tick(11 * time.Minute)
	b.sync()
	g.expect(task.Leased, id)
	wrong := *early
	wrong.id.Generation++
	if verdict := a.deliver(a.succeed(&wrong)); verdict != task.AckUnknown {
		t.Errorf("an outcome of a generation that A never held is answered %v", verdict)
	}
	if verdict := a.deliver(a.succeed(early)); verdict != task.AckAccepted {
		t.Errorf("the outcome that comes two leases late is answered %v", verdict)
	}
	g.expect(task.Done, id)
	again := *early
	again.id.Counter++
	if verdict := a.deliver(a.succeed(&again)); verdict != task.AckDuplicate {
		t.Errorf("a second attempt of that lease is answered %v", verdict)
	}
	g.check()
}

// TestAnEarlyCopyWaitsForItsOutcome: a copy that is reported while its attempt
// may still be accepted is never taken for garbage, not even that of a pilot that
// was held for dead; one that cannot count any more is.
func TestAnEarlyCopyWaitsForItsOutcome(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	gone := a.join("peer2", 2)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Outputs: []string{"x"}, Tasks: []task.Task{
		job("t", nil, []string{"x"}), job("u", nil, []string{"y"}),
	}})
	id, other, x, y := task.NewID(w, "t"), task.NewID(w, "u"), task.Qualify(w, "x"), task.Qualify(w, "y")
	a.sync()
	late, never := a.start(id, gone), a.start(other, gone)
	a.sync()
	a.next.Departed = []task.Departure{{Pilot: gone.id, Dead: true, Reason: "not heard"}}
	a.sync()
	a.next.Joined = []task.PilotID{gone.id}
	stored := func(a *crew, of *attempt, name task.LFN) task.Stored {
		return task.Stored{LFN: name, Attempt: of.id, URL: a.url(task.File{LFN: name, Producer: of.id})}
	}
	a.next.Stored = []task.Stored{stored(a, late, x), stored(a, never, y)}
	a.sync()
	if garbage := g.garbage(); len(garbage) != 0 {
		t.Errorf("to be deleted before the outcomes came: %v", garbage)
	}
	again := *never
	again.id.Pilot, again.id.Counter = a.members[0].id, 99
	a.end(other, a.succeed(&again))
	a.sync()
	if verdict := a.deliver(a.succeed(late)); verdict != task.AckAccepted {
		t.Errorf("the late outcome is answered %v", verdict)
	}
	a.next.Stored = []task.Stored{stored(a, late, x), stored(a, never, y)}
	a.sync()
	g.expect(task.Done, id, other)
	if f := g.file(x); len(f.Replicas) != 1 {
		t.Errorf("copies of the winner's file: %v", f.Replicas)
	}
	if garbage := g.garbage(); len(garbage) != 1 || garbage[0].URL != stored(a, never, y).URL {
		t.Errorf("to be deleted: %v, want the copy of the attempt that another has overtaken", garbage)
	}
	g.check()
}

// TestWhatTheCatalogueNamesIsNotDeleted: whatever put it on the list.
func TestWhatTheCatalogueNamesIsNotDeleted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Outputs: []string{"dir/x"}, Tasks: []task.Task{job("t", nil, []string{"dir/x"})}})
	id, x := task.NewID(w, "t"), task.Qualify(w, "dir/x")
	a.sync()
	won := a.start(id, a.members[0])
	a.end(id, a.succeed(won))
	a.sync()
	copied := task.Replica{Site: "A", URL: "file:///se/A/" + won.id.String() + "/dir/x"}
	other := task.Replica{Site: "A", URL: "file:///se/A/" + won.id.String() + "/x"}
	a.next.Stored = []task.Stored{{LFN: x, Attempt: won.id, URL: copied.URL}}
	a.sync()
	g.must(func(turn *taskqueue.Turn) error { return turn.Files().AddGarbage(copied, other) })
	g.view(func(turn *taskqueue.Turn) error {
		garbage, named, err := g.rules.Garbage(turn, 10)
		if !slices.Equal(garbage, []task.Replica{other}) || !slices.Equal(named, []task.Replica{copied}) {
			t.Errorf("to be deleted %v, to be left %v", garbage, named)
		}
		return err
	})
}

// TestOutcomeOfALeaseLongAgo: however often a task was handed out since, to
// whomever, the outcome of its first holder is accepted, and a task remembers no
// more of its past than there are sites.
func TestOutcomeOfALeaseLongAgo(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	first := a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	a.sync()
	early := a.start(id, first)
	g.tick(11 * time.Minute)
	b.join("peerB", 1)
	for range 100 {
		b.sync()
		g.expect(task.Leased, id)
		forged := attempt{id: early.id}
		forged.id.Lease = g.state(id).Lease
		if verdict := a.deliver(a.fail(&forged, task.PayloadFailed)); verdict != task.AckUnknown {
			t.Fatalf("the forged failure under another site's lease is answered %v", verdict)
		}
		b.giveBack(g.state(id).Lease, id, "not now")
		b.sync()
		g.tick(11 * time.Minute)
	}
	if past := g.state(id).Past; len(past) != 2 {
		t.Errorf("it remembers %v", past)
	}
	if verdict := a.deliver(a.succeed(early)); verdict != task.AckAccepted {
		t.Errorf("the outcome that comes a hundred leases late is answered %v", verdict)
	}
	g.expect(task.Done, id)
	g.check()
}

// TestATakenOverCopyIsNotDeleted: a later run that has taken a result over shares
// its place on the storage element with the first run. When that has lost the
// file and makes it again, the old attempt's copy is still the later run's.
func TestATakenOverCopyIsNotDeleted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	run := taskqueue.Submission{Name: "w", Outputs: []string{"y"}, Tasks: []task.Task{
		job("t", nil, []string{"x"}), job("u", []string{"x"}, []string{"y"}),
	}}
	first := g.mustSubmit(run)
	a.sync()
	made := a.start(task.NewID(first, "t"), a.members[0])
	a.end(made.id.Task, a.succeed(made))
	a.sync()
	second := g.mustSubmit(run)
	g.expect(task.Done, task.NewID(second, "t"))
	place := a.url(task.File{LFN: "x", Producer: made.id})
	a.next.Stored = []task.Stored{{LFN: task.Qualify(second, "x"), Attempt: made.id, URL: place}}
	a.sync()
	a.loseFile(task.Qualify(first, "x"))
	a.sync()
	if s := g.state(made.id.Task); s.Generation != 2 {
		t.Fatalf("what was lost is %s in generation %d", s.State, s.Generation)
	}
	a.next.Stored = []task.Stored{{LFN: task.Qualify(first, "x"), Attempt: made.id, URL: place}}
	a.sync()
	if f := g.file(task.Qualify(second, "x")); len(f.Replicas) != 1 {
		t.Errorf("the later run's copies: %v", f.Replicas)
	}
	if garbage := g.garbage(); len(garbage) != 0 {
		t.Errorf("to be deleted: %v", garbage)
	}
	g.check()
}
