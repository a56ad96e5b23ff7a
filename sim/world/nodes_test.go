package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// blackHole has every payload at a node fail at once, while holds says so, and
// counts them.
func (w *world) blackHole(host string, holds func() bool) *int {
	burnt := new(int)
	fails, run := w.fails, w.run1
	w.fails = func(id task.ID, n *node) bool {
		if n.host == host && holds() {
			*burnt++
			return true
		}
		return fails(id, n)
	}
	w.run1 = func(id task.ID, n *node) time.Duration {
		if n.host == host && holds() {
			return 5 * time.Millisecond
		}
		return run(id, n)
	}
	return burnt
}

func always() bool { return true }

// many are tasks without files.
func many(count int) (tasks []task.Task) {
	for i := range count {
		tasks = append(tasks, one(fmt.Sprintf("t%d", i)))
	}
	return tasks
}

// on starts a pilot at a node.
func (w *world) on(s *site, host string, slots int) *node {
	return w.startOne(s, slots, func(r *taskqueue.Registration) { r.Host = host })
}

// A task that fails at a node is run at another one next: one node at which
// everything fails has no task fail for good.
func TestARetryGoesToAnotherNode(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 10, 4)
		w.blackHole(pilots[seed].host, always)
		flow := w.submit("flow", many(300+int(seed)*30)...)
		w.finish(flow, time.Hour)
		for _, state := range w.queue.tasks(flow) {
			at := make(map[task.PilotID]bool)
			for _, a := range w.queue.attempts(state.ID) {
				id := a.Outcome.Attempt.Pilot
				if at[id] {
					t.Errorf("seed %d: %s came to pilot %s twice", seed+1, state.ID, id)
				}
				at[id] = true
			}
		}
	}
}

// A node whose pilots die with what they run takes no healthy task down with it,
// however many pilots the site's factory starts there.
func TestPilotsOfOneNodeQuarantineNoTask(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 2, 1)
		w.run1 = func(_ task.ID, n *node) time.Duration {
			if n.host == "bad" {
				n.after(100*time.Millisecond, func() {
					if n.alive {
						n.kill()
					}
				})
			}
			return 30 * time.Second
		}
		flow := w.submit("flow", many(30)...)
		for range 40 {
			if n := s.live(); len(n) < 5 {
				w.on(s, "bad", 1)
			}
			w.run(7 * time.Second)
		}
		w.finish(flow, time.Hour)
	}
}

// At a site of one node a task has its retries there, no more and no fewer.
func TestASiteOfOneNodeRetriesThere(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	for range 3 {
		w.on(s, "only", 2)
	}
	w.run(time.Second)
	w.fails = func(id task.ID, n *node) bool { return id.Name() == "t0" || id.Name() == "t1" && w.started[id] <= 3 }
	flow := w.submit("flow", many(20)...)
	w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Over() })
	if counts := w.queue.workflow(flow).Counts; counts[task.Failed] != 1 || counts[task.Done] != 19 {
		t.Errorf("%v, want one FAILED and 19 DONE", counts)
	}
	if n := w.started[task.NewID(flow, "t0")]; n != 4 {
		t.Errorf("the bad task was started %d times, want 4", n)
	}
}

