package taskqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func TestChainRunsThroughOneSite(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 2)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "chain", Files: []task.File{at("in", 5, "A")}, Outputs: []string{"z"},
		Tasks: []task.Task{job("one", []string{"in"}, []string{"y"}), job("two", []string{"y"}, []string{"z"})},
	})
	one, two := task.NewID(w, "one"), task.NewID(w, "two")
	g.expect(task.Ready, one)
	g.expect(task.Blocked, two)
	a.sync()
	g.expect(task.Leased, one, two)
	if lt := a.waiting()[1]; !lt.Blocked {
		t.Errorf("%s was leased ahead of its input and is not marked blocked", lt.Task.ID)
	}
	a.work()
	reply := a.sync()
	for _, ack := range reply.Acks {
		if ack.Verdict != task.AckAccepted {
			t.Errorf("%s: verdict %d", ack.Attempt, ack.Verdict)
		}
	}
	g.expect(task.Done, one, two)
	if state := g.workflow(w); state.Finished() || state.Over() {
		t.Error("the workflow is over before its output is stored")
	}
	a.upload(task.Qualify(w, "z"))
	a.sync()
	if state := g.workflow(w); !state.Finished() || state.Ended.IsZero() {
		t.Errorf("the workflow is not finished: %+v", state)
	}
	g.check()
}

// Inputs made at two sites can meet.
func TestFilesMadeAtTwoSitesMeetOnceStored(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 1)
	b.join("peerB", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "meet", Files: []task.File{at("a", 5, "A"), at("b", 5, "B")},
		Tasks: []task.Task{
			job("left", []string{"a"}, []string{"l"}), job("right", []string{"b"}, []string{"r"}),
			job("merge", []string{"l", "r"}, []string{"m"}),
		},
	})
	merge := task.NewID(w, "merge")
	a.sync()
	b.sync()
	if fmt.Sprint(a.held(), b.held()) != "[left] [right]" {
		t.Fatalf("A holds %v, B holds %v: each should get the task whose input it stores", a.held(), b.held())
	}
	a.work()
	b.work()
	a.sync()
	b.sync()
	state := g.state(merge)
	if state.State != task.Blocked || state.Missing != 0 {
		t.Fatalf("merge is %s with %d missing: both inputs exist, at different sites", state.State, state.Missing)
	}
	a.upload(task.Qualify(w, "l"))
	a.sync()
	b.sync()
	g.expect(task.Leased, merge)
	if got := g.state(merge).Site; got != "B" {
		t.Fatalf("merge went to %s: only B reads both, one from A's storage element", got)
	}
	b.work()
	b.sync()
	g.expect(task.Done, merge)
	g.check()
}

func TestFirstSiteToSyncDoesNotTakeAll(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("durations known %v", known), func(t *testing.T) {
			g := newGrid(t)
			a, b := g.addSite("A"), g.addSite("B")
			if known {
				g.warmUp(a)
				g.warmUp(b)
			}
			a.join("peerA", 4)
			b.join("peerB", 4)
			var tasks []task.Task
			for i := range 100 {
				tasks = append(tasks, job(fmt.Sprintf("t[%02d]", i), nil, []string{fmt.Sprintf("out%d", i)}))
			}
			g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: tasks})
			a.sync()
			want := 16 // four for each free slot
			if known {
				want = 50 // half
			}
			if got := len(a.held()); got != want {
				t.Errorf("A got %d of 100 tasks, want %d", got, want)
			}
			if !slices.IsSorted(a.held()) || a.held()[0] != "t[00]" {
				t.Errorf("A did not get the oldest: %v", a.held())
			}
			b.sync()
			if got := len(b.held()); got != want {
				t.Errorf("B got %d of 100 tasks, want %d", got, want)
			}
			g.check()
		})
	}
}

// warmUp runs enough tasks at a site to know how long they take, and lets its
// pilot go again.
func (g *grid) warmUp(c *crew) {
	g.t.Helper()
	c.join(task.PeerID("warm-"+string(c.site)), 8)
	var tasks []task.Task
	for i := range 8 {
		tasks = append(tasks, job(fmt.Sprintf("w[%d]", i), nil, nil))
	}
	g.mustSubmit(taskqueue.Submission{Name: "warm-up", Tasks: tasks})
	c.sync()
	c.work()
	c.sync()
	g.must(func(t *taskqueue.Turn) error {
		return g.rules.Leave(t, taskqueue.Leaving{Site: c.site, Pilot: c.members[0].id})
	})
	c.members = nil
	c.forget()
}

