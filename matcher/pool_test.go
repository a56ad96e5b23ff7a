package matcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// naivePool is the obvious pool: every task is looked at for every place.
type naivePool struct {
	tasks map[task.ID]*Waiting
	out   map[task.ID]bool // matched and not released
	holds map[task.PilotID]map[task.FilePrint]bool
}

// best returns the task that goes first for a pilot with some resources.
func (n *naivePool) best(pilot Pilot, free task.Resources, prefill bool) *Waiting {
	var best *Waiting
	var bestRank float64
	for _, w := range n.tasks {
		if n.out[w.Task.ID] || !prefill && !free.Fits(w.Task.Resources) {
			continue
		}
		if slices.ContainsFunc(w.Needs, func(p task.FilePrint) bool { return !n.holds[pilot.ID][p] }) {
			continue
		}
		facts := Facts{Pilot: &pilot, Task: w.Task, Files: w.Files, Local: func(k task.FileKey) bool { return n.holds[pilot.ID][k.Print()] }}
		requirement, err := CompileRequirement(w.Task.Require)
		if err != nil || !requirement.Check(facts).Feasible {
			continue
		}
		rank, err := CompileRank(w.Task.Rank)
		if err != nil {
			continue
		}
		value := rank.Of(facts, DefaultRates())
		if best == nil || w.Priority > best.Priority || w.Priority == best.Priority && (value > bestRank || value == bestRank && w.Order < best.Order) {
			best, bestRank = w, value
		}
	}
	return best
}

// TestPoolAgainstNaive: an index changes the cost of a match, not its
// result. Fairness, which lets a task go first that was passed over often, is
// off here: Greedy's own tests hold it.
func TestPoolAgainstNaive(t *testing.T) {
	requires := []string{"", "pilot.cores >= 4", "task.local_inputs >= 1", `task.name != "t3"`}
	ranks := []string{"", "overlap", "rest", "double(pilot.cores) + double(task.local_inputs)", "pilot.free_cores - 2 * pilot.io_bound", `task.bound == "io" ? -pilot.io_bound : 1`}
	rapid.Check(t, func(t *rapid.T) {
		pool := NewPool(NewCompiler(100))
		pool.matrix.passes.limit = 1 << 30
		naive := &naivePool{tasks: make(map[task.ID]*Waiting), out: make(map[task.ID]bool), holds: make(map[task.PilotID]map[task.FilePrint]bool)}
		file := func(label string) FileInfo {
			n := rapid.IntRange(0, 7).Draw(t, label)
			name := task.LFN(fmt.Sprintf("w-aaaaaaaaaa:f%d", n))
			return FileInfo{Key: task.KeyOf(name, task.Digest{}), LFN: name, Size: task.Bytes(1+n%3) * task.GiB, Source: task.Source(1 + n%2)}
		}
		pilots := make([]Pilot, 3)
		for i := range pilots {
			pilots[i] = Pilot{ID: task.PilotID(fmt.Sprintf("p-%d", i)), Slots: 2, Resources: task.Resources{Cores: 2 + 2*i, Memory: task.GiB, Disk: task.GiB}}
			pool.Describe(pilots[i])
			naive.holds[pilots[i].ID] = make(map[task.FilePrint]bool)
		}
		order := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				order++
				w := Waiting{Order: order, Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Task: &task.Task{
					ID: task.ID(fmt.Sprintf("w-aaaaaaaaaa/t%d", order)), Require: rapid.SampledFrom(requires).Draw(t, "require"),
					Rank: rapid.SampledFrom(ranks).Draw(t, "rank"), Resources: task.Resources{Cores: rapid.IntRange(1, 3).Draw(t, "cores")},
					Bound: rapid.SampledFrom([]task.Bound{"", task.IOBound}).Draw(t, "bound"),
				}}
				for range rapid.IntRange(0, 3).Draw(t, "inputs") {
					w.Files = append(w.Files, file("input"))
				}
				if len(w.Files) > 0 && rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
					w.Needs = []task.FilePrint{w.Files[0].Key.Print()}
				}
				pool.Add(w)
				naive.tasks[w.Task.ID] = &w
			},
			"remove": func(t *rapid.T) {
				id := task.ID(fmt.Sprintf("w-aaaaaaaaaa/t%d", rapid.Uint64Range(0, order).Draw(t, "task")))
				pool.Remove(id)
				delete(naive.tasks, id)
				delete(naive.out, id)
			},
			"release": func(t *rapid.T) {
				id := task.ID(fmt.Sprintf("w-aaaaaaaaaa/t%d", rapid.Uint64Range(0, order).Draw(t, "task")))
				pool.Release(id)
				delete(naive.out, id)
			},
			"learn": func(t *rapid.T) {
				p, f := rapid.SampledFrom(pilots).Draw(t, "pilot").ID, file("file").Key.Print()
				if pool.Learn(p, []task.FilePrint{f}, 6-pool.Holds(p)) {
					naive.holds[p][f] = true
				}
			},
			"unlearn": func(t *rapid.T) {
				p, f := rapid.SampledFrom(pilots).Draw(t, "pilot").ID, file("file").Key.Print()
				pool.Unlearn(p, []task.FilePrint{f})
				delete(naive.holds[p], f)
			},
			"describe": func(t *rapid.T) {
				i := rapid.IntRange(0, len(pilots)-1).Draw(t, "pilot")
				if rapid.Bool().Draw(t, "only what runs") {
					pilots[i].Live = Live{FreeCores: rapid.IntRange(0, 3).Draw(t, "free"), IOBound: rapid.IntRange(0, 2).Draw(t, "io-bound")}
				} else {
					pilots[i].Resources.Cores = rapid.IntRange(1, 6).Draw(t, "cores")
				}
				pool.Describe(pilots[i])
			},
			"match": func(t *rapid.T) {
				pilot := rapid.SampledFrom(pilots).Draw(t, "pilot")
				places := Places{Free: pilot.Resources, FreeSlots: rapid.IntRange(0, 2).Draw(t, "slots"), Prefill: rapid.IntRange(0, 2).Draw(t, "prefill")}
				got := pool.Match(pilot.ID, places, Sequential)
				var want []Match
				for _, prefill := range []bool{false, true} {
					for places.FreeSlots > 0 && !prefill || places.Prefill > 0 && prefill {
						w := naive.best(pilot, places.Free, prefill)
						if w == nil {
							break
						}
						naive.out[w.Task.ID] = true
						places.take(w.Task.Resources, prefill)
						want = append(want, Match{w.Task.ID, prefill})
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("pilot %s got %v, want %v", pilot.ID, got, want)
				}
			},
			"": func(t *rapid.T) {
				if pool.Len() != len(naive.tasks) || pool.Ready() != len(naive.tasks)-len(naive.out) {
					t.Fatalf("%d tasks, %d ready; want %d and %d", pool.Len(), pool.Ready(), len(naive.tasks), len(naive.tasks)-len(naive.out))
				}
				live := false
				for _, w := range naive.tasks {
					live = live || strings.Contains(w.Task.Rank, "_bound") || strings.Contains(w.Task.Rank, "free_cores")
				}
				if pool.Live() != live {
					t.Fatalf("the pool says that ranks look at what runs: %v", pool.Live())
				}
				held := 0
				for _, h := range naive.holds {
					held += len(h)
				}
				if pool.Prints() != held {
					t.Fatalf("%d files held, want %d", pool.Prints(), held)
				}
			},
		})
	})
}

