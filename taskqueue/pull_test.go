package taskqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// Each pilot gets the reader of the file that it has made (004, section II:
// the queue ranks by the cache of the pilot that asks).
func TestQueueMatchesTasksToCaches(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(mode))
		pilots := []*solo{d.solo("A", "p1", 1), d.solo("A", "p2", 1), d.solo("A", "p3", 1)}
		w := d.mustSubmit(pairs(3))
		d.maker.Changed(&d.effects)
		for _, p := range pilots {
			p.pull()
		}
		for i, p := range pilots {
			p.finish(task.NewID(w, fmt.Sprintf("first[%d]", i)))
		}
		// The last one comes first: it passes the others' readers over.
		for i := range pilots {
			i := len(pilots) - 1 - i
			if got, want := pilots[i].pull(), task.NewID(w, fmt.Sprintf("second[%d]", i)); !slices.Equal(got, []task.ID{want}) {
				t.Errorf("%s: pilot %d got %v, want %s", mode, i, got, want)
			}
		}
		for i, p := range pilots {
			p.finish(task.NewID(w, fmt.Sprintf("second[%d]", i)))
			p.pull()
		}
		if got := d.workflow(w); got.Counts[task.Done] != 6 {
			t.Errorf("%s: %v", mode, got.Counts)
		}
	}
}

// A task that comes up goes to a pilot that has its files only if that one has a slot
// for it, and is missed by nobody who asks at the same moment.
func TestTasksThatComeUpAreMissedByNobody(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	holder, idle := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	holder.pull()
	idle.pull()
	comesUp := func() { // the reader of what the holder has made
		t.Helper()
		p := holder.message()
		p.Places.FreeSlots, p.Places.Prefill = 0, 1 // it is busy otherwise
		if got := holder.take(&p, d.serve(&p)); len(got) > 0 {
			t.Fatalf("a pilot without a free slot got %v", got)
		}
	}
	holder.finish(task.NewID(w, "first[0]"))
	comesUp()
	waits := func(task.PilotID) matchmaker.Stance { return matchmaker.Waits }
	if calls := d.maker.CallIn("A", waits); !slices.Equal(calls, []task.PilotID{idle.id}) {
		t.Errorf("called in are %v, want the pilot with a free slot, %s", calls, idle.id)
	}
	if calls := d.maker.CallIn("A", waits); len(calls) > 0 {
		t.Errorf("called in for nothing are %v", calls)
	}
	d.maker.Reset()
	comesUp()
	asks := func(id task.PilotID) matchmaker.Stance {
		if id == idle.id {
			return matchmaker.Asks
		}
		return matchmaker.Away
	}
	if calls := d.maker.CallIn("A", asks); !slices.Equal(calls, []task.PilotID{idle.id}) {
		t.Errorf("called in are %v, want the pilot that asks at this moment, %s", calls, idle.id)
	}
}

// In an isolated site a file in a cache is of use to its holder only, until it
// is on a storage element.
func TestIsolatedSiteWaitsForUploads(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	maker, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	maker.pull()
	o := maker.finish(task.NewID(w, "first[0]"))
	maker.inHand = append(maker.inHand, task.LeasedTask{}) // it is busy otherwise
	maker.pull()
	if got := other.pull(); len(got) > 0 {
		t.Errorf("a pilot without the file got %v", got)
	}
	lfn := o.Outputs[0].LFN
	maker.news.Stored = []task.Stored{{LFN: lfn, Attempt: o.Attempt, URL: "file:///se/A/" + string(w), Size: task.GiB}}
	maker.pull()
	if got := other.pull(); !slices.Equal(got, []task.ID{task.NewID(w, "second[0]")}) {
		t.Errorf("after the upload it got %v", got)
	}
}

// What a pilot that dies held is free again, and what only it had is made
// again once another one has looked for it on the storage element.
func TestDeathOfAPilotThatHoldsLeases(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	dead, heir := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	dead.pull()
	dead.finish(task.NewID(w, "first[0]"))
	dead.pull()
	second := task.NewID(w, "second[0]")
	d.expect(task.Leased, second)
	heir.pull()
	d.clock = d.clock.Add(d.rules.Config.Match.PilotSilence)
	heir.pull()
	if care := d.tend("A"); !slices.Equal(care.Silent, []task.PilotID{dead.id}) {
		t.Errorf("silent: %v", care.Silent)
	}
	d.expect(task.Ready, second)
	if care := d.tend("A"); len(care.Lost) > 0 {
		t.Errorf("lost before anybody has looked: %v", care.Lost)
	}
	asked := taskqueue.Pulled{Site: d.siteRecord("A"), Pilot: d.pilot(heir.id)}
	d.maker.Describe(d.clock, &asked, task.Puller{})
	looks := asked.Reply.Check
	if len(looks) != 1 {
		t.Fatalf("to be looked for: %v", looks)
	}
	d.expect(task.Ready, second)
	heir.news.Lost = []task.LostFile{{LFN: looks[0].LFN, Digest: looks[0].Digest}}
	heir.pull()
	d.expect(task.Blocked, second)
	d.expect(task.Leased, task.NewID(w, "first[0]")) // to the heir
	for range 4 {
		for _, lt := range slices.Clone(heir.inHand) {
			heir.finish(lt.Task.ID)
		}
		heir.pull()
	}
	if got := d.workflow(w); got.Counts[task.Done] != 2 {
		t.Errorf("the heir left %v", got.Counts)
	}
}

