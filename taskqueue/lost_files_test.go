package taskqueue_test

import (
	"fmt"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

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
