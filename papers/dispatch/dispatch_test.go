package dispatch

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

func drawFiles(t *rapid.T) []File {
	file := rapid.Map(rapid.IntRange(0, 7), func(i int) File { return File{task.FileKey(fmt.Sprint("f", i)), task.Bytes(i*i - 1)} })
	return rapid.SliceOfNDistinct(file, 0, 4, func(f File) task.FileKey { return f.Key }).Draw(t, "files")
}

// paperScheduler is 001, section 3, read aloud, with a reference table per site.
type paperScheduler struct {
	policy Policy
	random *rand.Rand
	tasks  []Task // unscheduled, oldest first
	tables map[string]*referenceTable
}

func (p *paperScheduler) size(file File) float64 {
	if p.policy.Metric == Locality {
		return 10e6 + 20*max(0, float64(file.Size)) // nanoseconds
	}
	if p.policy.Bytes {
		return max(1, float64(file.Size))
	}
	return 1
}

func (p *paperScheduler) weights(table *referenceTable) []float64 {
	totalRef, totalRest := 0.0, 0.0
	overlap, missing, ref := make([]float64, len(p.tasks)), make([]float64, len(p.tasks)), make([]float64, len(p.tasks))
	for i, t := range p.tasks {
		for _, file := range t.Files {
			if table.Has(file.Key) {
				overlap[i] += p.size(file)
				ref[i] += p.size(file) * float64(table.References(file.Key))
			} else {
				missing[i] += p.size(file)
			}
		}
		totalRef += ref[i]
		if missing[i] > 0 {
			totalRest += 1 / missing[i]
		}
	}
	weights := make([]float64, len(p.tasks))
	for i := range p.tasks {
		share := 0.0
		if totalRef > 0 {
			share = ref[i] / totalRef
		}
		switch {
		case p.policy.Metric == Overlap:
			weights[i] = overlap[i]
		case p.policy.Metric == Locality:
			weights[i] = overlap[i] - .1*missing[i]
		case missing[i] == 0:
			weights[i] = matcher.NothingMissing
		case p.policy.Metric == Rest:
			weights[i] = 1 / missing[i]
		case p.policy.Metric == Combined:
			weights[i] = share + 1/missing[i]/totalRest
		default:
			weights[i] = share + totalRest*missing[i]
		}
	}
	return weights
}

func (p *paperScheduler) next(r Request) (uint64, bool) {
	table := p.tables[r.Site]
	table.Evict(r.Evicted...)
	weights := p.weights(table)
	var order []int
	for i, t := range p.tasks {
		if r.accepts(t.No) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case weights[i] > weights[j]:
			return -1
		case weights[i] < weights[j]:
			return 1
		}
		return 0
	})
	if len(order) == 0 {
		return 0, false
	}
	order = order[:min(p.policy.N, len(order))]
	chosen := order[0]
	if p.policy.N > 1 {
		var best []float64
		for _, i := range order {
			best = append(best, weights[i])
		}
		chosen = order[matcher.Draw(best, p.random)]
	}
	t := p.tasks[chosen]
	var files []matcher.FileInfo
	for _, file := range t.Files {
		files = append(files, matcher.FileInfo{Key: file.Key})
	}
	table.Assign(files)
	p.tasks = slices.Delete(slices.Clone(p.tasks), chosen, chosen+1)
	return t.No, true
}

// TestWorkerCentricIs001 (section 3) compares every choice with the paper's
// algorithm, for all metrics, with evictions and ineligible tasks.
func TestWorkerCentricIs001(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{Metric: Metric(rapid.IntRange(0, 4).Draw(t, "metric")), Bytes: rapid.Bool().Draw(t, "bytes"), N: rapid.IntRange(1, 3).Draw(t, "n")}
		clever := NewWorkerCentric(policy, rand.New(rand.NewPCG(1, 2)))
		paper := &paperScheduler{policy: policy, random: rand.New(rand.NewPCG(1, 2)), tables: map[string]*referenceTable{"a": {}, "b": {}}}
		next := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				added := Task{next, drawFiles(t)}
				next++
				clever.Add(added)
				paper.tasks = append(paper.tasks, added)
			},
			"ask": func(t *rapid.T) {
				r := Request{Site: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "site")}
				for _, file := range drawFiles(t) {
					r.Evicted = append(r.Evicted, file.Key)
				}
				if refused := uint64(rapid.IntRange(0, 3).Draw(t, "refused")); refused > 0 {
					r.Eligible = func(no uint64) bool { return no%4 != refused }
				}
				no, found := clever.Next(r)
				if wantNo, want := paper.next(r); no != wantNo || found != want {
					t.Fatalf("%v gives %d %v, the paper %d %v", policy, no, found, wantNo, want)
				}
				if clever.Waiting() != len(paper.tasks) {
					t.Fatalf("%d wait, want %d", clever.Waiting(), len(paper.tasks))
				}
			},
		})
	})
}

