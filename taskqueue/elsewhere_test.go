package taskqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// lone submits one task with two retries.
func (g *grid) lone() task.ID {
	return task.NewID(g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, nil)}}), "t")
}

// failAt has the task fail at a pilot, and lets the backoff pass.
func (c *crew) failAt(m *member, id task.ID, kind task.FailureKind) {
	c.sync()
	c.end(id, c.fail(c.start(id, m), kind))
	c.sync()
	c.tick(2 * time.Minute)
	c.sync()
}

// avoids is what the task's hand-out says of nodes.
func (c *crew) avoids(id task.ID) []string {
	for _, tasks := range c.leases {
		if leased, here := tasks[id]; here {
			return leased.Avoid
		}
	}
	c.t.Fatalf("%s is not at the site", id)
	return nil
}

// A hand-out names the nodes at which its task has failed, by their hosts and each once.
// A node that storage does not answer may be the only one.
func TestAHandOutNamesNodesToAvoid(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	var at []*member
	for i, host := range []string{"good", "bad", "bad", "worse"} {
		a.host = host
		at = append(at, a.join(task.PeerID(fmt.Sprint("peer", i)), 1))
	}
	id := g.lone()
	a.failAt(at[0], id, task.StorageFailed)
	a.failAt(at[1], id, task.PayloadFailed)
	a.failAt(at[2], id, task.PilotFailed)
	if got := a.avoids(id); !slices.Equal(got, []string{"bad", "good"}) {
		t.Errorf("avoids %v, want bad and good", got)
	}
	a.failAt(at[3], id, task.PayloadFailed)
	if got := a.avoids(id); !slices.Equal(got, []string{"bad", "good", "worse"}) {
		t.Errorf("avoids %v, want bad, good and worse", got)
	}
}

// One node alone does not fail a task for good while another could run it, but
// there is an end to that; with nothing else there, retries are what the task
// says.
func TestOneNodeAloneDoesNotFailATask(t *testing.T) {
	extra := taskqueue.DefaultConfig().Retry.SecondOpinion
	for _, c := range []struct {
		other string // host of a second pilot
		more  int    // failures beyond the retries that it takes
	}{{"other", extra}, {"bad", 0}} {
		g := newGrid(t)
		a := g.addSite("A")
		a.host = "bad"
		bad := a.join("peer0", 1)
		a.host = c.other
		a.join("peer1", 1)
		id := g.lone()
		for range 3 + c.more { // two retries
			if s := g.state(id).State; s == task.Failed {
				t.Fatalf("other pilot at %s: FAILED after %d failures", c.other, g.state(id).Failures)
			}
			a.failAt(bad, id, task.PayloadFailed)
		}
		g.expect(task.Failed, id)
		g.check()
	}
}

// Two nodes decide.
func TestTwoNodesFailATask(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	var at []*member
	for i := range 3 {
		a.host = fmt.Sprint("host", i)
		at = append(at, a.join(task.PeerID(fmt.Sprint("peer", i)), 1))
	}
	id := g.lone()
	for _, m := range []*member{at[0], at[0], at[1]} {
		a.failAt(m, id, task.PayloadFailed)
	}
	g.expect(task.Failed, id)
}

// Pilots of one node that vanish with a task do not have it put aside while
// another node could run it, but there is an end to that too.
func TestPilotsOfOneNodeDoNotQuarantine(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.host = "good"
	a.join("master", 1)
	a.host = "bad"
	id := g.lone()
	a.sync()
	for i := range taskqueue.DefaultConfig().Retry.QuarantineMost {
		if s := g.state(id).State; s != task.Leased {
			t.Fatalf("after %d losses: %s", i, s)
		}
		a.lose(id, i)
	}
	g.expect(task.Quarantined, id)
	g.check()
}

// Faults of pilots and of storage elements are counted apart.
func TestFaultsAreCountedApart(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 1)
	id := g.lone()
	for range 15 { // more than faults of pilots are forgiven
		a.failAt(a.members[0], id, task.StorageFailed)
	}
	a.failAt(a.members[0], id, task.PilotFailed)
	if s := g.state(id); s.Failures != 0 || s.PilotFaults != 1 || s.StorageFaults != 15 {
		t.Errorf("%d failures, %d faults of pilots, %d of storage; want 0, 1 and 15", s.Failures, s.PilotFaults, s.StorageFaults)
	}
}

