package taskqueue_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The master saw the connection of a pilot break that was leaving, and told of its
// death before its goodbye came.
func TestWhoSaysGoodbyeHasLeftAlthoughTakenForDead(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	two := a.join("peer2", 1)
	a.sync() // which tells of those that joined
	a.next.Departed = []task.Departure{{Pilot: two.id, Dead: true, Reason: "its connection broke"}}
	a.sync()
	if p := g.pilot(two.id); p.State != taskqueue.PilotDead {
		t.Fatalf("it is %v", p.State)
	}
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: two.id, Reason: "told to stop"})
	})
	if p, site := g.pilot(two.id), g.siteRecord("A"); p.State != taskqueue.PilotLeft || p.Reason != "told to stop" || site.Pilots != 1 {
		t.Errorf("after its goodbye it is %v (%s), %d pilots at the site", p.State, p.Reason, site.Pilots)
	}
}

func TestRegistration(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	for i := range 40 {
		a.join(task.PeerID(fmt.Sprintf("peer%02d", i)), 2)
	}
	out, err := a.register("peer07", 3)
	if err != nil || out.Pilot != a.members[7].id {
		t.Fatalf("registering again: %+v, %v", out, err)
	}
	if len(out.Contacts) != 16 || out.Master.Pilot != a.master.id {
		t.Errorf("%d contacts, master %s", len(out.Contacts), out.Master.Pilot)
	}
	for _, c := range out.Contacts {
		if c.Pilot == out.Pilot {
			t.Error("a pilot is told of itself")
		}
	}
	if s := g.siteRecord("A"); s.Pilots != 40 || s.Registered != 81 {
		t.Errorf("%d pilots, %d slots", s.Pilots, s.Registered)
	}
	if out, err = a.register("peer00", 2); err != nil || out.Term != a.term {
		t.Errorf("the living master registering again: %+v, %v", out, err)
	}
	if _, err := (&crew{grid: g, site: "Z"}).register("x", 1); !errors.Is(err, taskqueue.ErrNotFound) {
		t.Errorf("an unknown site: %v", err)
	}
	if _, err := a.register("x", 0); !errors.Is(err, taskqueue.ErrInvalid) {
		t.Errorf("no slots: %v", err)
	}
	g.addSite("B")
	if _, err := g.crews["B"].register("peer07", 1); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("a peer of another site: %v", err)
	}
	g.check()
}

func TestDeniedPilotIsShutOut(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	bad := a.join("peer2", 1)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Deny(turn, string(bad.id)) })
	if reply := a.sync(); len(reply.Denied) != 1 || reply.Denied[0] != "peer2" {
		t.Errorf("the site learns %v", reply.Denied)
	}
	if _, err := a.register("peer2", 1); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("it registers again: %v", err)
	}
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := g.rules.Claim(turn, taskqueue.Claim{Site: "A", Pilot: bad.id, Expected: a.term})
		return err
	})
	if !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("it claims: %v", err)
	}
	g.check()
}

func TestSilentSiteIsTakenForEmptyAndComesBack(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, []string{"x"}), job("two", []string{"x"}, nil)}})
	one, two := task.NewID(w, "one"), task.NewID(w, "two")
	a.sync()
	a.end(one, a.succeed(a.start(one, a.members[0])))
	a.sync()
	running := a.start(two, a.members[0])
	g.tick(11 * time.Minute)
	g.check()
	if s := g.siteRecord("A"); s.Pilots != 0 || len(s.Silenced) != 1 {
		t.Errorf("after 11 min of silence: %+v", s)
	}
	if s := g.state(one); s.Generation != 2 {
		t.Errorf("x was only in A's caches: generation %d of its maker", s.Generation)
	}
	b.join("peerB", 1)
	b.sync()
	g.expect(task.Leased, one, two)
	a.end(two, a.succeed(running))
	reply := a.sync()
	if s := g.siteRecord("A"); s.Pilots != 1 || len(s.Silenced) > 0 {
		t.Errorf("A is back: %+v", s)
	}
	if len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckStale {
		t.Errorf("two read an x that is not the accepted one any more; it is answered %+v", reply.Acks)
	}
	g.check()
	b.work()
	b.sync()
	g.expect(task.Done, one, two)
	g.check()
}

