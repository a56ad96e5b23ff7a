package taskqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// BenchmarkReadyClasses is a Sync that brings 20 outcomes and gets as many tasks, of 100,000
// READY ones in some classes.
func BenchmarkReadyClasses(b *testing.B) {
	const slots = 20
	for _, classes := range []int{10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprint(classes), func(b *testing.B) {
			store, err := sqlite.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			g := &growth{grid: gridOn(b, store)}
			g.addSite("A")
			g.master = g.register("master", 720*time.Hour)
			for part := range 10 {
				s := taskqueue.Submission{Name: fmt.Sprintf("part%d", part)}
				for i := range 10_000 {
					t := job(fmt.Sprintf("t[%06d]", i), nil, nil)
					t.Require = fmt.Sprintf("pilot.cores > %d", (part*10_000+i)%classes)
					s.Tasks = append(s.Tasks, t)
				}
				g.mustSubmit(s)
			}
			var ended []task.Outcome
			for b.Loop() {
				bring := min(slots, len(ended))
				reply := g.syncAs(task.Sync{Outcomes: ended[:bring], Capacity: task.Capacity{Pilots: 1, Slots: slots, FreeSlots: bring, Running: slots - bring}})
				ended = ended[len(reply.Acks):]
				for _, lease := range reply.Leases {
					for _, leased := range lease.Tasks {
						g.counter++
						ended = append(ended, task.Outcome{
							OK: true, Number: leased.Number, Site: "A", Run: time.Minute, Started: epoch, Ended: epoch,
							Attempt: task.AttemptID{Task: leased.Task.ID, Generation: leased.Generation, Lease: lease.ID, Pilot: g.master.Pilot, Counter: g.counter},
						})
					}
				}
				g.clock = g.clock.Add(100 * time.Millisecond)
			}
			b.StopTimer()
			b.ReportMetric(float64(g.counter)/float64(b.N), "tasks/op")
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
