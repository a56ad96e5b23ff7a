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

// A site keeps the tasks that it has slots for, also while these stage in their inputs.
func TestIdleSiteLeavesTasksThatHaveSlots(t *testing.T) {
	for name, capacity := range map[string]task.Capacity{
		"just handed out": {FreeSlots: 4}, "stage in": {Assigned: 4}, "half of them run": {Assigned: 2, Running: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			a, b := g.addSite("A"), g.addSite("B")
			a.join("peerA", 4)
			g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: jobs("t", 4)})
			a.sync()
			if len(a.held()) != 4 {
				t.Fatalf("A holds %d tasks, want all 4: nobody else is live", len(a.held()))
			}
			b.join("peerB", 4)
			b.sync()
			record := g.siteRecord("A")
			capacity.Pilots, capacity.Slots = 1, 4
			record.Capacity = capacity
			g.must(func(t *taskqueue.Turn) error { return t.Sites().Save(record) })
			g.tick(time.Second)
			a.sync()
			if len(a.reply.Revoked) > 0 {
				t.Errorf("%d tasks are recalled that have slots at A", len(a.reply.Revoked))
			}
		})
	}
}

// A queue that was put back to a backup has forgotten the end of a task, and its master
// that it has the task: the outcome of a reader, which waits for that of the maker, has
// the lease sent again.
func TestALeaseIsSentAgainForWhomReadersWait(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 2)
	g.mustSubmit(taskqueue.Submission{Name: "flow", Tasks: []task.Task{job("make", nil, []string{"f"}), job("read", []string{"f"}, nil)}})
	a.sync()
	held := a.waiting()
	if len(held) != 2 {
		t.Fatalf("A holds %d tasks, want both", len(held))
	}
	maker := a.start(held[0].Task.ID, a.members[0])
	a.succeed(maker)
	delete(a.running, maker.id.Task) // its outcome was acknowledged, and is forgotten
	reader := a.start(held[1].Task.ID, a.members[0])
	a.end(reader.id.Task, a.succeed(reader))
	reply := a.sync()
	if len(reply.Leases) != 1 || len(reply.Leases[0].Tasks) != 2 || len(reply.Acks) > 0 {
		t.Errorf("the lease is not sent again: %+v", reply)
	}
}

// A pilot that is drained does not wait for the outcome of a maker that it has told of
// before the queue was put back to a backup: the maker may run only where it has left.
func TestADrainedPilotDoesNotWaitForAMaker(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 2)
	g.mustSubmit(taskqueue.Submission{Name: "flow", Tasks: []task.Task{job("make", nil, []string{"f"}), job("read", []string{"f"}, nil)}})
	a.sync()
	held := a.waiting()
	maker := a.start(held[0].Task.ID, a.members[0])
	a.succeed(maker)
	delete(a.running, maker.id.Task)
	reader := a.start(held[1].Task.ID, a.members[0])
	a.end(reader.id.Task, a.succeed(reader))
	g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainPilot(turn, a.members[0].id) })
	a.pause(a.members[0], "it is drained")
	a.next.Returns = append(a.next.Returns, task.Returned{Lease: maker.id.Lease, Task: maker.id.Task, Generation: 1, Reason: "the pilot is drained"})
	a.sync() // its outcomes come before what it gives back
	if reply := a.sync(); len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckStale {
		t.Errorf("the outcome of the reader is answered %+v", reply.Acks)
	}
	g.expect(task.Ready, maker.id.Task)
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