// A pilot that was taken for dead, by the queue or by a master before, and calls
// again lives and gets tasks.
func TestADeadPilotThatPullsLives(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	silent, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	other.pull()
	d.mustSubmit(pairs(2))
	d.maker.Changed(&d.effects)
	silent.pull()
	d.commit(func(t *taskqueue.Turn) error {
		return d.rules.Tend(t, "A", &taskqueue.Care{Silent: []task.PilotID{silent.id}})
	})
	d.maker.Left("A", silent.id)
	silent.finish(silent.inHand[0].Task.ID)
	silent.pull()
	if got := silent.pull(); len(got)+len(silent.inHand) == 0 {
		t.Error("a pilot that was taken for dead calls and gets nothing")
	}
	if site := d.siteRecord("A"); site.Pilots != 2 || site.Registered != 2 {
		t.Errorf("the site counts %d pilots of %d slots, want 2", site.Pilots, site.Registered)
	}
}

// An answer that was lost is said again, and what it brought is not given
// twice over.
func TestLostAnswerToAPull(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 2)
	w := d.mustSubmit(bag(5))
	d.maker.Changed(&d.effects)
	lost := p.message()
	if reply := d.serve(&lost); len(reply.Leases) != 1 || len(reply.Leases[0].Tasks) != 2 {
		t.Fatalf("answered %v", reply.Leases)
	}
	p.version = 1
	if got := p.pull(); len(got) != 2 {
		t.Errorf("said again: %v, want the two tasks", got)
	}
	if n := d.workflow(w).Counts[task.Leased]; n != 2 {
		t.Errorf("%d tasks are leased to a pilot of two slots", n)
	}
}

// A cancelled task is asked back from the pilot that has it.
func TestCancelReachesThePilot(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(bag(2))
	d.maker.Changed(&d.effects)
	got := p.pull()
	other.pull()
	d.commit(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelTask(t, got[0])
		return err
	})
	if _, called := d.effects.Pilots[p.id]; !called {
		t.Errorf("woken: %v", d.effects.Pilots)
	}
	other.pull()
	if len(other.reply.Revoked) > 0 {
		t.Errorf("the other pilot was asked for %v", other.reply.Revoked)
	}
	p.pull()
	if want := []task.Revoked{{Lease: p.of[got[0]], Task: got[0], Cancel: true}}; !slices.Equal(p.reply.Revoked, want) {
		t.Errorf("asked back %v, want %v", p.reply.Revoked, want)
	}
	p.news.Confirmed = p.reply.Revoked
	p.inHand = nil
	p.pull()
	if len(p.reply.Revoked) > 0 {
		t.Errorf("asked again for %v", p.reply.Revoked)
	}
	d.expect(task.Cancelled, task.NewID(w, got[0].Name()))
}

// What is asked back of a pilot is asked also when the lease has nothing else and its
// pilot has not heard of it, and of nobody when the pilot is gone.
func TestWhatIsAskedBackGoesWithItsPilot(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	d.mustSubmit(bag(1))
	d.maker.Changed(&d.effects)
	lost := p.message()
	lease := d.serve(&lost).Leases[0]
	p.version = 1
	d.commit(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelTask(t, lease.Tasks[0].Task.ID)
		return err
	})
	for range 2 {
		p.pull()
		if want := []task.Revoked{{Lease: lease.ID, Task: lease.Tasks[0].Task.ID, Cancel: true}}; !slices.Equal(p.reply.Revoked, want) {
			t.Errorf("asked back %v, want %v", p.reply.Revoked, want)
		}
	}
	d.commit(func(t *taskqueue.Turn) error {
		return d.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: p.id, Reason: "its time is over"})
	})
	other.pull()
	if left := d.askedBack("A"); len(left) > 0 {
		t.Errorf("asked back of a pilot that has left: %v", left)
	}
}

