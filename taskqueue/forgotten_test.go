package taskqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// kept counts the records that the past may leave behind.
type kept struct{ classes, pilots, denied, drain, silenced int }

func (g *grid) kept() (n kept) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		classes, err := t.Files().Classes()
		if err != nil {
			return err
		}
		pilots, err := t.Pilots().OfSite("")
		if err != nil {
			return err
		}
		n.classes, n.pilots = len(classes), len(pilots)
		sites, err := t.Sites().All()
		for i := range sites {
			n.denied += len(sites[i].Denied)
			n.drain += len(sites[i].Drain)
			n.silenced += len(sites[i].Silenced)
		}
		return err
	})
	return n
}

// unlike returns bare tasks of which each has requirements of its own.
func unlike(n int) (tasks []task.Task) {
	for i := range n {
		t := job(fmt.Sprintf("t%d", i), nil, nil)
		t.Require = fmt.Sprintf("pilot.cores > %d", i)
		tasks = append(tasks, t)
	}
	return tasks
}

// pass lets time go by while the site's master is heard.
func (c *crew) pass(d time.Duration) {
	c.t.Helper()
	for range d / time.Minute {
		c.tick(time.Minute - time.Second)
		c.sync()
		c.tick(time.Second)
	}
}

// lead makes a new pilot the master of a site where nobody else lives.
func (c *crew) lead(peer task.PeerID, ends time.Duration) *member {
	c.t.Helper()
	m := &member{id: c.enlist(peer, ends), peer: peer, slots: 300}
	c.members, c.master, c.term = []*member{m}, m, c.siteRecord(c.site).Term
	c.sync()
	return m
}

// TestQueueShrinksToWhatIsThere: after work of many classes, and pilots that
// left, died, were revoked or fell silent with their site, a day later the queue
// holds as much as before.
func TestQueueShrinksToWhatIsThere(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.lead("master", 1000*time.Hour)
	before := g.kept()
	for round := range 5 {
		a.next.Departed = nil
		for i := range 40 {
			id := a.enlist(task.PeerID(fmt.Sprintf("peer%d-%d", round, i)), 2*time.Hour)
			switch i % 4 {
			case 0:
				g.must(func(turn *taskqueue.Turn) error {
					return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: id})
				})
			case 1:
				g.must(func(turn *taskqueue.Turn) error { return g.rules.Deny(turn, string(id)) })
			case 2:
				a.next.Departed = append(a.next.Departed, task.Departure{Pilot: id, Dead: true})
			default:
				g.must(func(turn *taskqueue.Turn) error { return g.rules.DrainPilot(turn, id) })
			}
		}
		b.lead(task.PeerID(fmt.Sprintf("other%d", round)), 2*time.Hour)
		g.mustSubmit(taskqueue.Submission{Name: "unlike", Tasks: unlike(50)})
		a.sync()
		a.work()
		a.sync()
		a.pass(20 * time.Minute) // site B falls silent
	}
	if n := g.kept(); n.pilots < before.pilots+200 || n.denied != 50 || n.silenced == 0 {
		t.Errorf("of those that were here just now the queue knows %+v", n)
	}
	a.pass(28 * time.Hour)
	if n := g.kept(); n != before {
		t.Errorf("the queue keeps %+v, want %+v as before the work", n, before)
	}
	g.check()
}

// TestLateOutcomeOfAForgottenPilot: what a pilot that died has run counts until
// nobody can be expected to bring it any more.
func TestLateOutcomeOfAForgottenPilot(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.lead("master", 1000*time.Hour)
	var ends []task.Outcome
	var ids []task.ID
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, nil), job("two", nil, nil)}})
	m := &member{id: a.enlist("gone", 2*time.Hour), peer: "gone", slots: 1}
	a.sync()
	for _, name := range []string{"one", "two"} {
		id := task.NewID(w, name)
		ids = append(ids, id)
		ends = append(ends, a.succeed(a.start(id, m)))
	}
	a.next.Departed = []task.Departure{{Pilot: m.id, Dead: true}}
	a.pass(24 * time.Hour)
	a.end(ids[0], ends[0])
	if reply := a.sync(); len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckAccepted {
		t.Errorf("a day after its pilot's death an outcome is answered %+v", reply.Acks)
	}
	a.pass(2 * time.Hour)
	a.end(ids[1], ends[1])
	if reply := a.sync(); len(reply.Acks) != 1 || reply.Acks[0].Verdict != task.AckUnknown {
		t.Errorf("of a forgotten pilot it is answered %+v", reply.Acks)
	}
	g.check()
}