// heldBack lists the nodes whose pilots the queue shows as set back.
func (s *site) heldBack() (hosts []string) {
	for _, n := range s.live() {
		if why := s.world.queue.pilot(n.id).Stopped; strings.Contains(why, "set back") {
			hosts = append(hosts, n.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// A node at which everything fails at once burns its slots and five tasks more at most,
// and no other node is set back; with some of several pilots, whoever gives the work.
func TestABlackHoleBurnsFewTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", inMode([]taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized}[seed/6]))
		slots := []int{1, 4, 2}[seed%3]
		for i := range 10 {
			w.on(s, fmt.Sprintf("node-%d", i*int(1+seed%2)/2), slots) // two pilots each, or one
			w.run(20 * time.Millisecond)
		}
		bad := s.live()[seed%10].host
		pilots := 0
		for _, n := range s.live() {
			if n.host == bad {
				pilots++
			}
		}
		w.run1 = func(task.ID, *node) time.Duration { return time.Duration(1+w.random.IntN(20)) * time.Second }
		burnt := w.blackHole(bad, always)
		flow := w.submit("flow", many(300+int(seed)*8)...)
		w.run(5 * time.Second)
		first := *burnt
		if got := s.heldBack(); !slices.Equal(got, []string{bad}) {
			t.Errorf("seed %d: set back are %v, want %s", seed+1, got, bad)
		}
		w.finish(flow, 2*time.Hour)
		trials := 0
		for pause := health.FirstPause; pause < w.now(); pause *= 2 {
			trials++
		}
		if most := pilots*slots + health.Least; first > most || *burnt > most+trials {
			t.Errorf("seed %d: %d tasks burnt at first and %d in all in %s, want at most %d and a trial at the end of each of %d pauses",
				seed+1, first, *burnt, w.now(), most, trials)
		}
		t.Logf("seed %d: %d pilots of %d slots: %d burnt at first, %d in all", seed+1, pilots, slots, first, *burnt)
	}
}

// A node at which nothing can be read is a black hole as well: its mount is missing, or
// its network damages all, or lets it reach no storage element.
func TestANodeThatReadsNothingBurnsFewTasks(t *testing.T) {
	t.Parallel()
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		for name, plagues := range map[string]func(*node){
			"damages":    func(n *node) { n.misreads, n.alone = true, true },
			"no storage": func(n *node) { n.shut, n.alone = true, true },
		} {
			const slots = 2
			w := newWorld(t, 1)
			s := w.addSite("siteA", inMode(mode))
			pilots := w.start(s, 4, slots)
			plagues(pilots[0])
			w.run1 = func(task.ID, *node) time.Duration { return 10 * time.Second }
			var tasks []task.Task
			for i := range 100 {
				own, made, read := fmt.Sprint("in", i), fmt.Sprint("m", i), fmt.Sprint("r", i)
				tasks = append(tasks, one("make"+own, reads(own), makes(made)), one("read"+own, reads(made), makes(read)))
			}
			flow := w.submit("flow", tasks...)
			w.run(20 * time.Second)
			first := pilots[0].unread
			w.finish(flow, time.Hour)
			trials := 0
			for pause := health.FirstPause; pause < w.now(); pause *= 2 {
				trials++
			}
			// What a pilot has early is staged in at once, and fails together.
			if most := 2 * (slots + health.Least); first > most || pilots[0].unread > most+2*trials {
				t.Errorf("%s, %s: %d tasks burnt at first and %d in all in %s", mode, name, first, pilots[0].unread, w.now())
			}
			for _, state := range w.queue.tasks(flow) {
				if state.Failures > 1 || state.Generation > 1 {
					t.Errorf("%s, %s: %+v", mode, name, state)
					break
				}
			}
			t.Logf("%s, %s: %d at first, %d in all in %s", mode, name, first, pilots[0].unread, w.now())
		}
	}
}

// A lone pilot at which attempts fail at once calls the queue for each of them, which is
// no call too many.
func TestWhatAttemptsExplainIsNotTooManyCalls(t *testing.T) {
	w := newWorld(t, 1)
	w.bounded = true
	s := w.addSite("siteA", inMode(taskqueue.ModeCentralized))
	n := w.startOne(s, 1, nil)
	w.run1 = func(task.ID, *node) time.Duration { return 5 * time.Millisecond }
	w.blackHole(n.host, always)
	work := many(60)
	for i := range work {
		work[i].Retries = 10
	}
	w.submit("flow", work...)
	w.run(9 * time.Second)
	if n.calls.calls < mostCalls {
		t.Errorf("%d calls are not many", n.calls.calls)
	}
}

// Where payloads fail at every node it is the tasks: no node is set back, and
// work goes on as if nobody judged.
func TestFailuresOfAllNodesHoldNobody(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 10, 2)
		w.run1 = func(task.ID, *node) time.Duration { return time.Duration(1+w.random.IntN(1000)) * time.Millisecond }
		if seed > 0 {
			w.finish(w.submit("good", many(int(seed)*40)...), time.Hour)
		}
		began := w.now()
		w.fails = func(task.ID, *node) bool { return true }
		flow := w.submit("flow", many(300)...)
		held := 0
		over := func() bool { return w.queue.workflow(flow).Over() }
		for !over() && w.now()-began < time.Hour {
			w.runUntil(time.Second, over)
			held += len(s.heldBack())
		}
		t.Logf("seed %d: over after %s, %d node seconds set back", seed+1, w.now()-began, held)
		if !over() || held > 10 || w.now()-began > 3*time.Minute {
			t.Errorf("seed %d: over %v after %s, %d node seconds set back", seed+1, over(), w.now()-began, held)
		}
	}
}

