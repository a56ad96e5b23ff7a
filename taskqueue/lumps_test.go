package taskqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A busy site gets its work in few leases, and its slots never wait for one.
func TestBusySiteGetsWorkInLumps(t *testing.T) {
	g := newGrid(t)
	const slots, bag = 32, 500
	p := &paced{crew: g.addSite("B"), ends: make(map[task.ID]taskqueue.Instant), uploads: make(map[task.LFN]taskqueue.Instant)}
	var tasks []task.Task
	for i := range bag {
		tasks = append(tasks, job(fmt.Sprintf("t[%03d]", i), nil, nil))
	}
	w := g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: tasks})
	leases := make(map[task.LeaseID]bool)
	for step := 0; !g.workflow(w).Finished(); step++ {
		if step > 10*bag {
			t.Fatalf("%d tasks ran", p.ran)
		}
		g.clock = g.clock.Add(time.Second)
		if step%2 == 0 && step < 2*slots { // one after the other, so that tasks end one by one
			p.join(task.PeerID(fmt.Sprint("B", step)), 1)
		}
		p.step(time.Second, 2*slots*time.Second, 0)
		for id := range p.leases {
			leases[id] = true
		}
		if idle := slots - len(p.running); step > 2*slots && idle > 0 && len(p.waiting()) == 0 && bag-p.ran > slots {
			t.Fatalf("after %d tasks %d slots have nothing to do", p.ran, idle)
		}
	}
	if most := bag / 10; len(leases) > most {
		t.Errorf("%d tasks came in %d leases", bag, len(leases))
	}
	g.check()
}

// A site that finds no other with work to spare looks again with the next tick, and with
// none of its Syncs.
func TestSiteWithoutDonorLooksAgain(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 4)
	b.join("peerB", 4)
	b.sync()
	g.tick(time.Second) // nothing is to be had
	var tasks []task.Task
	for i := range 16 {
		tasks = append(tasks, job(fmt.Sprintf("t[%02d]", i), nil, nil))
	}
	g.must(func(t *taskqueue.Turn) error {
		return g.rules.DrainSite(t, "B", true)
	})
	g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: tasks})
	a.sync()
	g.must(func(t *taskqueue.Turn) error {
		return g.rules.DrainSite(t, "B", false)
	})
	b.sync()
	a.sync()
	if len(a.reply.Revoked) > 0 {
		t.Fatal("B looks for work of others with its Sync")
	}
	g.tick(time.Second)
	a.sync()
	if len(a.reply.Revoked) == 0 {
		t.Error("nothing is recalled for B")
	}
	g.check()
}