// TestPiggybackBound (001, section 3.4): the names that a request carries are
// at most as many as a task reads; with the 181 files and 4 bytes a name of
// the paper that is 724 bytes.
func TestPiggybackBound(t *testing.T) {
	const files, nameBytes, bound = 181, 4, 724
	w := NewWorkerCentric(Policy{Metric: Rest, N: 1}, nil)
	for no := range uint64(3) {
		added := Task{No: no}
		for i := range files {
			added.Files = append(added.Files, File{Key: task.FileKey(fmt.Sprint(no, "-", i))})
		}
		w.Add(added)
	}
	var held []task.FileKey // the site has room for one task's files
	for no := range uint64(3) {
		got, found := w.Next(Request{Site: "s", Evicted: held})
		if !found || got != no || len(held)*nameBytes > bound {
			t.Fatalf("task %d %v with %d names", got, found, len(held))
		}
		held = nil
		for i := range files {
			held = append(held, task.FileKey(fmt.Sprint(no, "-", i)))
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for _, name := range []string{"overlap", "rest", "combined", "combined_printed", "rest_bytes", "combined.2", "rest_bytes.7", "locality", "locality.2"} {
		if policy, err := ParsePolicy(name); err != nil || policy.String() != name {
			t.Errorf("%s is %v, %v", name, policy, err)
		}
	}
	for _, name := range []string{"", "rests", "rest.0", "rest.", "rest.x", "rest.2_bytes", ".2", "locality_bytes"} {
		if policy, err := ParsePolicy(name); err == nil {
			t.Errorf("%q is %v", name, policy)
		}
	}
}

func TestWorkqueueIsFirstInFirstOut(t *testing.T) {
	var q Workqueue
	for no := range uint64(4) {
		q.Add(Task{No: no})
	}
	var got []uint64
	odd := func(no uint64) bool { return no%2 == 1 }
	for _, r := range []Request{{}, {Eligible: odd}, {}, {Eligible: odd}, {}} {
		if no, found := q.Next(r); found {
			got = append(got, no)
		}
	}
	if want := []uint64{0, 1, 2, 3}; !slices.Equal(got, want) || q.Waiting() != 0 {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestStorageAffinityEndsEverything lets workers run, end and leave at random.
func TestStorageAffinityEndsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := []Worker{{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"c1", "c"}}
		s := NewStorageAffinity(workers, rapid.Bool().Draw(t, "bytes"))
		tasks := make([]Task, rapid.IntRange(0, 12).Draw(t, "tasks"))
		for i := range tasks {
			tasks[i] = Task{uint64(i), drawFiles(t)}
		}
		s.Add(tasks...)
		running := make(map[string]uint64)
		alive := map[string]bool{"a1": true, "a2": true, "b1": true, "c1": true}
		ended := make(map[uint64]bool)
		for step := 0; len(ended) < len(tasks); step++ {
			if step > 500 {
				t.Fatalf("%d of %d ended", len(ended), len(tasks))
			}
			w := rapid.SampledFrom(slices.Sorted(maps.Keys(alive))).Draw(t, "worker")
			no, busy := running[w]
			switch {
			case !busy:
				no, found := s.Next(Request{Worker: w})
				if found == (s.Waiting() == 0) || ended[no] && found {
					t.Fatalf("%s gets %d %v, %d wait", w, no, found, s.Waiting())
				}
				if found {
					running[w] = no
				}
			case len(alive) > 1 && rapid.IntRange(0, 9).Draw(t, "leave") == 0:
				s.Leave(w)
				delete(alive, w)
				delete(running, w)
			default:
				losers := s.Done(w, no)
				ended[no] = true
				delete(running, w)
				for other, also := range running {
					if (also == no) != slices.Contains(losers, other) {
						t.Fatalf("%s has %d, losers of %d are %v", other, also, no, losers)
					}
				}
				for _, other := range losers {
					delete(running, other)
				}
			}
		}
	})
}

// TestStorageAffinityDecidesUpFront (001, section 2.5): the tasks of one
// chain of files all go to one queue, and another worker, idle, gets copies.
func TestStorageAffinityDecidesUpFront(t *testing.T) {
	s := NewStorageAffinity([]Worker{{"a1", "a"}, {"b1", "b"}}, false)
	file := func(names ...string) (files []File) {
		for _, name := range names {
			files = append(files, File{Key: task.FileKey(name)})
		}
		return files
	}
	s.Add(Task{1, file("x", "y")}, Task{2, file("y", "z")}, Task{3, file("p")}, Task{4, file("z", "p", "q")})
	ask := func(worker string, want uint64) {
		t.Helper()
		if no, found := s.Next(Request{Worker: worker}); !found || no != want {
			t.Fatalf("%s gets %d %v, want %d", worker, no, found, want)
		}
	}
	ask("b1", 3) // the only task that overlaps nothing, given to the shorter queue
	s.Done("b1", 3)
	ask("b1", 4) // as near to b, which is thought to hold p, and b's queue was shorter
	ask("a1", 1)
	s.Done("b1", 4)
	ask("b1", 2) // a copy: fewest copies, and b holds z
	s.Done("a1", 1)
	ask("a1", 2) // from its own queue
	if losers := s.Done("b1", 2); !slices.Equal(losers, []string{"a1"}) || s.Waiting() != 0 {
		t.Fatalf("losers %v, %d wait", losers, s.Waiting())
	}
}

// TestStorageAffinityCopiesTheRarest: a task that has a copy already comes
// after one that has none, and a copy counts.
func TestStorageAffinityCopiesTheRarest(t *testing.T) {
	s := NewStorageAffinity([]Worker{{"a1", "a"}, {"b1", "b"}, {"c1", "c"}}, false)
	shared := []File{{Key: "x"}}
	s.Add(Task{1, shared}, Task{2, shared}, Task{3, shared})
	for i, want := range []uint64{1, 1, 2} {
		worker := []string{"a1", "b1", "c1"}[i]
		if no, found := s.Next(Request{Worker: worker}); !found || no != want {
			t.Fatalf("%s gets %d %v, want %d", worker, no, found, want)
		}
	}
	s.Leave("b1") // and with it the copy of 1, which a1 still runs
	if losers := s.Done("a1", 1); len(losers) > 0 || s.Waiting() != 2 {
		t.Errorf("losers %v of a worker that left, %d wait", losers, s.Waiting())
	}
}

// benchTasks share files between neighbours, about as Coadd does: 78 files a
// task, each read by about 9.
func benchTasks(count int) []Task {
	random := rand.New(rand.NewPCG(1, 1))
	tasks := make([]Task, count)
	for i := range tasks {
		seen := make(map[int]bool)
		for len(seen) < 78 {
			seen[int(math.Abs(float64(i*9)+random.NormFloat64()*150))] = true
		}
		tasks[i].No = uint64(i)
		for _, file := range slices.Sorted(maps.Keys(seen)) {
			tasks[i].Files = append(tasks[i].Files, File{Key: task.FileKey(fmt.Sprint("f", file)), Size: 25e6})
		}
	}
	return tasks
}

// BenchmarkCoaddSize hands out 6,000 tasks to 10 sites of one worker each.
func BenchmarkCoaddSize(b *testing.B) {
	tasks := benchTasks(6000)
	for _, name := range []string{"overlap", "rest", "combined.2"} {
		b.Run(name, func(b *testing.B) {
			policy, err := ParsePolicy(name)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				w := NewWorkerCentric(policy, rand.New(rand.NewPCG(1, 1)))
				for _, t := range tasks {
					w.Add(t)
				}
				for i := range tasks {
					if _, found := w.Next(Request{Site: fmt.Sprint(i % 10)}); !found {
						b.Fatal("no task")
					}
				}
			}
		})
	}
	b.Run("storage-affinity", func(b *testing.B) {
		var workers []Worker
		for i := range 10 {
			workers = append(workers, Worker{fmt.Sprint(i), fmt.Sprint(i)})
		}
		for b.Loop() {
			s := NewStorageAffinity(workers, false)
			s.Add(tasks...)
			for turn := 0; s.Waiting() > 0; turn++ {
				name := workers[turn%10].Name
				if no, found := s.Next(Request{Worker: name}); found {
					s.Done(name, no)
				}
			}
		}
	})
}
