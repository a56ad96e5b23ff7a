package taskqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// BenchmarkBusySite measures a Sync with one start and one outcome, of a site
// with 200 slots in a durable queue of 30,000 tasks: alone, then as one of 100
// sites, whose cost in times of the first is x-alone.
func BenchmarkBusySite(b *testing.B) {
	alone := 0.0
	for _, sites := range []int{1, 100} {
		b.Run(fmt.Sprintf("sites=%d", sites), func(b *testing.B) {
			store, err := sqlite.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			g := gridOn(b, store)
			a := busySites(g, sites)
			for range 300 { // until its run times are known and its lead is full
				a.turnOver()
				a.sync()
			}
			for b.Loop() {
				b.StopTimer()
				a.turnOver()
				b.StartTimer()
				a.sync()
			}
			cost := b.Elapsed().Seconds() / float64(b.N)
			if sites == 1 {
				alone = cost
			} else if alone > 0 {
				b.ReportMetric(cost/alone, "x-alone")
			}
		})
	}
}

// busySites makes sites with work for all, of which the first is played.
func busySites(g *grid, sites int) *crew {
	var first *crew
	for i := range sites {
		c := g.addSite(task.Site(fmt.Sprintf("S%03d", i)))
		c.join(task.PeerID("peer-"+string(c.site)), 200)
		if i == 0 {
			first = c
		}
	}
	for part := range 30 {
		s := taskqueue.Submission{Name: fmt.Sprintf("bag%d", part)}
		for i := range 1000 {
			s.Tasks = append(s.Tasks, job(fmt.Sprintf("t[%06d]", i), nil, nil))
		}
		g.mustSubmit(s)
	}
	first.sync()
	for _, lt := range first.waiting()[:200] {
		first.start(lt.Task.ID, first.members[0])
	}
	first.sync()
	return first
}

// turnOver ends one task and starts the next.
func (c *crew) turnOver() {
	for id, a := range c.running { // any one
		o := c.succeed(a)
		o.Run = 198 * time.Second
		c.end(id, o)
		break
	}
	if waiting := c.waiting(); len(waiting) > 0 {
		c.start(waiting[0].Task.ID, c.members[0])
	}
	c.clock = c.clock.Add(50 * time.Millisecond)
}
