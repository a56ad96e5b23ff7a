package taskqueue_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// BenchmarkSubmitFiles submits 200,000 tasks that read two files and make one, as
// four workflows in parts of 1,000, to a queue on disk.
func BenchmarkSubmitFiles(b *testing.B) {
	const flows, tasks, part = 4, 50_000, 1000
	for b.Loop() {
		folder := b.TempDir()
		store, err := sqlite.Open(folder)
		if err != nil {
			b.Fatal(err)
		}
		g := gridOn(b, store)
		g.addSite("A")
		before := processorTime(b)
		for from := 0; from < tasks; from += part {
			for flow := range flows {
				s := taskqueue.Submission{Name: fmt.Sprintf("flow%d", flow), Key: fmt.Sprintf("key%d", flow), Part: from / part, More: from+part < tasks}
				if from == 0 {
					s.Files = []task.File{at(fmt.Sprintf("in%d", flow), 1000, "A")}
				}
				for i := from; i < from+part; i++ {
					read := []string{fmt.Sprintf("in%d", flow)}
					if i%part > 0 {
						read = append(read, fmt.Sprintf("out.%d", i-1))
					}
					s.Tasks = append(s.Tasks, job(fmt.Sprintf("t[%06d]", i), read, []string{fmt.Sprintf("out.%d", i)}))
				}
				g.mustSubmit(s)
			}
		}
		b.ReportMetric((processorTime(b) - before).Seconds(), "cpu-s")
		var size int64
		files, _ := filepath.Glob(filepath.Join(folder, "queue.db*"))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				size += info.Size()
			}
		}
		b.ReportMetric(float64(size)/(flows*tasks), "B/task")
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSubmitExtremes submits what a queue has to take although few would: all tasks
// of one layer read all files of the one before, all files are final outputs, and tasks
// that wait for each other in one circle. Others wait meanwhile.
func BenchmarkSubmitExtremes(b *testing.B) {
	name := func(kind string, i int) string { return fmt.Sprintf("%s%06d", kind, i) }
	for _, extreme := range []struct {
		name string
		make func() taskqueue.Submission
	}{
		{"400 readers of 400 files", func() (s taskqueue.Submission) {
			var made []string
			for i := range 400 {
				made = append(made, name("f", i))
				s.Tasks = append(s.Tasks, job(name("make", i), nil, made[i:]))
			}
			for i := range 400 {
				s.Tasks = append(s.Tasks, job(name("read", i), made, nil))
			}
			return s
		}},
		{"100,000 outputs", func() (s taskqueue.Submission) {
			s.More = true
			for i := range 100_000 {
				s.Outputs = append(s.Outputs, name("f", i))
			}
			return s
		}},
		{"a circle of 100,000", func() (s taskqueue.Submission) {
			for i := range 100_000 {
				s.Tasks = append(s.Tasks, job(name("t", i), []string{name("f", i)}, []string{name("f", (i+1)%100_000)}))
			}
			return s
		}},
	} {
		b.Run(extreme.name, func(b *testing.B) {
			for b.Loop() {
				store, err := sqlite.Open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				g := gridOn(b, store)
				g.addSite("A")
				s := extreme.make()
				s.Name, s.Key = "extreme", "key"
				_, _ = g.submit(s) // the circle is refused
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