// What a former master was asked for, and no pilot has in hand, is asked of nobody.
func TestWhatAMasterWasAskedForEndsWithItsMode(t *testing.T) {
	d := newDesk(newGrid(t))
	a := d.addSite("A")
	p := &solo{desk: d, site: "A", id: a.join("p1", 2).id, slots: 2, of: make(map[task.ID]task.LeaseID)}
	w := d.mustSubmit(bag(2))
	a.sync()
	got := a.reply.Leases[0].Tasks
	d.must(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelWorkflow(t, w)
		return err
	})
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p.inHand, p.of[got[0].Task.ID] = got[:1], a.reply.Leases[0].ID
	p.pull()
	if len(p.reply.Revoked) != 1 || p.reply.Revoked[0].Task != got[0].Task.ID {
		t.Errorf("asked back %v, want %s alone", p.reply.Revoked, got[0].Task.ID)
	}
	d.tend("A")
	if left := d.askedBack("A"); len(left) != 1 {
		t.Errorf("asked back %v, want what the pilot has", left)
	}
	p.inHand = nil
	p.pull()
	d.tend("A")
	if left := d.askedBack("A"); len(left) > 0 {
		t.Errorf("asked back although nobody has it: %v", left)
	}
}

func (d *desk) askedBack(site task.Site) (left []taskqueue.Revocation) {
	d.t.Helper()
	d.view(func(t *taskqueue.Turn) (err error) {
		left, err = t.Leases().Revocations(site)
		return err
	})
	return left
}

// A summary that does not follow the one at hand is not taken; the answer asks
// for a whole one.
func TestSummaryAfterARestart(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 1)
	p.pull()
	if p.version != 1 {
		t.Fatalf("version %d", p.version)
	}
	d.maker = matchmaker.New(&d.rules.Config, matcher.NewCompiler(100))
	p.cached = []task.FilePrint{7}
	p.pull()
	if p.reply.CacheVersion == 2 || p.version != 0 {
		t.Errorf("the queue says to have version %d of a cache that it has forgotten", p.reply.CacheVersion)
	}
}

// Of tasks that were lost together with two pilots one is tried again at once and the
// others minutes later, one by one: also if the queue is started in the meantime.
func TestATaskThatPausesForMinutesIsNotForgotten(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	const slots = 4
	w := d.mustSubmit(taskqueue.Submission{Name: "suspects", Tasks: jobs("t", slots)})
	for _, peer := range []task.PeerID{"p1", "p2"} {
		dies := d.solo("A", peer, slots)
		if got := dies.pull(); len(got) != slots {
			t.Fatalf("a pilot got %v", got)
		}
		for i, lt := range dies.inHand {
			dies.news.Starts = append(dies.news.Starts, task.Start{Number: lt.Number, Attempt: task.AttemptID{
				Task: lt.Task.ID, Generation: lt.Generation, Lease: dies.of[lt.Task.ID], Pilot: dies.id, Counter: uint64(i + 1),
			}})
		}
		dies.pull()
		d.commit(func(t *taskqueue.Turn) error {
			return d.rules.Tend(t, "A", &taskqueue.Care{Silent: []task.PilotID{dies.id}})
		})
		d.maker.Left("A", dies.id)
		d.tick(10 * time.Second) // the backoff
	}
	d.maker = matchmaker.New(&d.rules.Config, matcher.NewCompiler(100)) // as after a start of the queue
	heir := d.solo("A", "p3", slots)
	for minute := range slots {
		if got := heir.pull(); len(got) != 1 {
			t.Errorf("in minute %d a pilot got %v, want one task", minute, got)
		}
		d.tick(time.Minute)
	}
	if got := d.workflow(w).Counts[task.Leased]; got != slots {
		t.Errorf("%d of %d tasks were given again", got, slots)
	}
}

// READY tasks get their turn that are behind more tasks that pause than the queue looks at,
// and those that pause when they are due. What all READY tasks are is not read again with
// every pull meanwhile.
func TestTasksThatPauseTakeNoRoomFromOthers(t *testing.T) {
	g := newGrid(t)
	const window, paused = 20, 50
	g.rules.Config.Match.Window = window
	d := newDesk(g)
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	d.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: jobs("t", paused)})
	d.must(func(t *taskqueue.Turn) error {
		for id, first := range taskqueue.Read(t.Tasks().ReadyClasses()) {
			states := taskqueue.Read(t.Tasks().ReadyIn(id, t.Clock, first))
			for i := range states {
				states[i].NotBefore = t.Clock.Add(time.Duration(1+i%30) * time.Second)
			}
			if err := t.Tasks().Save(states...); err != nil {
				return err
			}
		}
		return nil
	})
	d.mustSubmit(taskqueue.Submission{Name: "others", Tasks: jobs("o", 2)})
	p := d.solo("A", "p1", 2*paused)
	if got := p.pull(); len(got) != 2 {
		t.Fatalf("a pilot got %v, want the two tasks that do not pause", got)
	}
	p.pull()
	if d.maker.Stale(d.clock, "A") {
		t.Error("all READY tasks are read again although none is due")
	}
	got := 0
	for range 30 {
		d.tick(time.Second)
		got += len(p.pull())
	}
	if got != paused {
		t.Errorf("a pilot got %d of %d tasks when their pauses were over", got, paused)
	}
}

