package taskqueue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (c *crew) tryClaim(pilot task.PilotID, expected task.Term, resigned bool) taskqueue.ClaimResult {
	c.t.Helper()
	return c.claim(taskqueue.Claim{Pilot: pilot, Expected: expected, Resigned: resigned})
}

func (c *crew) claim(claim taskqueue.Claim) taskqueue.ClaimResult {
	c.t.Helper()
	claim.Site = c.site
	var result taskqueue.ClaimResult
	c.must(func(t *taskqueue.Turn) (err error) {
		result, err = c.rules.Claim(t, claim)
		return err
	})
	return result
}

func TestMastershipPassesOnlyFromTheSilent(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one := a.join("peer1", 1)
	two := a.join("peer2", 1)
	three := a.join("peer3", 1)
	if a.master != one || a.term.Epoch != 1 {
		t.Fatalf("the first pilot is not master: %+v, term %s", a.master, a.term)
	}
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	a.sync()
	g.clock = g.clock.Add(2 * time.Second)
	if r := a.tryClaim(two.id, a.term, false); r.Granted || !strings.Contains(r.Why, "2s ago") || r.Master.Pilot != one.id || r.Term != a.term {
		t.Errorf("a claim against a living master: %+v", r)
	}
	g.clock = g.clock.Add(2 * time.Second)
	if r := a.tryClaim(two.id, task.Term{}, false); r.Granted {
		t.Errorf("a claim against an unknown term: %+v", r)
	}
	old := a.term
	r := a.tryClaim(two.id, a.term, false)
	if !r.Granted || r.Term.Epoch != 2 || r.Term.Peer != "peer2" || len(r.Leases) != 1 || r.Leases[0].Tasks[0].Task.ID != task.NewID(w, "t") {
		t.Fatalf("a claim after 4 s of silence: %+v", r)
	}
	if again := a.tryClaim(two.id, old, false); !again.Granted || again.Term != r.Term || len(again.Leases) != 1 {
		t.Errorf("the same claim again, its answer lost: %+v", again)
	}
	if late := a.tryClaim(three.id, old, false); late.Granted || late.Term != r.Term {
		t.Errorf("the second claim of the same term: %+v", late)
	}
	_, err := a.trySync()
	var stale *taskqueue.StaleTermError
	if !errors.As(err, &stale) || !errors.Is(err, taskqueue.ErrStaleTerm) || stale.Office != r.Term || stale.Master != two.id {
		t.Errorf("the old master's Sync: %v", err)
	}
	a.master, a.term = two, r.Term
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: two.id, Resigns: true, Term: a.term})
	})
	if r := a.tryClaim(three.id, a.term, false); !r.Granted {
		t.Errorf("a claim after the master resigned: %+v", r)
	}
	history := g.siteRecord("A").History
	if len(history) != 3 || history[0].Why != "first pilot" || history[1].Why != "master "+string(one.id)+" was not heard for 4s" {
		t.Errorf("history %+v", history)
	}
	g.check()
}

// A site lost sight of its master and of the queue, and came to elect the same one
// again under a provisional ballot: only a new term outranks that.
func TestTheMasterInOfficeGetsANewTermOverAProvisionalOne(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one := a.join("peer1", 1)
	a.join("peer2", 1)
	if same := a.claim(taskqueue.Claim{Pilot: one.id, Expected: a.term}); !same.Granted || same.Term != a.term {
		t.Fatalf("who holds the office claims it: %+v", same)
	}
	r := a.claim(taskqueue.Claim{Pilot: one.id, Expected: a.term, Ballot: 2})
	provisional := task.Term{Epoch: a.term.Epoch, Ballot: 2, Peer: one.peer}
	if !r.Granted || !provisional.Less(r.Term) || r.Term.Peer != one.peer {
		t.Errorf("with a provisional ballot: %+v", r)
	}
}

// TestLeavingPilotIsNoMaster: when a whole site goes at once, a pilot may miss
// its master after it has said goodbye itself.
func TestLeavingPilotIsNoMaster(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one, two, three := a.join("peer1", 1), a.join("peer2", 1), a.join("peer3", 1)
	leave := func(m *member, resigns bool) {
		g.must(func(t *taskqueue.Turn) error {
			return g.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: m.id, Resigns: resigns, Term: a.term})
		})
	}
	leave(two, false)
	leave(one, true)
	if r := a.tryClaim(two.id, a.term, true); r.Granted || !strings.Contains(r.Why, "goodbye") {
		t.Errorf("the claim of a pilot that has left: %+v", r)
	}
	if site := g.siteRecord("A"); site.Pilots != 1 {
		t.Errorf("the site has %d pilots, want the one that stays", site.Pilots)
	}
	if r := a.tryClaim(three.id, a.term, true); !r.Granted {
		t.Errorf("the claim of the pilot that stays: %+v", r)
	}
}

