// Command soak plays whole grids in virtual time, under faults that seeds draw, and
// says what was not as it must be. See package sim/world.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/sim/world"
)

var (
	seconds = flag.Int("seconds", 0, "play seeds for so long")
	seeds   = flag.Int("seeds", 0, "play so many seeds")
	first   = flag.Uint64("first", 1, "the first seed")
	one     = flag.Uint64("seed", 0, "play this seed and tell its story")
	faults  = flag.String("faults", "", "numbers of the faults that are left of the seed's, separated by commas")
	large   = flag.Bool("large", false, "play large grids")
	skip    = flag.String("skip", "", "seeds that are not played, separated by blanks")
	stop    = flag.Bool("stop", false, "stop at the first seed that fails")
	profile = flag.String("profile", "", "write a profile of the processor's time into this file")
	quick   = flag.Bool("quick", false, "do not look for the shortest plan of a seed that fails")
)

func main() {
	flag.Parse()
	debug.SetGCPercent(1600) // runs are short, and make garbage
	debug.SetMemoryLimit(int64(atOnce()) << 30)
	if *one != 0 {
		os.Exit(tell())
	}
	os.Exit(profiled(soak))
}

// atOnce is how many runs go on at one time; each has a GiB.
func atOnce() int {
	if *seeds > 0 {
		return min(*seeds, runtime.GOMAXPROCS(0))
	}
	return runtime.GOMAXPROCS(0)
}

// profiled writes a profile of a run, if one is asked for.
func profiled(run func() int) (code int) {
	if *profile == "" {
		return run()
	}
	file, err := os.Create(*profile)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: -profile:", err)
		return 2
	}
	code = run()
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "soak: -profile:", err)
		return 2
	}
	return code
}

// tell plays one seed and tells its story.
func tell() (code int) {
	plan := world.DrawPlan(*one, *large)
	if *faults != "" {
		var numbers []int
		for _, text := range strings.Split(*faults, ",") {
			number, err := strconv.Atoi(text)
			if err != nil {
				fmt.Fprintln(os.Stderr, "soak: -faults:", err)
				return 2
			}
			numbers = append(numbers, number)
		}
		plan = plan.Keep(numbers)
	}
	result := world.Run(plan)
	for _, line := range result.Story {
		fmt.Println(line)
	}
	fmt.Printf("trace %s, %s of virtual time\n", result.Trace, result.Virtual.Round(time.Second))
	for _, wrong := range result.Wrong {
		fmt.Println("WRONG:", wrong)
	}
	return min(len(result.Wrong), 1)
}

// tally sums up what came of all runs.
type tally struct {
	mutex      sync.Mutex
	seeds      int
	injected   map[string]int
	recoveries []time.Duration
	virtual    time.Duration
	started    int
	failed     []uint64
}

func (t *tally) add(p world.Plan, r *world.Result) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.seeds++
	for kind, n := range r.Injected {
		t.injected[kind] += n
	}
	t.virtual += r.Virtual
	t.started += r.Started
	if len(r.Wrong) == 0 {
		t.recoveries = append(t.recoveries, r.Recovery)
	} else {
		t.failed = append(t.failed, p.Seed)
		fmt.Printf("seed %d: %s\nits story: %s\n", p.Seed, r.Wrong[0], p.Command())
	}
}

// soak plays seeds on all cores.
func soak() (code int) {
	began := time.Now()
	skipped := strings.Fields(*skip)
	found := &tally{injected: make(map[string]int)}
	var next atomic.Uint64
	var over atomic.Bool
	var workers sync.WaitGroup
	for range atOnce() {
		workers.Go(func() {
			for !over.Load() {
				i := next.Add(1) - 1
				if *seeds > 0 && i >= uint64(*seeds) || *seconds > 0 && time.Since(began) > time.Duration(*seconds)*time.Second {
					return
				}
				if slices.Contains(skipped, fmt.Sprint(*first+i)) {
					continue
				}
				plan := world.DrawPlan(*first+i, *large)
				result := world.Run(plan)
				found.add(plan, &result)
				if *stop && len(result.Wrong) > 0 {
					over.Store(true)
				}
			}
		})
	}
	workers.Wait()
	found.print(time.Since(began))
	if len(found.failed) == 0 {
		return 0
	}
	if !*quick {
		shrink(found.failed[0])
	}
	return 1
}

func (t *tally) print(took time.Duration) {
	fmt.Printf("%d seeds from %d in %s: %s of virtual time, %d payloads, %d seeds failed\n",
		t.seeds, *first, took.Round(time.Second), t.virtual.Round(time.Hour), t.started, len(t.failed))
	for _, kind := range slices.Sorted(maps.Keys(t.injected)) {
		fmt.Printf("  %-26s %8d\n", kind, t.injected[kind])
	}
	if slices.Sort(t.recoveries); len(t.recoveries) > 0 {
		at := func(share float64) time.Duration {
			return t.recoveries[int(share*float64(len(t.recoveries)-1))].Round(time.Second)
		}
		fmt.Printf("from the last fault to the end of all work: median %s, 99 %% within %s, longest %s\n", at(0.5), at(0.99), at(1))
	}
	if slices.Sort(t.failed); len(t.failed) > 0 {
		fmt.Println("failed:", t.failed)
	}
}

// shrink prints the shortest plan that still fails, and how to run it again.
func shrink(seed uint64) {
	plan := world.DrawPlan(seed, *large).Shrink(func(p world.Plan) bool { return len(world.Run(p).Wrong) > 0 })
	fmt.Printf("seed %d fails with these faults:\n", seed)
	for _, f := range plan.Faults {
		fmt.Printf("  %3d  %10s  %s\n", f.Number, f.At.Round(time.Millisecond), f.Kind)
	}
	fmt.Println(plan.Command())
}