// brokenScan is a store that does not list what is READY.
type brokenScan struct {
	taskqueue.Tx
	taskqueue.TaskTable
}

func (b brokenScan) Tasks() taskqueue.TaskTable { return b }

func (brokenScan) ReadyIn(taskqueue.ClassID, taskqueue.Instant, int) ([]taskqueue.TaskState, error) {
	return nil, errors.New("the disk fails")
}

// READY tasks of which not all could be read are read again.
func TestTasksThatCouldNotBeReadAreReadAgain(t *testing.T) {
	g := newGrid(t)
	g.rules.Config.Match.Window = 2
	d := newDesk(g)
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	d.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: jobs("t", 20)})
	p := d.solo("A", "p1", 20)
	got := len(p.pull())
	if got == 0 || got == 20 {
		t.Fatalf("a pilot got %d tasks of the first look, want some", got)
	}
	err := d.store.View(t.Context(), func(tx taskqueue.Tx) error {
		return d.maker.Refresh(d.turn(brokenScan{tx, tx.Tasks()}), "A")
	})
	if err == nil {
		t.Fatal("the tasks were not read anew")
	}
	if more := p.pull(); len(more) == 0 {
		t.Error("a pilot got nothing after a look that failed")
	}
}

// The queue counts the clauses that a site's pilots fail, as masters do.
func TestExplainWhereTheQueueMatches(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	busy, idle := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	s := pairs(1)
	s.Tasks = append(s.Tasks, job("vast", nil, nil))
	s.Tasks[2].Require = "pilot.cores >= 1000"
	w := d.mustSubmit(s)
	d.maker.Changed(&d.effects)
	busy.pull()
	busy.finish(task.NewID(w, "first[0]"))
	busy.inHand = append(busy.inHand, task.LeasedTask{}) // something else
	busy.pull()
	idle.pull()
	explain := func(name string) (x taskqueue.SiteExplanation) {
		d.view(func(t *taskqueue.Turn) error {
			e, err := d.rules.Explain(t, task.NewID(w, name))
			x = e.Sites[0]
			return err
		})
		d.maker.Explain(&x, task.NewID(w, name))
		return x
	}
	if x := explain("vast"); x.Eligible || len(x.Clauses) != 1 || x.Clauses[0].Pilots != 2 {
		t.Errorf("a task that nobody can run: %+v", x)
	}
	if x := explain("second[0]"); !x.Eligible || !strings.Contains(x.Why, "cache has all inputs that no storage element has (1 have)") {
		t.Errorf("a task that waits for its holder: %+v", x)
	}
}

// Where pilots speak for themselves, what the queue knows of them is true whoever is the
// master of their overlay: a new one is no reason to tell all of it again.
func TestPilotsThatSpeakForThemselvesAreNotMetAnewByAnotherMaster(t *testing.T) {
	for mode, again := range map[taskqueue.Mode]bool{taskqueue.ModeCentralized: false, taskqueue.ModeIsolated: false, taskqueue.ModeDistributed: true} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(mode))
		d.solo("A", "p1", 1)
		heir := d.solo("A", "p2", 1)
		roll := func() uint64 {
			p := heir.message()
			return d.serve(&p).Roll
		}
		before := roll()
		d.clock = d.clock.Add(time.Minute)
		claim := taskqueue.Claim{Site: "A", Pilot: heir.id, Expected: d.siteRecord("A").Term}
		var claimed taskqueue.ClaimResult
		d.must(func(turn *taskqueue.Turn) (err error) {
			claimed, err = d.rules.Claim(turn, claim)
			return err
		})
		if after := roll(); before == 0 || !claimed.Granted || (after != before) != again {
			t.Errorf("%s: the roll was %d and is %d under the new master: %+v", mode, before, after, claimed)
		}
		restarted := roll()
		d.must(d.rules.LookAgain)
		if after := roll(); after == restarted {
			t.Errorf("%s: the roll is not called anew at a start of the queue", mode)
		}
	}
}
