package taskqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// bag is a workflow of independent tasks that each read a shared file and make
// one.
func bag(n int) taskqueue.Submission {
	s := taskqueue.Submission{Name: "bag", Files: []task.File{at("in", 1000, "A")}}
	for i := range n {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("t[%06d]", i), []string{"in"}, []string{fmt.Sprintf("out.%d", i)}))
	}
	return s
}

func benchGrid(b *testing.B) *grid {
	store := mem.New()
	b.Cleanup(func() { _ = store.Close() })
	return gridOn(b, store)
}

func BenchmarkSubmit(b *testing.B) {
	for b.Loop() {
		g := benchGrid(b)
		g.addSite("A")
		g.mustSubmit(bag(20_000))
	}
	b.ReportMetric(float64(b.N)*20_000/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkHandOut measures one hand-out of 10,000 tasks from a queue of
// 50,000.
func BenchmarkHandOut(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		g := benchGrid(b)
		a := g.addSite("A")
		a.join("peer", 2_500) // four tasks for each free slot
		g.mustSubmit(bag(50_000))
		s := a.message()
		b.StartTimer()
		var reply task.SyncReply
		g.must(func(t *taskqueue.Turn) (err error) {
			reply, err = g.rules.Sync(t, s)
			return err
		})
		if len(reply.Leases) != 1 || len(reply.Leases[0].Tasks) != 10_000 {
			b.Fatalf("%d leases", len(reply.Leases))
		}
	}
}

// BenchmarkOutcomes measures Syncs that bring 100 outcomes each.
func BenchmarkOutcomes(b *testing.B) {
	g := benchGrid(b)
	a := g.addSite("A")
	a.join("peer", 5_000)
	done := 0
	for b.Loop() {
		b.StopTimer()
		if len(a.waiting()) < 100 {
			g.mustSubmit(bag(20_000))
			a.sync()
		}
		for _, lt := range a.waiting()[:100] {
			at := a.start(lt.Task.ID, a.members[0])
			o := a.outcome(at)
			o.OK = true
			for _, out := range lt.Task.Outputs {
				o.Outputs = append(o.Outputs, task.Produced{LFN: out.LFN, Size: 1, Digest: content(at.id, out.LFN)})
			}
			a.end(lt.Task.ID, o)
		}
		a.next.Starts = nil
		g.clock = g.clock.Add(100 * time.Millisecond)
		b.StartTimer()
		done += len(a.sync().Acks)
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "outcomes/s")
}
