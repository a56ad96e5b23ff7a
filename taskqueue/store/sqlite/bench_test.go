package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// submission makes n tasks as a workflow would: two inputs, one output.
func submission(from, n int) ([]task.Task, []taskqueue.TaskState) {
	const flow task.WorkflowID = "w-aaaaaaaaaa"
	tasks, states := make([]task.Task, n), make([]taskqueue.TaskState, n)
	for i := range n {
		number := from + i
		id := task.NewID(flow, fmt.Sprintf("index[%07d]", number))
		input := task.LFN(fmt.Sprintf("%s:part.%07d.fa", flow, number))
		tasks[i] = task.Task{
			ID: id, Argv: []string{"./tools.sh", "index", "in.fa", "out.idx"},
			Inputs:    []task.Input{{LFN: input, Name: "in.fa"}, {LFN: "vo:tools.sh", Name: "tools.sh"}},
			Outputs:   []task.Output{{LFN: input + ".idx", Name: "out.idx"}},
			Resources: task.Resources{Cores: 1, Memory: 200 * task.MiB, Disk: task.GiB},
			Retries:   2, Walltime: 10 * time.Minute,
		}
		states[i] = taskqueue.TaskState{
			ID: id, Seq: uint64(number + 1), State: task.Ready, Generation: 1, Number: 1, Class: 1,
			TaskGraph: taskqueue.TaskGraph{MemoKey: task.Digest{byte(number), byte(number >> 8), 1}}, Changed: time.Unix(1_700_000_000, 0).UTC(),
		}
	}
	return tasks, states
}

// BenchmarkSubmit adds tasks in transactions of 1,000 and of 1; beside it the
// floor: the same descriptions appended to a file that is synced as often.
func BenchmarkSubmit(b *testing.B) {
	for _, size := range []int{1000, 1} {
		b.Run(fmt.Sprintf("sqlite/%d", size), func(b *testing.B) {
			store := open(b)
			defer store.Close()
			added := 0
			for b.Loop() {
				tasks, states := submission(added, size)
				err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Add(tasks, states) })
				if err != nil {
					b.Fatal(err)
				}
				added += size
			}
			b.ReportMetric(float64(added)/b.Elapsed().Seconds(), "tasks/s")
		})
		b.Run(fmt.Sprintf("append+fsync/%d", size), func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			added := 0
			for b.Loop() {
				tasks, _ := submission(added, size)
				text, err := json.Marshal(tasks)
				if err == nil {
					_, err = file.Write(text)
				}
				if err == nil {
					err = file.Sync()
				}
				if err != nil {
					b.Fatal(err)
				}
				added += size
			}
			b.ReportMetric(float64(added)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkGroupCommit updates single tasks from many goroutines.
func BenchmarkGroupCommit(b *testing.B) {
	store := open(b)
	defer store.Close()
	tasks, states := submission(0, 1000)
	if err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Add(tasks, states) }); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1)
			state := states[n%1000]
			state.State, state.Lease = task.Leased, task.LeaseID(n) // what does not change is not written
			err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Save(state) })
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

// BenchmarkQueued works on a queue of 100,000 READY tasks.
func BenchmarkQueued(b *testing.B) {
	const queued, page = 100_000, 1000
	store := open(b)
	defer store.Close()
	for from := 0; from < queued; from += 10_000 {
		tasks, states := submission(from, 10_000)
		if err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Add(tasks, states) }); err != nil {
			b.Fatal(err)
		}
	}
	reads := []struct {
		name string
		read func(tx taskqueue.Tx) error
	}{
		{"ReadyIn/1000", func(tx taskqueue.Tx) error {
			found, err := tx.Tasks().ReadyIn(1, 0, page)
			if len(found) != page {
				b.Fatalf("%d tasks are ready", len(found))
			}
			return err
		}},
		{"ReadyClasses", func(tx taskqueue.Tx) error { _, err := tx.Tasks().ReadyClasses(); return err }},
		{"ReadyBefore", func(tx taskqueue.Tx) error { _, err := tx.Tasks().ReadyBefore(1, 0, queued/2); return err }},
		{"NextBackoff", func(tx taskqueue.Tx) error { _, err := tx.Tasks().NextBackoff(0); return err }},
		{"Describe/1000", func(tx taskqueue.Tx) error {
			_, states := submission(0, page)
			ids := make([]task.ID, page)
			for i, state := range states {
				ids[i] = state.ID
			}
			_, err := tx.Tasks().Describe(ids...)
			return err
		}},
	}
	for _, bench := range reads {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				if err := store.View(context.Background(), bench.read); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Lease/1000", func(b *testing.B) { // hand out a page, take it back
		state := task.Leased
		for b.Loop() {
			err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
				found, err := tx.Tasks().ReadyIn(1, 0, page)
				if state == task.Ready {
					found, err = tx.Tasks().InLease(7)
				}
				if err != nil {
					return err
				}
				for i := range found {
					found[i].State, found[i].Lease = state, 7
				}
				return tx.Tasks().Save(found...)
			})
			if err != nil {
				b.Fatal(err)
			}
			state = task.Ready + task.Leased - state
		}
	})
}

// BenchmarkMemory queues 200,000 tasks and reports by how much the process
// has grown: page caches are bounded, the rest must stay.
func BenchmarkMemory(b *testing.B) {
	const queued = 200_000
	for b.Loop() {
		store := open(b)
		var start, middle int
		for from := 0; from < queued; from += 1000 {
			switch from {
			case 1000:
				start = resident(b)
			case queued / 2:
				middle = resident(b)
			}
			tasks, states := submission(from, 1000)
			if err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Add(tasks, states) }); err != nil {
				b.Fatal(err)
			}
		}
		end := resident(b)
		b.ReportMetric(float64(end-start)/(1<<20), "MiB-grown")
		b.ReportMetric(float64(end-middle)/(1<<20), "MiB-grown-by-2nd-half")
		store.Close()
	}
}

// resident returns the resident memory of this process in bytes.
func resident(b *testing.B) int {
	debug.FreeOSMemory()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(content))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
