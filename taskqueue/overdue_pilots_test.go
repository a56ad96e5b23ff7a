package taskqueue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// enlist registers a pilot that ends after some time by the wall clock.
func (c *crew) enlist(peer task.PeerID, after time.Duration) task.PilotID {
	c.t.Helper()
	var out taskqueue.Registered
	c.must(func(t *taskqueue.Turn) (err error) {
		out, err = c.rules.Register(t, taskqueue.Registration{Site: c.site, Peer: peer, PilotDescription: taskqueue.PilotDescription{Slots: 1, Ends: t.Wall.Add(after)}})
		return err
	})
	return out.Pilot
}

func (g *grid) pilot(id task.PilotID) (pilot taskqueue.PilotRecord) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Pilots().Load(id)
		if err == nil {
			pilot = found[0]
		}
		return err
	})
	return pilot
}

// TestPilotsPastTheirEndAreDismissed: a pilot that never came or was killed
// does not count for ever; the master that is heard does.
func TestPilotsPastTheirEndAreDismissed(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	master := a.enlist("peer1", 10*time.Minute)
	a.members = []*member{{id: master, peer: "peer1", slots: 1}}
	a.master, a.term = a.members[0], task.Term{Epoch: 1, Peer: "peer1"}
	phantom, stays := a.enlist("peer2", 10*time.Minute), a.enlist("peer3", time.Hour)
	a.next.Joined = []task.PilotID{phantom, stays}
	a.sync()
	for range 14 {
		g.tick(time.Minute - time.Second)
		a.sync()
		g.tick(time.Second)
	}
	if p := g.pilot(phantom); p.State != taskqueue.PilotAlive {
		t.Errorf("4 min after its end the pilot is %s", p.State)
	}
	for range 3 {
		g.tick(time.Minute - time.Second)
		a.sync()
		g.tick(time.Second)
	}
	if p := g.pilot(phantom); p.State != taskqueue.PilotDead || !strings.Contains(p.Reason, "declared end") {
		t.Errorf("long after its end the pilot is %s (%s)", p.State, p.Reason)
	}
	if p := g.pilot(stays); p.State != taskqueue.PilotAlive {
		t.Errorf("the pilot with an hour to go is %s", p.State)
	}
	g.check()
}

// TestHowLongAPilotIsAwaitedIsNoMatterOfTheWallClock: one that jumps keeps nobody that
// never came, and drops nobody that is on its way.
func TestHowLongAPilotIsAwaitedIsNoMatterOfTheWallClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		g := newGrid(t)
		a := g.addSite("A")
		a.join("master", 1)
		a.sync()
		never := a.enlist("peer2", 30*24*time.Hour)
		g.skew = skew
		for second := 0; second < 240; second += 5 {
			g.tick(5 * time.Second)
			a.sync()
			if p := g.pilot(never); second < 90 && p.State != taskqueue.PilotAlive {
				t.Fatalf("the wall clock jumps by %s: after %d s it is %s (%s)", skew, second, p.State, p.Reason)
			}
		}
		if p := g.pilot(never); p.State != taskqueue.PilotDead {
			t.Errorf("the wall clock jumps by %s: 4 min later who never came is %s", skew, p.State)
		}
	}
}

// TestAPilotThatLivesByItsWordHasToRepeatIt: its master took it for dead, so that one
// does not tell when it dies.
func TestAPilotThatLivesByItsWordHasToRepeatIt(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("master", 1)
	cut := a.join("cut", 1)
	a.sync()
	a.members = a.members[:1]
	a.next.Departed = []task.Departure{{Pilot: cut.id, Dead: true, Reason: "silent"}}
	a.sync()
	a.set(taskqueue.SiteRecord{})
	for minute := range 15 {
		if minute < 10 {
			if _, err := a.unreachable(cut); err != nil {
				t.Fatal(err)
			}
		}
		g.tick(time.Minute - time.Second)
		a.sync()
		g.tick(time.Second)
		if p := g.pilot(cut.id); minute < 10 && p.State != taskqueue.PilotAlive {
			t.Fatalf("after %d min it is %s (%s)", minute, p.State, p.Reason)
		}
	}
	if p := g.pilot(cut.id); p.State != taskqueue.PilotDead || !strings.Contains(p.Reason, "cut off") {
		t.Errorf("5 min after it said last that it lives it is %s (%s)", p.State, p.Reason)
	}
	g.check()
}