// A task that all nodes of a site have failed goes to another site first, if that has a
// node for it: what one pilot's account cannot read, another's may. When nobody there has
// taken it for long, the site has it again.
func TestAnotherSiteGetsTheNextTurn(t *testing.T) {
	for _, c := range []struct {
		name string
		kind task.FailureKind
	}{{"storage", task.StorageFailed}, {"pilot", task.PilotFailed}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGrid(t)
			a, b := g.addSite("A"), g.addSite("B")
			a.host = "alone"
			only := a.join("peerA", 2)
			id := g.lone()
			a.sync()
			a.end(id, a.fail(a.start(id, only), c.kind))
			a.sync()
			b.join("peerB", 2)
			behind := g.lone()
			g.tick(3 * time.Second) // the backoff
			a.sync()
			if s := g.state(id); s.State == task.Leased {
				t.Errorf("after a failure at its only node site A has the task again, before site B")
			}
			g.expect(task.Leased, behind) // what is behind it does not wait
			g.view(func(turn *taskqueue.Turn) error {
				e, err := g.rules.Explain(turn, id)
				if err == nil && !strings.Contains(e.Sites[0].Why, "site B, as it has failed at all nodes here") {
					t.Errorf("site A %s", e.Sites[0].Why)
				}
				return err
			})
			b.sync()
			if s := g.state(id); s.State != task.Leased || s.Site != "B" {
				t.Fatalf("the task is %s at %q, want LEASED at B", s.State, s.Site)
			}
			b.end(id, b.fail(b.start(id, b.members[0]), c.kind))
			b.sync()
			g.tick(time.Minute)
			a.sync()
			if s := g.state(id); s.State != task.Leased || s.Site != "A" {
				t.Errorf("after a failure at both sites it is %s at %q, want LEASED at A", s.State, s.Site)
			}
			g.check()
		})
	}
}

// Where the queue matches, a task that has failed goes to another node first as
// well, and back when it has waited long enough for one.
func TestQueueMatchesRetriesElsewhere(t *testing.T) {
	wait := taskqueue.DefaultConfig().HandOut.ElsewhereWait
	for _, other := range []bool{true, false} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(taskqueue.ModeIsolated))
		a, b := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
		id := d.lone()
		d.maker.Changed(&d.effects)
		if got := a.pull(); !slices.Equal(got, []task.ID{id}) {
			t.Fatalf("the first pilot got %v", got)
		}
		b.pull()
		a.finish(id)
		a.news.Outcomes[0].OK, a.news.Outcomes[0].Failure = false, task.PayloadFailed
		a.pull()
		d.tick(5 * time.Second) // the backoff
		if a.pull(); len(a.reply.Leases) > 0 {
			t.Errorf("the node at which it failed got %v again", a.reply.Leases)
		}
		if other {
			if got := b.pull(); !slices.Equal(got, []task.ID{id}) {
				t.Errorf("the other node got %v", got)
			}
			continue
		}
		d.tick(wait)
		if a.pull(); len(a.reply.Leases) != 1 {
			t.Errorf("after %s without another node it got %v", wait, a.reply.Leases)
		}
	}
}

// Where the queue matches, a task that has failed is not kept for another node whose pilot
// takes no work, or has no room for it.
func TestQueueMatchesRetriesAtOnceWhereNoOtherMayRun(t *testing.T) {
	for name, hinder := range map[string]func(*desk, *solo){
		"drained": func(d *desk, b *solo) {
			d.commit(func(turn *taskqueue.Turn) error { return d.rules.DrainPilot(turn, b.id) })
		},
		"stopped": func(_ *desk, b *solo) { b.stopped = "its own policy declines" },
		"small": func(d *desk, b *solo) {
			d.commit(func(turn *taskqueue.Turn) error {
				found, err := turn.Pilots().Load(b.id)
				if err != nil {
					return err
				}
				found[0].Resources = task.Resources{}
				return turn.Pilots().Save(found[0])
			})
		},
	} {
		for _, late := range []bool{false, true} {
			d := newDesk(newGrid(t))
			d.addSite("A", inMode(taskqueue.ModeIsolated))
			a, b := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
			id := d.lone()
			d.maker.Changed(&d.effects)
			if got := a.pull(); !slices.Equal(got, []task.ID{id}) {
				t.Fatalf("the first pilot got %v", got)
			}
			if !late {
				hinder(d, b)
			}
			b.pull()
			a.finish(id)
			a.news.Outcomes[0].OK, a.news.Outcomes[0].Failure = false, task.PayloadFailed
			a.pull()
			d.tick(5 * time.Second) // the backoff
			if late {
				if a.pull(); len(a.reply.Leases) > 0 {
					t.Fatalf("%s: the pilot that failed it got %v, beside another", name, a.reply.Leases)
				}
				hinder(d, b)
				b.pull()
			}
			if a.pull(); len(a.reply.Leases) != 1 {
				t.Errorf("%s, late %v: the only pilot that may run it got %v", name, late, a.reply.Leases)
			}
		}
	}
}

// Where the queue matches, a task that its site's only node has failed goes to another site
// first, too.
func TestQueueMatchesRetriesAtAnotherSite(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	d.addSite("B", inMode(taskqueue.ModeIsolated))
	a := d.solo("A", "p1", 1)
	id := d.lone()
	d.maker.Changed(&d.effects)
	if got := a.pull(); !slices.Equal(got, []task.ID{id}) {
		t.Fatalf("the first pilot got %v", got)
	}
	b := d.solo("B", "p2", 1)
	b.pull()
	a.finish(id)
	a.news.Outcomes[0].OK, a.news.Outcomes[0].Failure = false, task.StorageFailed
	a.pull()
	d.tick(5 * time.Second) // the backoff
	if a.pull(); len(a.reply.Leases) > 0 {
		t.Errorf("the site that failed it got %v again", a.reply.Leases)
	}
	if got := b.pull(); !slices.Equal(got, []task.ID{id}) {
		t.Errorf("the other site got %v", got)
	}
}