// A broken connection shortens the wait for its master, unless that has called
// since, perhaps another server of the queue.
func TestMastershipPassesSoonerFromTheBrokenOff(t *testing.T) {
	for _, test := range []struct {
		name            string
		broken, silence time.Duration // since the last Sync: until the connection broke, and until the claim
		calls           time.Duration // when another server hears the master; 0: none does
		granted         bool
	}{
		{"at once", 100 * time.Millisecond, 200 * time.Millisecond, 0, false},
		{"just before its time", 500 * time.Millisecond, 2499 * time.Millisecond, 0, false},
		{"in time", 500 * time.Millisecond, 2500 * time.Millisecond, 0, true},
		{"heard by another server", 500 * time.Millisecond, 2900 * time.Millisecond, 1200 * time.Millisecond, false},
		{"silent for long", 2900 * time.Millisecond, 3000 * time.Millisecond, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			a.join("peer1", 1)
			two := a.join("peer2", 1)
			a.sync()
			synced := g.clock
			if test.calls > 0 {
				g.clock = synced.Add(test.calls)
				g.must(func(t *taskqueue.Turn) error { return g.rules.Heard(t, "A", a.term) })
			}
			g.clock = synced.Add(test.silence)
			r := a.claim(taskqueue.Claim{Pilot: two.id, Expected: a.term, BrokenOff: synced.Add(test.broken)})
			if r.Granted != test.granted {
				t.Errorf("granted %v: %s", r.Granted, r.Why)
			}
		})
	}
}

func TestProvisionalTermMustBeClaimed(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	a.term.Ballot = 3
	if _, err := a.trySync(); !errors.Is(err, taskqueue.ErrStaleTerm) || !strings.Contains(err.Error(), "claim") {
		t.Errorf("a Sync under a provisional ballot: %v", err)
	}
}

func TestGrants(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	add := func(grant taskqueue.Grant) error {
		return g.update(func(turn *taskqueue.Turn) error { return g.rules.AddGrant(turn, grant) })
	}
	good := taskqueue.Grant{ID: "1", Hash: [32]byte{1}, Role: "pilot", Site: "A"}
	for _, c := range []struct {
		change func(*taskqueue.Grant)
		want   error
	}{
		{func(*taskqueue.Grant) {}, nil},
		{func(*taskqueue.Grant) {}, taskqueue.ErrConflict},
		{func(x *taskqueue.Grant) { x.ID = "" }, taskqueue.ErrInvalid},
		{func(x *taskqueue.Grant) { x.Hash = [32]byte{} }, taskqueue.ErrInvalid},
		{func(x *taskqueue.Grant) { x.Role = "root" }, taskqueue.ErrInvalid},
		{func(x *taskqueue.Grant) { x.Site = "" }, taskqueue.ErrInvalid},
		{func(x *taskqueue.Grant) { x.Role = "submit" }, taskqueue.ErrInvalid},
		{func(x *taskqueue.Grant) { x.ID, x.Site = "2", "Z" }, taskqueue.ErrNotFound},
	} {
		grant := good
		c.change(&grant)
		if err := add(grant); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", grant, err, c.want)
		}
	}
	for id, want := range map[string]error{"1": nil, "9": taskqueue.ErrNotFound} {
		if err := g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.RevokeGrant(turn, id, false)
			return err
		}); !errors.Is(err, want) {
			t.Errorf("revoking %s: %v, want %v", id, err, want)
		}
	}
}

// A later term that the queue has not signed takes no office from a master that is
// heard; once it is silent, whoever claims knows enough.
func TestALaterTermThatIsNotSigned(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	two := a.join("peer2", 1)
	a.sync()
	for _, made := range []task.Term{{Epoch: a.term.Epoch + 1, Peer: "peer2"}, {Epoch: a.term.Epoch, Ballot: 1, Peer: "peer1"}, {Epoch: a.term.Epoch, Peer: "peer2"}} {
		if r := a.tryClaim(two.id, made, true); r.Granted || r.Term != a.term {
			t.Errorf("term %s takes the office of %s: %+v", made, a.term, r)
		}
	}
	g.clock = g.clock.Add(4 * time.Second)
	known := task.Term{Epoch: a.term.Epoch + 1, Peer: "peer2"}
	if r := a.tryClaim(two.id, known, false); !r.Granted || !known.Less(r.Term) {
		t.Errorf("nobody hears the master: %+v", r)
	}
}

// What pilots know and the queue does not, it gave out before it was put back to a
// backup: it numbers terms and leases beyond that, within reason.
func TestNumbersGoOnBeyondWhatPilotsKnow(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one := a.join("peer1", 1)
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	known := task.Term{Epoch: 7, Peer: "peer9"}
	r := a.claim(taskqueue.Claim{Pilot: one.id, Expected: known, Signed: true})
	if !r.Granted || !known.Less(r.Term) || r.Term.Peer != "peer1" {
		t.Fatalf("the master in office knows term %s: %+v", known, r)
	}
	a.term = r.Term
	message := a.message()
	message.Leases = []task.LeaseID{3, 57}
	var reply task.SyncReply
	g.must(func(turn *taskqueue.Turn) (err error) {
		reply, err = a.rules.Sync(turn, message)
		return err
	})
	if len(reply.Unknown) != 2 || len(reply.Leases) != 1 || reply.Leases[0].ID <= 57 {
		t.Errorf("leases up to 57 are known at the site: unknown %v, given %+v", reply.Unknown, reply.Leases)
	}
	far := task.Term{Epoch: 1 << 63, Peer: "peer1"}
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := a.rules.Claim(turn, taskqueue.Claim{Site: "A", Pilot: one.id, Expected: far})
		return err
	})
	if !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("a claim that knows term %s: %v", far, err)
	}
}
