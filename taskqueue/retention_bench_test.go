package taskqueue_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// BenchmarkRetention has tasks run in 100 workflows, 10 s apart, through a durable queue
// that keeps what is done for 60 s, and compares how large the database gets in the last
// quarter and in the first, and how large the files beside it of the audit log are:
// 100,000 tasks, since fewer are less than what an empty database has, or PILOTAGE_GROWTH
// times 1,000,000; above 1 there are so many times more workflows.
func BenchmarkRetention(b *testing.B) {
	share := shareOfGrowth(b)
	rounds := int(rounds * max(1, share))
	for b.Loop() {
		folder := b.TempDir()
		store, err := sqlite.Open(folder)
		if err != nil {
			b.Fatal(err)
		}
		g := &growth{grid: gridOn(b, store), folder: folder, pilots: 100, tasks: max(1000, int(10_000*min(1, share)))}
		g.rules.Config.Retain.Workflows = time.Minute
		var sizes []int64
		var slowest time.Duration
		g.must(func(t *taskqueue.Turn) error {
			_, err := g.rules.AddSite(t, taskqueue.SiteRecord{Name: "A", SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A"}})
			return err
		})
		g.master = g.register("master", 720*time.Hour)
		g.sync(task.Sync{Census: task.Census{Joined: []task.PilotID{g.master.Pilot}}})
		for round := range rounds {
			s := taskqueue.Submission{Name: fmt.Sprintf("round%d", round)}
			for i := range g.tasks {
				s.Tasks = append(s.Tasks, job(fmt.Sprintf("t[%06d]", i), nil, nil))
			}
			g.mustSubmit(s)
			g.work([]task.PilotID{g.master.Pilot}, g.tasks)
			slowest = max(slowest, g.settle(10*time.Second))
			g.closeAudit(auditlog.In(folder))
			info, err := os.Stat(filepath.Join(folder, sqlite.FileName))
			if err != nil {
				b.Fatal(err)
			}
			sizes = append(sizes, info.Size())
			if (round+1)%(rounds/10) == 0 {
				b.Logf("%d tasks: file %d B, slowest tick %v, %v", g.done, info.Size(), slowest, b.Elapsed())
			}
		}
		first, last := slices.Max(sizes[:rounds/4]), slices.Max(sizes[rounds*3/4:])
		b.ReportMetric(float64(first)/(1<<20), "MiB-first-quarter")
		b.ReportMetric(float64(last)/float64(first), "last/first-quarter")
		b.ReportMetric(slowest.Seconds()*1000, "ms-slowest-tick")
		b.ReportMetric(float64(closedBytes(b, folder))/float64(g.done), "B-audit/task")
		b.ReportMetric(float64(g.done)/b.Elapsed().Seconds(), "tasks/s")
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// settle lets time go by and ticks whenever that is due, as a server does. It returns how
// long the slowest tick took.
func (g *growth) settle(d time.Duration) (slowest time.Duration) {
	for end := g.clock.Add(d); g.clock < end; {
		began := time.Now()
		g.tick(0)
		slowest = max(slowest, time.Since(began))
		g.view(func(t *taskqueue.Turn) error {
			due, err := g.rules.Deadline(t, false)
			g.clock = max(g.clock, due)
			return err
		})
	}
	return slowest
}

// closeAudit moves what is old of the audit log to files, as a server does.
func (g *growth) closeAudit(closed *auditlog.Closed) {
	for {
		var old taskqueue.AuditSegment
		g.view(func(t *taskqueue.Turn) (err error) {
			old, err = g.rules.AuditToClose(t)
			return err
		})
		if len(old.Records) == 0 {
			return
		}
		if err := closed.Add(old); err != nil {
			g.t.Fatalf("%v", err)
		}
		for more := true; more; {
			g.must(func(t *taskqueue.Turn) (err error) {
				more, err = g.rules.DropAudit(t, old.Records[len(old.Records)-1].At)
				return err
			})
		}
	}
}

func closedBytes(b *testing.B, folder string) (bytes int64) {
	b.Helper()
	files, err := os.ReadDir(filepath.Join(folder, auditlog.FolderName))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			b.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}