func TestUnguardedFilesAreAskedFor(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	maker := a.join("peer2", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Outputs: []string{"x"}, Tasks: []task.Task{job("t", nil, []string{"x"})}})
	id, x := task.NewID(w, "t"), task.Qualify(w, "x")
	a.sync()
	a.end(id, a.succeed(a.start(id, maker)))
	if reply := a.sync(); len(reply.Check) != 0 {
		t.Errorf("asked for %v while its maker is there to store it", reply.Check)
	}
	a.members = a.members[:1]
	a.sync() // which tells of those that joined
	a.next.Departed = []task.Departure{{Pilot: maker.id, Dead: true}}
	for range 2 {
		if reply := a.sync(); len(reply.Check) != 1 || reply.Check[0].LFN != x {
			t.Fatalf("asked for %v, want x until it is stored or lost", reply.Check)
		}
		a.next = task.Sync{} // the master does not get round to it
	}
	a.upload(x)
	if reply := a.sync(); len(reply.Check) != 0 || g.siteRecord("A").Check {
		t.Errorf("asked for %v after it was stored", reply.Check)
	}
	g.check()
}

func TestDrainReachesSiteAndPilot(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	two := a.join("peer2", 1)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainPilot(turn, two.id) })
	if reply := a.sync(); len(reply.Drain) != 1 || reply.Drain[0] != two.id {
		t.Errorf("to drain: %v", reply.Drain)
	}
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: two.id})
	})
	if reply := a.sync(); len(reply.Drain) != 0 {
		t.Errorf("still to drain: %v", reply.Drain)
	}
	if err := g.update(func(turn *taskqueue.Turn) error { return g.rules.DrainPilot(turn, two.id) }); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("draining one that left: %v", err)
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainSite(turn, "A", true) })
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	if reply := a.sync(); len(reply.Leases) != 0 || !reply.Settings.Draining {
		t.Errorf("a draining site is given %+v", reply.Leases)
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainSite(turn, "A", false) })
	if a.sync(); len(a.held()) != 1 {
		t.Error("a site that is drained no more gets nothing")
	}
	g.check()
}

// A pilot that was taken for dead while it was to be told that it is drained is told when
// it is back.
func TestADrainedPilotThatComesBackIsToldAgain(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	two := a.join("peer2", 1)
	a.sync()
	g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainPilot(turn, two.id) })
	a.next.Departed = []task.Departure{{Pilot: two.id, Dead: true}}
	if reply := a.sync(); len(reply.Drain) != 0 {
		t.Errorf("a dead pilot is to leave: %v", reply.Drain)
	}
	a.next.Joined = []task.PilotID{two.id}
	if reply := a.sync(); !slices.Equal(reply.Drain, []task.PilotID{two.id}) {
		t.Errorf("to leave, now that it is back: %v", reply.Drain)
	}
	g.check()
}