func TestIdleSiteRecallsFromTheLoadedOne(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 4)
	var tasks []task.Task
	for i := range 16 {
		tasks = append(tasks, job(fmt.Sprintf("t[%02d]", i), nil, nil))
	}
	g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: tasks})
	a.sync()
	if len(a.held()) != 16 {
		t.Fatalf("A holds %d tasks, want all 16: nobody else is live", len(a.held()))
	}
	for _, lt := range a.waiting()[:4] {
		a.start(lt.Task.ID, a.members[0])
	}
	a.sync()
	b.join("peerB", 4)
	b.sync()
	g.tick(time.Second)
	if _, woken := g.effects.Wake["A"]; !woken {
		t.Error("A's parked Sync is not woken for the recall")
	}
	a.sync() // learns of the recall
	if got := len(a.reply.Revoked); got != 8 {
		t.Fatalf("%d tasks are recalled, want 8: half of 16 belong to B", got)
	}
	a.sync() // returns
	b.sync()
	if len(b.held()) != 8 || slices.Contains(b.held(), "t[00]") {
		t.Errorf("B holds %v: expected the 8 newest", b.held())
	}
	a.sync()
	if len(a.reply.Revoked) > 0 {
		t.Errorf("the recall is repeated after it was answered: %v", a.reply.Revoked)
	}
	g.check()
}

func TestIdleSyncWritesNothing(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 4)
	g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, nil)}})
	a.sync()
	a.sync()
	s := a.message()
	g.view(func(turn *taskqueue.Turn) error {
		_, err := g.rules.Sync(turn, s)
		return err
	})
}

func TestUnlistedLeaseIsSentAgainAndUnknownAnswered(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 2)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "two", Files: []task.File{at("in", 3, "A")},
		Tasks: []task.Task{job("one", []string{"in"}, nil), job("two", []string{"in"}, nil)},
	})
	a.sync()
	a.forget()
	a.leases[999] = nil
	reply := a.sync()
	if len(reply.Leases) != 1 || len(reply.Leases[0].Tasks) != 2 || len(reply.Leases[0].Files) != 1 {
		t.Errorf("the lease was not sent again in full: %+v", reply.Leases)
	}
	if !slices.Equal(reply.Unknown, []task.LeaseID{999}) {
		t.Errorf("unknown leases %v, want 999", reply.Unknown)
	}
	a.work()
	if reply = a.sync(); len(reply.Unknown) != 1 {
		t.Errorf("a finished lease is not answered as over: %+v", reply)
	}
	g.expect(task.Done, task.NewID(w, "one"), task.NewID(w, "two"))
	g.check()
}

func TestExpiredLeaseReopensAndLateOutcomeWins(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, []string{"x"})}})
	id := task.NewID(w, "t")
	a.sync()
	first := a.start(id, a.members[0])
	a.sync()
	for range 9 {
		g.tick(time.Minute)
	}
	g.expect(task.Leased, id)
	g.tick(2 * time.Minute)
	g.expect(task.Ready, id)
	b.join("peerB", 1)
	b.sync()
	g.expect(task.Leased, id)
	second := b.start(id, b.members[0])
	if second.number != 2 {
		t.Errorf("the second attempt is a%d, want a2", second.number)
	}
	a.end(id, a.succeed(first))
	a.sync()
	g.expect(task.Done, id)
	if got := g.state(id).Winner; got != first.id {
		t.Errorf("winner %s, want the late one", got)
	}
	reply := b.sync()
	if len(reply.Revoked) != 1 || !reply.Revoked[0].Cancel {
		t.Errorf("B is not told to kill its copy: %+v", reply.Revoked)
	}
	o := b.succeed(second)
	loser := b.url(task.File{LFN: o.Outputs[0].LFN, Producer: second.id})
	o.Outputs[0].URL = loser
	b.ended = append(b.ended, o)
	reply = b.sync()
	if len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckDuplicate || reply.Acks[0].Winner != first.id {
		t.Errorf("the loser is answered %+v", reply.Acks)
	}
	g.view(func(turn *taskqueue.Turn) error {
		garbage, err := turn.Files().Garbage(10)
		if len(garbage) != 1 || garbage[0].URL != loser {
			t.Errorf("garbage %v, want the loser's copy", garbage)
		}
		return err
	})
	g.check()
}