// TestPilotsThatNeverCameAreForgotten: who has registered and is met by no
// master counts for two minutes, one that comes later is taken back.
func TestPilotsThatNeverCameAreForgotten(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	master := a.enlist("peer1", time.Hour)
	a.members = []*member{{id: master, peer: "peer1", slots: 1}}
	a.master, a.term = a.members[0], task.Term{Epoch: 1, Peer: "peer1"}
	a.sync()
	never, slow := a.enlist("peer2", time.Hour), a.enlist("peer3", time.Hour)
	pass := func(d time.Duration) {
		for range d / (5 * time.Second) {
			g.tick(5 * time.Second)
			a.sync()
		}
	}
	pass(90 * time.Second)
	if site := g.siteRecord("A"); site.Pilots != 3 || g.pilot(never).State != taskqueue.PilotAlive {
		t.Errorf("a slow joiner is forgotten after 90 s: %d pilots", site.Pilots)
	}
	pass(2 * time.Minute)
	if site := g.siteRecord("A"); site.Pilots != 1 || site.Registered != 1 {
		t.Errorf("%d pilots with %d slots count, one is there", site.Pilots, site.Registered)
	}
	if p := g.pilot(never); p.State != taskqueue.PilotDead || !strings.Contains(p.Reason, "no master of its site has met it") {
		t.Errorf("the one that never came is %s (%s)", p.State, p.Reason)
	}
	a.next.Joined = []task.PilotID{slow}
	a.sync()
	pass(5 * time.Minute)
	if site := g.siteRecord("A"); site.Pilots != 2 || g.pilot(slow).State != taskqueue.PilotAlive {
		t.Errorf("the slow one is %s, %d pilots count", g.pilot(slow).State, site.Pilots)
	}
	g.check()
}

// TestKilledMastersAreForgotten: a master is dead when another one gets its office
// because it is not heard; who was met under it counts for two minutes without a
// word from the new one.
func TestKilledMastersAreForgotten(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	old, next, stays, killed := a.join("peer1", 1), a.join("peer2", 1), a.join("peer3", 1), a.join("peer4", 1)
	a.next.Joined = []task.PilotID{next.id, stays.id, killed.id}
	pass := func(d time.Duration) {
		for range d / (5 * time.Second) {
			a.sync()
			g.tick(5 * time.Second)
		}
	}
	pass(5 * time.Minute)
	r := a.tryClaim(next.id, a.term, false)
	if !r.Granted {
		t.Fatalf("the claim is refused: %s", r.Why)
	}
	a.master, a.term, a.members = next, r.Term, []*member{next, stays}
	a.next.Joined = []task.PilotID{stays.id}
	pass(100 * time.Second)
	if site := g.siteRecord("A"); site.Pilots != 3 {
		t.Errorf("%d pilots count after 100 s, want all but the master", site.Pilots)
	}
	pass(2 * time.Minute)
	for gone, why := range map[*member]string{old: "was missed by its site and the queue", killed: "the master in office has not met it"} {
		if p := g.pilot(gone.id); p.State != taskqueue.PilotDead || !strings.Contains(p.Reason, why) {
			t.Errorf("%s is %s (%s)", gone.peer, p.State, p.Reason)
		}
	}
	pass(5 * time.Minute)
	for _, there := range []*member{next, stays} {
		if p := g.pilot(there.id); p.State != taskqueue.PilotAlive {
			t.Errorf("%s is %s (%s)", there.peer, p.State, p.Reason)
		}
	}
	g.check()
}