// BenchmarkPool: one match for one of 1,500 pilots among 10,000 tasks,
// each pilot holding 20 files that tasks read; wide: all tasks read one more
// file, which all pilots hold.
func BenchmarkPool(b *testing.B) {
	for _, wide := range []bool{false, true} {
		b.Run(fmt.Sprintf("wide=%v", wide), func(b *testing.B) { benchmarkPool(b, wide) })
	}
}

func benchmarkPool(b *testing.B, wide bool) {
	const pilots, tasks, files = 1500, 10_000, 20_000
	pool := NewPool(NewCompiler(100))
	key := func(n int) task.FileKey {
		return task.KeyOf(task.LFN(fmt.Sprintf("w-aaaaaaaaaa:f%d", n)), task.Digest{})
	}
	id := func(n int) task.PilotID { return task.PilotID(fmt.Sprintf("p-%d", n)) }
	put := func(n int) {
		w := Waiting{Order: uint64(n), Task: &task.Task{ID: task.ID(fmt.Sprintf("w-aaaaaaaaaa/t%d", n)), Resources: task.Resources{Cores: 1}}}
		for i := range 2 {
			w.Files = append(w.Files, FileInfo{Key: key((2*n + i) % files), Size: task.GiB, Source: task.SourcePeer})
		}
		if wide {
			w.Files = append(w.Files, FileInfo{Key: "db", Size: 10 * task.GiB, Source: task.SourceSE})
		}
		pool.Add(w)
	}
	for n := range pilots {
		pool.Describe(Pilot{ID: id(n), Slots: 1, Resources: task.Resources{Cores: 1}})
		prints := []task.FilePrint{task.FileKey("db").Print()}
		for i := range 20 {
			prints = append(prints, key((n*13+i*997)%files).Print())
		}
		pool.Learn(id(n), prints, 100)
	}
	for n := range tasks {
		put(n)
	}
	next := tasks
	for b.Loop() {
		for _, m := range pool.Match(id(next%pilots), Places{Free: task.Resources{Cores: 1}, FreeSlots: 1}, Sequential) {
			pool.Remove(m.Task)
			put(next)
			next++
		}
	}
}