func TestOutcomeIsJudgedOnce(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, []string{"x"})}})
	id := task.NewID(w, "t")
	a.sync()
	o := a.succeed(a.start(id, a.members[0]))
	for range 3 {
		a.ended = []task.Outcome{o}
		if reply := a.sync(); len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckAccepted {
			t.Fatalf("answered %+v, want accepted every time", reply.Acks)
		}
	}
	if sums := g.siteRecord("A").Sums; sums.Tasks != 1 || sums.Duplicates != 0 || sums.DelayCount != 1 {
		t.Errorf("sums %+v: counted more than once", sums)
	}
	g.check()
}

// Two members of a site may deliver the outcomes of a maker and of a reader
// in the wrong order.
func TestReaderWaitsForItsMakersOutcome(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 2)
	w := g.mustSubmit(taskqueue.Submission{
		Name:  "chain",
		Tasks: []task.Task{job("one", nil, []string{"y"}), job("two", []string{"y"}, []string{"z"})},
	})
	a.sync()
	a.work()
	outcomes := a.ended
	deliver := func(o ...task.Outcome) (acks []task.Ack) {
		g.must(func(turn *taskqueue.Turn) (err error) {
			acks, err = g.rules.Deliver(turn, taskqueue.Delivery{Site: "A", Pilot: a.master.id, Outcomes: o})
			return err
		})
		return acks
	}
	if acks := deliver(outcomes[1]); len(acks) != 0 {
		t.Fatalf("the reader's outcome is judged before its maker's: %+v", acks)
	}
	acks := deliver(outcomes[1], outcomes[0])
	if len(acks) != 2 || acks[0].Attempt != outcomes[0].Attempt || acks[1].Verdict != task.AckAccepted {
		t.Fatalf("answered %+v, want the maker, then the reader, accepted", acks)
	}
	g.expect(task.Done, task.NewID(w, "one"), task.NewID(w, "two"))
	g.check()
}

// A pilot held for dead is there again and reports that its attempt, booked as
// lost, has failed. Its task goes back if a master says so that has not begun it
// anew; what came before in the same Sync counts.
func TestFailuresOfPilotsHeldForDead(t *testing.T) {
	for name, example := range map[string]struct {
		anew      bool // another pilot has begun it
		gone      bool // that one is dead too, in the Sync that brings the failure
		delivered bool // the pilot tells the queue itself
		want      task.LeaseID
	}{
		"given up":           {want: 2},
		"begun anew":         {anew: true, want: 1},
		"begun anew in vain": {anew: true, gone: true, want: 2},
		"delivered":          {delivered: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			a.join("master", 1)
			first, second := a.join("first", 1), a.join("second", 1)
			w := g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: []task.Task{job("one", nil, nil)}})
			one := task.NewID(w, "one")
			a.sync()
			again := a.leases[1][one]
			lost := a.start(one, first)
			a.sync()
			a.next.Departed = []task.Departure{{Pilot: first.id, Dead: true, Reason: "no answer"}}
			a.sync()
			if example.anew {
				a.leases[1][one] = again
				a.start(one, second)
			}
			if example.gone {
				a.sync()
				a.next.Departed = []task.Departure{{Pilot: second.id, Dead: true, Reason: "no answer"}}
			}
			failed := a.fail(lost, task.PayloadFailed)
			if example.delivered {
				g.must(func(turn *taskqueue.Turn) error {
					_, err := g.rules.Deliver(turn, taskqueue.Delivery{Site: "A", Pilot: first.id, Outcomes: []task.Outcome{failed}})
					return err
				})
			} else {
				a.ended = append(a.ended, failed)
				a.sync()
			}
			if s := g.state(one); s.State != task.Leased || s.Lease != example.want {
				t.Errorf("it is %s under lease %d, want LEASED under %d", s.State, s.Lease, example.want)
			}
			g.check()
		})
	}
}