// A node that is mended gets work again, after a trial.
func TestAMendedNodeGetsWorkAgain(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 10, 2)
	bad := true
	w.run1 = func(task.ID, *node) time.Duration { return 10 * time.Second }
	burnt := w.blackHole(pilots[3].host, func() bool { return bad })
	flow := w.submit("flow", many(600)...)
	w.run(40 * time.Second) // the first trial fails
	if len(s.heldBack()) != 1 || *burnt < 6 {
		t.Errorf("set back are %v, %d tasks burnt", s.heldBack(), *burnt)
	}
	bad = false
	if !w.runUntil(2*time.Minute, func() bool { return len(s.heldBack()) == 0 }) {
		t.Fatal("the node is not let in again")
	}
	w.run(30 * time.Second)
	good := 0
	for _, p := range pilots[3].payloads {
		if !p.over {
			good++
		}
	}
	if good < 2 {
		t.Errorf("%d payloads run at the mended node, want 2", good)
	}
	w.finish(flow, time.Hour)
}

// A new master, and a queue that was away, know who is set back.
func TestANewMasterKnowsWhoIsSetBack(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 10, 4)
		bad := pilots[(int(seed)+1)%10]
		if bad == s.master() {
			bad = pilots[9]
		}
		w.run1 = func(task.ID, *node) time.Duration { return 10 * time.Second }
		burnt := w.blackHole(bad.host, always)
		flow := w.submit("flow", many(500)...)
		w.run(45 * time.Second) // one trial has failed: nothing for a minute
		before := *burnt
		w.queue.stop()
		w.run(5 * time.Second)
		w.queue.start()
		w.run(2 * time.Second)
		s.master().kill()
		w.run(25 * time.Second)
		if *burnt != before {
			t.Errorf("seed %d: %d tasks more burnt at %s", seed+1, *burnt-before, bad.host)
		}
		if got := s.heldBack(); !slices.Equal(got, []string{bad.host}) {
			t.Errorf("seed %d: set back are %v, want %s", seed+1, got, bad.host)
		}
		w.finish(flow, time.Hour)
	}
}

