package matcher

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// benchSite is a site in the size of 004: every pilot has the inputs of
// perPilot tasks in its cache.
func benchSite(pilots, tasks, perPilot int) *Matrix {
	random := rand.New(rand.NewPCG(1, 2))
	m := NewMatrix(testTerm)
	for class := range uint32(4) {
		m.AddClass(ListClass{No: class, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	}
	bases := make([]float64, tasks)
	for no := range uint64(tasks) {
		bases[no] = -float64(random.IntN(20))
		m.AddTask(MatrixTask{No: no, Class: uint32(no % 4), Version: 1, EntryBase: bases[no], Order: no})
		m.SetReady(no, true)
	}
	for p := range pilots {
		row := Row{Pilot: pilotID(p), Version: ListVersion{testTerm, 1}}
		for class := range uint32(4) {
			row.Classes = append(row.Classes, ClassAnswer{Class: class, Feasible: true})
		}
		for i := range perPilot {
			no := uint64(i*(tasks/perPilot) + random.IntN(tasks/perPilot))
			row.Exceptions = append(row.Exceptions, Exception{No: no, Rank: bases[no] / 2})
		}
		m.SetRow(row)
	}
	return m
}

// reportCPU adds the CPU time of the process, which a loaded machine does not
// stretch as it does the time of the clock.
func reportCPU(b *testing.B) func() {
	cpu := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := cpu()
	return func() { b.ReportMetric(float64(cpu()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}

func fill(m *Matrix, pilots int, places Places) {
	for p := range pilots {
		m.SetPlaces(pilotID(p), places)
	}
}

var onePlace = Places{Free: task.Resources{Cores: 1}, FreeSlots: 1}

// BenchmarkSolveAll fills an empty site.
func BenchmarkSolveAll(b *testing.B) {
	for _, size := range []struct{ pilots, tasks, perPilot int }{
		{1_500, 10_000, 10}, {1_500, 10_000, 100}, {5_000, 50_000, 10},
	} {
		b.Run(fmt.Sprintf("pilots=%d/tasks=%d/exceptions=%d", size.pilots, size.tasks, size.perPilot), func(b *testing.B) {
			m := benchSite(size.pilots, size.tasks, size.perPilot)
			defer reportCPU(b)()
			for b.Loop() {
				fill(m, size.pilots, Places{Free: onePlace.Free, FreeSlots: 1, Prefill: 1})
				assignments := m.Solve(Greedy)
				b.StopTimer()
				if len(assignments) != 2*size.pilots {
					b.Fatalf("%d assignments", len(assignments))
				}
				for _, a := range assignments {
					m.SetReady(a.No, true)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkExact fills an empty site with the largest sum of ranks: with few
// exceptions, with ranks of every pilot for every task, and with pilots that
// refuse some task, which need a hub each.
func BenchmarkExact(b *testing.B) {
	for _, size := range []struct {
		pilots, tasks, perPilot int
		refuse                  bool
	}{
		{1_500, 5_000, 10, false}, {1_500, 5_000, 100, false}, {1_500, 5_000, 5_000, false},
		{1_500, 5_000, 10, true}, {1_500, 1_000, 100, false},
	} {
		b.Run(fmt.Sprintf("pilots=%d/tasks=%d/exceptions=%d/refuse=%v", size.pilots, size.tasks, size.perPilot, size.refuse), func(b *testing.B) {
			m := benchSite(size.pilots, size.tasks, size.perPilot)
			random := rand.New(rand.NewPCG(3, 4))
			for _, row := range m.rows {
				for i := range row.exceptions {
					row.exceptions[i].rank = -20 * random.Float64()
				}
				if size.refuse {
					row.exceptions[0].clause = "no"
				}
			}
			fill(m, size.pilots, onePlace)
			defer reportCPU(b)()
			for b.Loop() {
				if assignments := Exact(m); len(assignments) != min(size.pilots, size.tasks) {
					b.Fatalf("%d assignments", len(assignments))
				}
			}
		})
	}
}

// BenchmarkSolvers fills an empty site of 1,500 pilots from 10,000 tasks, 10
// of which each pilot ranks itself.
func BenchmarkSolvers(b *testing.B) {
	for _, name := range []string{"greedy", "sequential", "choose(2)", "dad(0.5,0)"} {
		b.Run(name, func(b *testing.B) {
			choice, err := ParseSolver(name)
			if err != nil {
				b.Fatal(err)
			}
			m := benchSite(1_500, 10_000, 10)
			solver := choice.Solver(rand.New(rand.NewPCG(5, 6)))
			fill(m, 1_500, onePlace)
			defer reportCPU(b)()
			for b.Loop() {
				if got := solver(m); len(got) != 1_500 {
					b.Fatalf("%d assignments", len(got))
				}
			}
		})
	}
}

// BenchmarkServeSlot serves one slot from a standing matrix: 1,500 pilots,
// 10,000 tasks.
func BenchmarkServeSlot(b *testing.B) {
	for _, perPilot := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("exceptions=%d", perPilot), func(b *testing.B) {
			pilots := 1_500
			if perPilot > 10 {
				pilots = 100 // the others have no place and are not looked at
			}
			m := benchSite(pilots, 10_000, perPilot)
			turn := 0
			for b.Loop() {
				m.SetPlaces(pilotID(turn%pilots), onePlace)
				turn++
				assignments := m.Solve(Greedy)
				if len(assignments) != 1 {
					b.Fatalf("%d assignments", len(assignments))
				}
				m.SetReady(assignments[0].No, true)
			}
		})
	}
}

// benchList is a list of tasks that read two files each, every file read by two.
func benchList(tasks int) ListSnapshot {
	list := ListSnapshot{Version: ListVersion{testTerm, 1}, Rates: DefaultRates()}
	class := task.Class{Require: `pilot.memory >= 500 * MiB && "avx2" in pilot.features`, Resources: task.Resources{Cores: 1}}
	list.Classes = []ListClass{{1, class}}
	for no := range uint64(tasks) {
		entry := &ListEntry{No: no, Version: 1, Class: 1, Task: &task.Task{Require: class.Require, Resources: class.Resources}}
		for i := range 2 {
			entry.Files = append(entry.Files, FileInfo{Key: benchKey((int(no) + i) % tasks), Size: task.GiB})
		}
		list.Entries = append(list.Entries, entry)
	}
	return list
}

func benchKey(i int) task.FileKey { return task.FileKey(fmt.Sprintf("b3:%064x", i)) }

func benchEvaluator(list ListSnapshot) (*Evaluator, map[task.FileKey]bool) {
	cache := make(map[task.FileKey]bool)
	evaluator := NewEvaluator(*samplePilot(), func(key task.FileKey) (task.Bytes, bool) { return 0, cache[key] }, NewCompiler(16))
	evaluator.Reset(list)
	return evaluator, cache
}

// BenchmarkFileChanged is what one file more or less costs a pilot and the
// master, with 10,000 tasks in the list.
func BenchmarkFileChanged(b *testing.B) {
	list := benchList(10_000)
	evaluator, cache := benchEvaluator(list)
	m := NewMatrix(testTerm)
	m.AddClass(list.Classes[0])
	for _, entry := range list.Entries {
		m.AddTask(MatrixTask{No: entry.No, Class: 1, Version: 1})
	}
	m.SetRow(evaluator.Row())
	turn := 0
	for b.Loop() {
		key := benchKey(turn % 10_000)
		turn++
		cache[key] = !cache[key]
		if err := m.UpdateRow(evaluator.FilesChanged(key)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRow ranks a whole list of 10,000 tasks with 100 files in the cache.
func BenchmarkRow(b *testing.B) {
	evaluator, cache := benchEvaluator(benchList(10_000))
	for i := range 100 {
		cache[benchKey(i*97)] = true
	}
	for b.Loop() {
		if row := evaluator.Row(); len(row.Exceptions) != 200 {
			b.Fatalf("%d exceptions", len(row.Exceptions))
		}
	}
}

// BenchmarkFollower is the memory of a pilot's list beside its entries (see B/op).
func BenchmarkFollower(b *testing.B) {
	list := benchList(10_000)
	first, _ := benchEvaluator(list)
	compiler := first.compiler
	b.ReportAllocs()
	for b.Loop() {
		evaluator := NewEvaluator(first.pilot, first.cached, compiler)
		evaluator.Reset(list)
	}
}