func TestFailuresUseUpRetriesAndCancelDependants(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "bad",
		Tasks: []task.Task{
			job("one", nil, []string{"x"}), job("two", []string{"x"}, []string{"y"}), job("three", []string{"y"}, nil),
			job("other", nil, nil),
		},
	})
	one, two, three := task.NewID(w, "one"), task.NewID(w, "two"), task.NewID(w, "three")
	for i := range 3 {
		a.sync()
		if i < 2 {
			g.expect(task.Leased, one)
		}
		o := a.fail(a.start(one, a.members[0]), task.PayloadFailed)
		a.end(one, o)
		a.sync()
		if i < 2 {
			s := g.state(one)
			if s.State != task.Ready || s.NotBefore <= g.clock {
				t.Fatalf("after failure %d: %s, backoff %s", i+1, s.State, s.NotBefore.Sub(g.clock))
			}
			g.tick(time.Minute)
		}
	}
	g.expect(task.Failed, one)
	g.expect(task.Cancelled, two, three)
	if up := g.state(three).Upstream; up != one {
		t.Errorf("three names %q as its upstream, want the task that failed", up)
	}
	g.check()
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.RetryWorkflow(turn, w, true)
		if n != 3 {
			t.Errorf("%d tasks reopened, want 3", n)
		}
		return err
	})
	g.check()
	a.sync()
	a.work()
	a.sync()
	g.expect(task.Done, one, two, three)
	if s := g.state(one); s.Generation != 2 {
		t.Errorf("generation %d after retry, want 2", s.Generation)
	}
	g.check()
}

func TestFaultsOfPilotsAndStorageAreNotTheTasks(t *testing.T) {
	for kind, free := range map[task.FailureKind]int{task.PilotFailed: 10, task.StorageFailed: 120} {
		t.Run(kind.String(), func(t *testing.T) { testFreeFaults(t, kind, free) })
	}
}

// A task survives so many faults, and its own retries after that.
func testFreeFaults(t *testing.T, kind task.FailureKind, free int) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	const retries = 2
	for i := range free + retries + 1 {
		a.sync()
		if g.state(id).State != task.Leased {
			t.Fatalf("after %d faults: %s", i, g.state(id).State)
		}
		a.end(id, a.fail(a.start(id, a.members[0]), kind))
		a.sync()
		g.tick(2 * time.Minute)
	}
	g.expect(task.Failed, id)
	g.check()
}

func TestPoisonousTaskIsQuarantined(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("master", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, []string{"x"}), job("u", []string{"x"}, nil)}})
	id := task.NewID(w, "t")
	a.sync()
	for i := range 3 {
		a.lose(id, i)
	}
	g.expect(task.Quarantined, id)
	g.expect(task.Cancelled, task.NewID(w, "u"))
	if len(a.reply.Revoked) == 0 {
		t.Error("the site is not told to stop")
	}
	g.check()
}

// lose starts a task on a new pilot that vanishes with it; the master assigns
// it again itself.
func (c *crew) lose(id task.ID, number int) {
	var lease task.LeaseID
	var lt task.LeasedTask
	for held, tasks := range c.leases {
		if found, is := tasks[id]; is {
			lease, lt = held, found
		}
	}
	victim := c.join(task.PeerID(fmt.Sprint("victim of ", id, number)), 1)
	c.start(id, victim)
	c.sync()
	delete(c.running, id)
	c.members = c.members[:1]
	c.next.Departed = []task.Departure{{Pilot: victim.id, Dead: true, Reason: "no answer"}}
	c.leases[lease][id] = lt
	c.sync()
}

// Where attempts vanish with their pilots all the time, a task that lost three
// is not held for the cause; one that loses pilot after pilot is, in the end.
func TestLossesThatOthersHaveAsWell(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("master", 60)
	submission := taskqueue.Submission{Name: "many"}
	for i := range 60 {
		submission.Tasks = append(submission.Tasks, job(fmt.Sprint("t", i), nil, nil))
	}
	w := g.mustSubmit(submission)
	a.sync()
	for i := range 60 {
		a.lose(task.NewID(w, fmt.Sprint("t", i)), 0)
	}
	id := task.NewID(w, "t0")
	a.lose(id, 1)
	a.lose(id, 2)
	g.expect(task.Leased, id)
	for n := 3; n < taskqueue.DefaultConfig().Retry.QuarantineMost; n++ {
		a.lose(id, n)
	}
	g.expect(task.Quarantined, id)
	g.check()
}