// A node at which payloads fail late burns few tasks as well, while pilots at
// all other nodes die with what they run: nobody but it is held for long, all
// together never, and each is let in again.
func TestALateBlackHoleAmongPilotsThatDie(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		slots := int(1 + 3*(seed%2))
		for i := range 8 {
			w.on(s, fmt.Sprint("node-", i), slots)
			w.run(20 * time.Millisecond)
		}
		const bad = "node-5"
		mended := false
		burnt := 0
		w.run1 = func(_ task.ID, n *node) time.Duration {
			if n.host == bad {
				return 20 * time.Second
			}
			return time.Duration(5+w.random.IntN(20)) * time.Second
		}
		w.fails = func(_ task.ID, n *node) bool {
			if n.host != bad || mended {
				return false
			}
			burnt++
			return true
		}
		flow := w.submit("flow", many(100*slots)...)
		deaths, longest, masters := 0, 0, 0
		held := make(map[string]int) // seconds in a row
		over := func() bool { return w.queue.workflow(flow).Finished() }
		for second := 0; !over() && second < 3600; second++ {
			w.runUntil(time.Second, over)
			live := s.live()
			if second%10 == 0 {
				if n := live[w.random.IntN(len(live))]; n.host != bad {
					deaths++
					if burnt < slots+health.Least && n == s.master() {
						masters++ // the next one counts anew
					}
					n.kill()
					w.on(s, n.host, slots)
				}
			}
			back := s.heldBack()
			if len(back) == 8 {
				t.Errorf("seed %d: all nodes are set back at once", seed+1)
			}
			for i := range 8 {
				host := fmt.Sprint("node-", i)
				if held[host]++; !slices.Contains(back, host) {
					held[host] = 0
				}
				if host != bad {
					longest = max(longest, held[host])
				}
			}
			if second == 240 {
				mended = true
			}
		}
		w.finish(flow, time.Second)
		t.Logf("seed %d: %d slots: over after %s, %d deaths (%d early of masters), %d burnt, another node was set back for %d s at the longest", seed+1, slots, w.now(), deaths, masters, burnt, longest)
		if most := 2*slots + health.Least + 4 + masters*(slots+health.Least-1); burnt > most || longest > 60 {
			t.Errorf("seed %d: %d burnt, want at most %d; a good node was set back for %d s", seed+1, burnt, most, longest)
		}
		mended = true
		again := w.submit("again", many(200*slots)...)
		w.finish(again, time.Hour)
		if got := s.heldBack(); len(got) > 0 {
			t.Errorf("seed %d: %v are still set back", seed+1, got)
		}
	}
}

// A node on trial runs one task, however long that takes: its other slots take nothing
// back that was given early to other pilots.
func TestSlotsOfANodeOnTrialTakeNothingBack(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 2, 3)
		bad := pilots[seed%2]
		w.run1 = func(task.ID, *node) time.Duration { return 3 * time.Minute }
		w.blackHole(bad.host, func() bool { return w.now() < 10*time.Second })
		flow := w.submit("flow", many(100)...)
		if !w.runUntil(10*time.Minute, func() bool { return w.now() > 10*time.Second && len(bad.running()) == 1 }) {
			t.Fatalf("seed %d: %s is not tried", seed+1, bad.id)
		}
		w.run(time.Second)
		before := w.net.Sent
		w.run(time.Minute)
		if sent := w.net.Sent - before; sent > 1000 || len(bad.running()) != 1 {
			t.Errorf("seed %d: %d messages in a minute in which %s runs %d tasks on trial", seed+1, sent, bad.id, len(bad.running()))
		}
		w.finish(flow, 5*time.Hour)
	}
}

// A site with rounds of a fixed period loses none of them with a task that has failed at
// all of its nodes.
func TestARetryThatMayGoAnywhereWaitsForOneRound(t *testing.T) {
	const period = 10 * time.Second
	for seed := range uint64(4) {
		w := newWorld(t, seed)
		w.start(w.addSite("siteA", func(site *taskqueue.SiteRecord) { site.RoundEvery = period }), 2, 1)
		w.fails = func(id task.ID, _ *node) bool { return w.started[id] <= 2 }
		flow := w.submit("flow", one("t"))
		id, due := task.NewID(flow, "t"), taskqueue.Instant(0)
		w.runUntil(5*time.Minute, func() bool {
			state := w.queue.tasks(flow)[0]
			due = state.NotBefore
			return state.State == task.Ready && w.started[id] == 2
		})
		if w.runUntil(5*time.Minute, func() bool { return w.started[id] == 3 }); w.queue.clock().Sub(due) > period+200*time.Millisecond {
			t.Errorf("seed %d: it is tried again %s after its pause", seed, w.queue.clock().Sub(due))
		}
	}
}