// Pilots that were taken for dead before their site went over to the next protocol do not
// come back: nobody there understands them.
func TestPilotsOfTheReleaseBeforeDoNotComeBack(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A", func(s *taskqueue.SiteRecord) { s.SE = "file:///se" })
	old := a.join("peer1", 1)
	id := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}}), "t")
	a.sync()
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{Mode: taskqueue.ModeCentralized, SE: "file:///se"}})
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Tend(turn, "A", &taskqueue.Care{Silent: []task.PilotID{old.id}})
	})
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.Register(turn, taskqueue.Registration{Site: "A", Peer: "peer2", Overlay: 1, PilotDescription: taskqueue.PilotDescription{Slots: 1}})
		return err
	})
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := g.rules.Claim(turn, taskqueue.Claim{Site: "A", Pilot: old.id, Expected: a.siteRecord("A").Term})
		return err
	})
	if !errors.Is(err, taskqueue.ErrStranger) {
		t.Errorf("the claim of an older pilot: %v", err)
	}
	if _, err := a.unreachable(old); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("the word of an older pilot that it reaches nobody: %v", err)
	}
	g.must(func(turn *taskqueue.Turn) error {
		made := task.AttemptID{Task: id, Generation: 1, Lease: 1, Pilot: old.id, Counter: 1}
		out, err := g.rules.Pull(turn, &task.Pull{Sync: task.Sync{
			Site: "A", Pilot: old.id, Outcomes: []task.Outcome{{Attempt: made, Site: "A", OK: true}},
		}}, task.Capacity{})
		if len(out.Reply.Acks) != 1 || out.Reply.Acks[0].Verdict != task.AckAccepted || !slices.Equal(out.Reply.Drain, []task.PilotID{old.id}) || out.MayTake() {
			t.Errorf("the pull of an older pilot is answered %+v", out.Reply)
		}
		return err
	})
	g.expect(task.Done, id)
	if site := g.siteRecord("A"); site.Pilots != 1 {
		t.Errorf("%d pilots are counted, want the new one", site.Pilots)
	}
}

// Pilots of two releases do not speak with each other: those of the older one are
// drained, and still tell what they ran.
func TestPilotsOfTwoReleasesDoNotShareASite(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	old := a.join("peer1", 1)
	register := func(peer task.PeerID, overlay uint32) (out taskqueue.Registered, err error) {
		err = g.update(func(turn *taskqueue.Turn) (err error) {
			out, err = g.rules.Register(turn, taskqueue.Registration{Site: "A", Peer: peer, Overlay: overlay, PilotDescription: taskqueue.PilotDescription{Slots: 1}})
			return err
		})
		return out, err
	}
	if out, err := register("peer2", 2); err != nil || out.Wait == "" || out.Pilot != "" {
		t.Errorf("beside an older pilot: %+v, %v", out, err)
	}
	if reply := a.sync(); len(reply.Drain) != 1 || reply.Drain[0] != old.id {
		t.Errorf("to drain: %v", reply.Drain)
	}
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: old.id})
	})
	if out, err := register("peer2", 2); err != nil || out.Wait != "" || out.Master.Pilot != out.Pilot {
		t.Errorf("when it has left: %+v, %v", out, err)
	}
	if _, err := register("peer3", 0); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("an older pilot beside a newer one: %v", err)
	}
	g.rules.Config.Site.Pilot.Protocol = 2
	out, err := register("peer4", math.MaxUint32)
	if !errors.Is(err, taskqueue.ErrRefused) || out.Wait != "" {
		t.Errorf("one that speaks what the queue does not know: %+v, %v", out, err)
	}
}

// TestOnlyTheLastPilotEmptiesItsSite: while the queue knows of another live
// pilot, a goodbye costs the site neither its leases nor its caches.
func TestOnlyTheLastPilotEmptiesItsSite(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one := a.join("peer1", 2)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, []string{"x"}), job("two", nil, nil)}})
	a.sync()
	a.end(task.NewID(w, "one"), a.succeed(a.start(task.NewID(w, "one"), one)))
	a.sync()
	two := a.join("peer2", 1)
	leave := func(m *member) {
		t.Helper()
		g.must(func(t *taskqueue.Turn) error {
			return g.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: m.id, Reason: "end"})
		})
		g.check()
	}
	leave(two)
	g.expect(task.Leased, task.NewID(w, "two"))
	if f := g.file(task.Qualify(w, "x")); len(f.Announced) != 1 {
		t.Errorf("x is announced at %v, want A", f.Announced)
	}
	leave(two)
	g.expect(task.Leased, task.NewID(w, "two"))
	leave(one)
	g.expect(task.Ready, task.NewID(w, "two"))
	if f := g.file(task.Qualify(w, "x")); len(f.Announced) != 0 || !f.Lost {
		t.Errorf("x after the last pilot left: %+v", f)
	}
}