// TestCheckIsNoMember: who only checks its node is let in, but is not master,
// counts nowhere and cannot claim.
func TestCheckIsNoMember(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	var out taskqueue.Registered
	a.must(func(t *taskqueue.Turn) (err error) {
		out, err = a.rules.Register(t, taskqueue.Registration{Site: "A", Peer: "peer1", Check: true, PilotDescription: taskqueue.PilotDescription{Slots: 4}})
		return err
	})
	if out.Pilot == "" || out.Master.Pilot != "" || !out.Term.IsZero() || out.NotAfter.IsZero() {
		t.Errorf("it is answered %+v", out)
	}
	if site := g.siteRecord("A"); site.Pilots != 0 || site.Registered != 0 || site.Master != "" {
		t.Errorf("the site has %d pilots, %d slots, master %q", site.Pilots, site.Registered, site.Master)
	}
	var claim taskqueue.ClaimResult
	a.must(func(t *taskqueue.Turn) (err error) {
		claim, err = a.rules.Claim(t, taskqueue.Claim{Site: "A", Pilot: out.Pilot})
		return err
	})
	if claim.Granted {
		t.Error("its claim is granted")
	}
	if err := a.update(func(t *taskqueue.Turn) error {
		return a.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: out.Pilot, Reason: "self-check only"})
	}); err != nil {
		t.Errorf("it cannot leave: %v", err)
	}
	first := a.enlist("peer2", time.Hour)
	if site := g.siteRecord("A"); site.Master != first || site.Pilots != 1 {
		t.Errorf("master is %q of %d pilots, want the first real one", site.Master, site.Pilots)
	}
	g.check()
}

// TestHeardMasterOutlivesItsEnd: whatever it declared, a master that calls is
// alive; when it falls silent it goes like the others, and the site with it.
func TestHeardMasterOutlivesItsEnd(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	id := a.enlist("peer1", time.Minute)
	a.members = []*member{{id: id, peer: "peer1", slots: 1}}
	a.master, a.term = a.members[0], task.Term{Epoch: 1, Peer: "peer1"}
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	for range 1000 {
		a.sync()
		g.tick(time.Second)
	}
	if p := g.pilot(id); p.State != taskqueue.PilotAlive {
		t.Errorf("a master that is heard is %s (%s)", p.State, p.Reason)
	}
	g.expect(task.Leased, task.NewID(w, "t"))
	g.tick(2 * time.Minute)
	if p, site := g.pilot(id), g.siteRecord("A"); p.State != taskqueue.PilotDead || site.Pilots != 0 {
		t.Errorf("once silent it is %s, and the site has %d pilots", p.State, site.Pilots)
	}
	g.expect(task.Ready, task.NewID(w, "t"))
	g.check()
}

// Where pilots speak for themselves no master meets them, and those that pull
// stay. When the site has a master again, that one has its time to meet them.
func TestNobodyIsAbsentWherePilotsSpeakForThemselves(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(mode))
		p := d.solo("A", "p1", 1)
		w := d.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
		d.maker.Changed(&d.effects)
		p.pull()
		pass := func(d time.Duration, pull bool) {
			for range d / (5 * time.Second) {
				p.tick(5 * time.Second)
				if pull {
					p.pull()
				}
			}
		}
		pass(10*time.Minute, true)
		if got := d.pilot(p.id); got.State != taskqueue.PilotAlive {
			t.Errorf("%s: a pilot that pulls is %s (%s)", mode, got.State, got.Reason)
		}
		d.expect(task.Leased, task.NewID(w, "t"))
		d.addSite("A", inMode(taskqueue.ModeDistributed))
		pass(time.Minute, false)
		if got := d.pilot(p.id); got.State != taskqueue.PilotAlive {
			t.Errorf("%s: a minute after the change to a mode with a master the pilot is %s (%s)", mode, got.State, got.Reason)
		}
		pass(3*time.Minute, false)
		if got := d.pilot(p.id); got.State != taskqueue.PilotDead {
			t.Errorf("%s: a pilot that no master has met in 4 minutes is %s", mode, got.State)
		}
		d.check()
	}
}

// A queue that rests is woken by what has a time of its own, and looks about now and then.
func TestAQueueThatRestsWakesInTime(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, nil)}})
	a.sync()
	for g.tick(0); g.due() <= g.clock; g.tick(0) {
	}
	rests := func() (d time.Duration) {
		g.view(func(t *taskqueue.Turn) error {
			due, err := g.rules.Deadline(t, true)
			d = due.Sub(g.clock)
			return err
		})
		return d
	}
	if d, want := rests(), g.rules.Config.Workflow.RestEvery; d != want {
		t.Errorf("the next tick is due in %s, want %s", d, want)
	}
	g.tick(g.rules.Config.Lease.TTL - 2*time.Second)
	if d := rests(); d != 2*time.Second {
		t.Errorf("2 s before the lease of a silent site ends the next tick is due in %s", d)
	}
	g.tick(2 * time.Second)
	g.check()
}
