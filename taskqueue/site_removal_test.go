package taskqueue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (g *grid) remove(name task.Site) error {
	return g.update(func(t *taskqueue.Turn) error { return g.rules.RemoveSite(t, name, false) })
}

func (g *grid) siteNames() (names []task.Site) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		all, err := t.Sites().All()
		for i := range all {
			names = append(names, all[i].Name)
		}
		return err
	})
	return names
}

// A site goes when nobody works there and no file would be lost with it; what
// stays can be read and run as before.
func TestRemoveSite(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	b := g.addSite("B")
	m := b.join("peer", 1)
	g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("both", 7, "A", "B")}, Tasks: []task.Task{job("reads", []string{"both"}, nil)}})
	b.sync()
	refusals := func(site task.Site, want string) {
		t.Helper()
		if err := g.remove(site); !errors.Is(err, taskqueue.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("removing %s: %v, want a conflict over %q", site, err, want)
		}
	}
	refusals("B", "live pilots")
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "B", Pilot: m.id})
	})
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RegisterFiles(turn, []task.File{at("sole", 5, "B")}, "")
		return err
	})
	refusals("B", "vo:sole")
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RegisterFiles(turn, []task.File{at("sole", 5, "A")}, "")
		return err
	})
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.AddGrant(turn, taskqueue.Grant{ID: "g", Hash: [32]byte{1}, Role: "pilot", Site: "B"})
	})
	if err := g.remove("B"); err != nil {
		t.Fatal(err)
	}
	if got := g.siteNames(); !slices.Equal(got, []task.Site{"A"}) {
		t.Errorf("sites %v are left", got)
	}
	if f := g.file("vo:sole"); len(f.Replicas) != 1 || f.Replicas[0].Site != "A" {
		t.Errorf("copies %v are left", f.Replicas)
	}
	g.view(func(turn *taskqueue.Turn) error {
		grants, err := turn.Grants().Load("g")
		if err == nil && !grants[0].Revoked {
			t.Error("the pilots' access of a removed site still opens")
		}
		return err
	})
	if err := g.remove("B"); !errors.Is(err, taskqueue.ErrNotFound) {
		t.Errorf("removing it twice: %v", err)
	}
	g.tick(time.Second)
	a.join("other", 1)
	a.sync()
	if done := a.work(); len(done) != 1 {
		t.Errorf("site A ran %v, want the task that B was to run", done)
	}
	a.sync()
	g.check()
}

// A site whose storage element has the only copy of files goes by force: what
// tasks made is made again elsewhere, also for a workflow that was over, and who
// reads an external file waits for a new copy of it.
func TestASiteIsRemovedWithTheOnlyCopyOfFiles(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	m := b.join("peer", 2)
	over := g.mustSubmit(taskqueue.Submission{Name: "over", Outputs: []string{"out"}, Tasks: []task.Task{job("makes", nil, []string{"out"})}})
	b.sync()
	b.work()
	b.sync()
	b.upload(task.Qualify(over, "out"))
	b.sync()
	g.expect(task.Done, task.NewID(over, "makes"))
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "B", Pilot: m.id})
	})
	waits := g.mustSubmit(taskqueue.Submission{Name: "waits", Files: []task.File{at("outside", 7, "B")}, Tasks: []task.Task{job("reads", []string{"outside"}, nil)}})
	g.tick(time.Second)
	g.expect(task.Ready, task.NewID(waits, "reads"))
	if err := g.remove("B"); !errors.Is(err, taskqueue.ErrConflict) || !strings.Contains(err.Error(), "2 files") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("without force: %v", err)
	}
	g.must(func(turn *taskqueue.Turn) error { return g.rules.RemoveSite(turn, "B", true) })
	g.tick(time.Second)
	g.check()
	g.expect(task.Blocked, task.NewID(waits, "reads"))
	a.join("other", 2)
	a.sync()
	if done := a.work(); len(done) != 1 {
		t.Errorf("site A ran %v, want the task whose output is lost", done)
	}
	a.sync()
	g.expect(task.Done, task.NewID(over, "makes"))
	g.check()
}

// Certificates outlive a site; they do not open a new one of its name.
func TestRemovedSitesPilotsStayOut(t *testing.T) {
	g := newGrid(t)
	b := g.addSite("B")
	out, err := b.register("peer", 1)
	if err != nil {
		t.Fatal(err)
	}
	g.must(func(turn *taskqueue.Turn) error {
		pilots, err := turn.Pilots().Load(out.Pilot)
		if err != nil {
			return err
		}
		pilots[0].State, pilots[0].Ends = taskqueue.PilotLeft, turn.Wall.Add(time.Hour)
		return turn.Pilots().Save(pilots[0])
	})
	if err := g.remove("B"); err != nil {
		t.Fatal(err)
	}
	g.addSite("B")
	if denied := g.siteRecord("B").Denied; !slices.Equal(denied, []task.PeerID{"peer"}) {
		t.Errorf("denied are %v", denied)
	}
}

// An attempt that was lost at a site which is no more does not keep others from
// ending its task.
func TestRemovedSiteHadAnAttempt(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	m := a.join("peerA", 1)
	id := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("makes", nil, []string{"x"})}}), "makes")
	a.sync()
	a.start(id, m)
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: m.id})
	})
	g.tick(time.Minute)
	b := g.addSite("B")
	b.join("peerB", 1)
	if err := g.remove("A"); err != nil {
		t.Fatal(err)
	}
	b.sync()
	ran := b.start(id, b.members[0])
	b.sync()
	if verdict := b.deliver(b.succeed(ran)); verdict != task.AckAccepted {
		t.Errorf("the success is answered %v", verdict)
	}
	g.expect(task.Done, id)
	g.check()
}