func TestLostFileOpensNewGeneration(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "lossy",
		Tasks: []task.Task{
			job("one", nil, []string{"x"}), job("two", []string{"x"}, []string{"y"}), job("three", []string{"y", "x"}, nil),
		},
	})
	one, two, three := task.NewID(w, "one"), task.NewID(w, "two"), task.NewID(w, "three")
	a.sync()
	for _, id := range []task.ID{one, two} {
		a.end(id, a.succeed(a.start(id, a.members[0])))
	}
	a.sync()
	g.expect(task.Done, one, two)
	for _, name := range []string{"x", "y"} {
		f := a.files[task.Qualify(w, name)]
		a.next.Lost = append(a.next.Lost, task.LostFile{LFN: f.LFN, Digest: f.Digest})
		delete(a.files, f.LFN)
	}
	a.sync()
	if s := g.state(one); s.Generation != 2 || s.State != task.Leased {
		t.Errorf("one is %s in generation %d, want its second, handed out again", s.State, s.Generation)
	}
	if s := g.state(two); s.Generation != 2 {
		t.Errorf("two is in generation %d, want 2: its output is needed", s.Generation)
	}
	g.check()
	a.sync()
	a.sync()
	a.work()
	a.sync()
	a.sync()
	a.work()
	a.sync()
	g.expect(task.Done, one, two, three)
	g.check()
}

func TestFileThatNobodyNeedsStaysLost(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name:  "chain",
		Tasks: []task.Task{job("one", nil, []string{"x"}), job("two", []string{"x"}, nil)},
	})
	a.sync()
	a.work()
	a.sync()
	f := a.files[task.Qualify(w, "x")]
	a.next.Lost = []task.LostFile{{LFN: f.LFN, Digest: f.Digest}}
	a.sync()
	g.expect(task.Done, task.NewID(w, "one"), task.NewID(w, "two"))
	if !g.file(f.LFN).Lost {
		t.Error("the file is not marked lost")
	}
	g.check()
}

func TestLossesAreBounded(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "lossy", Outputs: []string{"x"},
		Tasks: []task.Task{job("one", nil, []string{"x"})},
	})
	id, name := task.NewID(w, "one"), task.Qualify(w, "x")
	for i := range 4 {
		a.sync()
		a.work()
		a.sync()
		g.expect(task.Done, id)
		a.next.Lost = []task.LostFile{{LFN: name, Digest: a.files[name].Digest}}
		delete(a.files, name)
		a.sync()
		if s := g.state(id); i < 3 && s.Generation != uint32(i)+2 {
			t.Fatalf("after loss %d: generation %d", i+1, s.Generation)
		}
		g.check()
	}
	g.expect(task.Failed, id)
}

func TestLastPilotTakesItsFilesAlong(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "chain", Tasks: []task.Task{job("one", nil, []string{"x"}), job("two", []string{"x"}, nil)},
	})
	one, two := task.NewID(w, "one"), task.NewID(w, "two")
	a.sync()
	a.end(one, a.succeed(a.start(one, a.members[0])))
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: a.members[0].id, Reason: "end of wall time"})
	})
	g.check()
	b.join("peerB", 1)
	b.sync()
	g.expect(task.Leased, one, two)
	b.work()
	b.sync()
	g.expect(task.Done, one, two)
	g.check()
}

// Where nothing is left to cancel, the results go on to the storage element.
func TestADoneWorkflowIsNotCancelled(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	id := g.mustSubmit(taskqueue.Submission{Name: "result", Tasks: []task.Task{job("one", nil, []string{"x"})}, Outputs: []string{"x"}})
	one, x := task.NewID(id, "one"), task.Qualify(id, "x")
	a.sync()
	a.work()
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.CancelWorkflow(turn, id)
		if n != 0 {
			t.Errorf("%d tasks cancelled of a workflow whose task is done", n)
		}
		return err
	})
	if w := g.workflow(id); w.Cancelled || w.Over() {
		t.Errorf("its result is on its way: %+v", w)
	}
	a.loseFile(x)
	a.sync()
	a.work()
	a.sync()
	g.expect(task.Done, one)
	a.upload(x)
	a.sync()
	if w := g.workflow(id); !w.Finished() {
		t.Errorf("made again, and stored: %+v", w)
	}
	g.check()
}