// TestRevocationLastsAsLongAsTheCertificate: also when the pilot declared an
// earlier end later, and gone with the site when that was removed.
func TestRevocationLastsAsLongAsTheCertificate(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.lead("master", 1000*time.Hour)
	id := a.enlist("bad", 100*time.Hour)
	a.enlist("bad", time.Hour)
	a.enlist("former", 100*time.Hour)
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Deny(turn, string(id)) })
	refused := func() bool {
		_, err := a.register("bad", 1)
		return errors.Is(err, taskqueue.ErrRefused)
	}
	a.pass(100 * time.Hour)
	if !refused() {
		t.Error("a revoked pilot is let in while its certificate is valid")
	}
	a.pass(2 * time.Hour)
	if refused() {
		t.Error("a peer whose certificate has ended is refused")
	}
	g.check()
}

// TestPartsWaitLongerThanTheirClasses: bare tasks of a part are handed out,
// although the class that they had is forgotten when the last part comes.
func TestPartsWaitLongerThanTheirClasses(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.lead("master", 1000*time.Hour)
	first := taskqueue.Submission{Name: "w", Key: "k", Tasks: unlike(3), More: true}
	w := g.mustSubmit(first)
	a.pass(10 * time.Minute)
	if n := g.kept(); n.classes != 0 {
		t.Errorf("%d classes without READY tasks are kept", n.classes)
	}
	last := taskqueue.Submission{Name: "w", Workflow: w, Part: 1, Tasks: []task.Task{job("last", nil, nil)}}
	g.mustSubmit(last)
	a.sync()
	if held := a.held(); len(held) != 4 {
		t.Errorf("handed out: %v", held)
	}
	g.check()
}

// TestOnlyThoseOfASilenceComeBack: a site that is heard again has the pilots
// that fell silent with it, not those of earlier days.
func TestOnlyThoseOfASilenceComeBack(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	m := a.lead("master", 1000*time.Hour)
	old := a.enlist("old", time.Hour)
	g.tick(11 * time.Minute)
	a.sync()
	if site := g.siteRecord("A"); site.Pilots != 2 {
		t.Errorf("the site is back with %d pilots", site.Pilots)
	}
	a.next.Departed = []task.Departure{{Pilot: old, Dead: true, Reason: "its site fell silent"}}
	a.sync()
	g.tick(11 * time.Minute)
	a.sync()
	if site := g.siteRecord("A"); site.Pilots != 1 || g.pilot(m.id).State != taskqueue.PilotAlive || g.pilot(old).State != taskqueue.PilotDead {
		t.Errorf("after a second silence the site has %d pilots; the old one is %s", site.Pilots, g.pilot(old).State)
	}
	g.check()
}

// A pilot that the queue does not know is asked to leave for a while: it may be
// gone, and only its outcomes come yet.
func TestStrangersAreForgotten(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	id := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}}), "t")
	a.sync()
	ran := a.start(id, a.members[0])
	gone := task.PilotID("p-zzzzzzzz")
	a.next.Starts = nil
	ran.id.Pilot = gone
	a.ended = []task.Outcome{a.succeed(ran)}
	if reply := a.sync(); !slices.Equal(reply.Drain, []task.PilotID{gone}) {
		t.Errorf("to leave: %v", reply.Drain)
	}
	a.tick(time.Hour)
	if reply := a.sync(); len(reply.Drain) != 0 {
		t.Errorf("to leave after an hour: %v", reply.Drain)
	}
	if site := g.siteRecord("A"); len(site.Strangers) != 0 {
		t.Errorf("%v are remembered for ever", site.Strangers)
	}
}