// The results that a workflow lost while it was cancelled are made again when
// it is taken up again, whole or by one task, and are counted once.
func TestRetryMakesLostResultsAgain(t *testing.T) {
	for _, whole := range []bool{true, false} {
		g := newGrid(t)
		a := g.addSite("A")
		a.join("peerA", 1)
		id := g.mustSubmit(taskqueue.Submission{
			Name: "result", Outputs: []string{"x", "y"},
			Tasks: []task.Task{job("one", nil, []string{"x", "y"}), job("two", nil, nil)},
		})
		one, two := task.NewID(id, "one"), task.NewID(id, "two")
		a.sync()
		a.end(one, a.succeed(a.start(one, a.members[0])))
		a.sync()
		g.must(func(turn *taskqueue.Turn) error {
			_, err := g.rules.CancelWorkflow(turn, id)
			return err
		})
		a.loseFile(task.Qualify(id, "x"))
		a.loseFile(task.Qualify(id, "y"))
		a.sync()
		g.expect(task.Done, one)
		g.expect(task.Cancelled, two)
		g.check()
		g.must(func(turn *taskqueue.Turn) (err error) {
			n := 0
			if whole {
				n, err = g.rules.RetryWorkflow(turn, id, false)
			} else {
				n, err = g.rules.RetryTask(turn, two)
			}
			if n != 2 {
				t.Errorf("whole %v: %d tasks are to run, want 2", whole, n)
			}
			return err
		})
		g.expect(task.Ready, one, two)
		g.check()
	}
}

// Cancelled once more while a lost result is being made again, its maker is
// reopened as cancelled and not counted as the maker of a lost result.
func TestRetryCountsAMakerOnce(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	id := g.mustSubmit(taskqueue.Submission{Name: "result", Tasks: []task.Task{job("one", nil, []string{"x"})}, Outputs: []string{"x"}})
	one := task.NewID(id, "one")
	a.sync()
	a.work()
	a.loseFile(task.Qualify(id, "x"))
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.CancelWorkflow(turn, id)
		return err
	})
	g.expect(task.Cancelled, one)
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RetryWorkflow(turn, id, true)
		return err
	})
	if !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("a retry of what failed, where a user cancelled: %v", err)
	}
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.RetryWorkflow(turn, id, false)
		if n != 1 {
			t.Errorf("%d tasks are to run, want 1", n)
		}
		return err
	})
	g.check()
}

// Whoever reports its own attempt as lost with its pilot has it no more: the
// task is handed out again.
func TestAnOutcomeOfALostPilotReturnsTheTask(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	one := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, nil)}}), "one")
	a.sync()
	a.end(one, a.fail(a.start(one, a.members[0]), task.PilotLost))
	if reply := a.sync(); len(reply.Leases) != 1 || reply.Leases[0].Tasks[0].Task.ID != one {
		t.Errorf("handed out afterwards: %+v", reply.Leases)
	}
	g.check()
}

func TestCancelReachesTheSite(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "chain", Tasks: []task.Task{job("one", nil, []string{"x"}), job("two", []string{"x"}, nil), job("other", nil, nil)},
	})
	one, two, other := task.NewID(w, "one"), task.NewID(w, "two"), task.NewID(w, "other")
	a.sync()
	running := a.start(one, a.members[0])
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.CancelTask(turn, one)
		if n != 2 {
			t.Errorf("%d tasks cancelled, want 2", n)
		}
		return err
	})
	g.expect(task.Cancelled, one, two)
	g.expect(task.Leased, other)
	g.check()
	reply := a.sync()
	if len(reply.Revoked) != 2 || !reply.Revoked[0].Cancel {
		t.Errorf("revoked %+v, want both, to be killed", reply.Revoked)
	}
	a.ended = []task.Outcome{a.succeed(running)}
	reply = a.sync()
	if reply.Acks[0].Verdict != task.AckDuplicate || !reply.Acks[0].Winner.IsZero() {
		t.Errorf("a cancelled task's outcome is answered %+v", reply.Acks)
	}
	if reply = a.sync(); len(reply.Revoked) > 0 {
		t.Errorf("revoked again after confirmation: %+v", reply.Revoked)
	}
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := g.rules.CancelTask(turn, task.NewID(w, "nobody"))
		return err
	})
	if !errors.Is(err, taskqueue.ErrNotFound) {
		t.Errorf("cancelling an unknown task: %v", err)
	}
	g.check()
}

// What a task says of its attempts when it has failed is about this generation:
// those before a user's retry do not count.
func TestAttemptsOfAGenerationAreCounted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	id := g.lone()
	for range 2 {
		for g.state(id).State != task.Failed {
			a.failAt(a.members[0], id, task.PayloadFailed)
		}
		if reason := g.state(id).Reason; !strings.Contains(reason, "after 3 attempts") {
			t.Errorf("after two retries: %s", reason)
		}
		g.must(func(turn *taskqueue.Turn) error {
			_, err := g.rules.RetryTask(turn, id)
			return err
		})
		a.tick(time.Minute)
	}
}
