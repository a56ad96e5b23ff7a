package grid_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// split is a workflow of two steps: each task of the second reads the file of one of the
// first, so many of them the same. Tasks take 10 s, 30 % either way.
func split(seed uint64, makers, readers int) *trace.Workload {
	random := sim.Random(seed, "split")
	w := &trace.Workload{Name: "split"}
	add := func(name string, inputs, outputs []int32) {
		runtime := time.Duration((7 + 6*random.Float64()) * float64(time.Second))
		w.Tasks = append(w.Tasks, trace.Task{Name: name, Inputs: inputs, Outputs: outputs, Runtime: runtime, Cores: 1})
	}
	for i := range makers {
		w.Files = append(w.Files, trace.File{Name: fmt.Sprintf("made.%04d", i), Size: 100_000_000, Producer: int32(i)})
		add(fmt.Sprintf("make.%04d", i), nil, []int32{int32(i)})
	}
	for i := range makers * readers {
		add(fmt.Sprintf("read.%04d", i), []int32{int32(i / readers)}, nil)
	}
	return w
}

// changes are the pauses between the payloads of each slot, sorted.
func changes(r *grid.Result) (pauses []time.Duration) {
	last := make(map[int]time.Duration)
	slices.SortStableFunc(r.Bars, func(a, b sim.Bar) int { return cmp.Compare(a.From, b.From) })
	for _, bar := range r.Bars {
		if bar.Kind != sim.Computing {
			continue
		}
		if ended, before := last[bar.Row]; before {
			pauses = append(pauses, bar.From-ended)
		}
		last[bar.Row] = bar.To
	}
	slices.Sort(pauses)
	return pauses
}

// A file of 100 MB takes a second from a peer. It is fetched while the slot still works,
// and near the end a task that was given early is not taken to an idle slot
// for which it would have to be fetched anew, if its own is free as soon.
// A reader goes to the pilot that has its file.
func TestInputsAreFetchedBeforeTheSlotIsFree(t *testing.T) {
	for seed := range uint64(3) {
		card := func(_ int, n *grid.Node) { n.Bandwidth = 100e6 }
		second := pilots(60, card)
		second.Name = "siteB"
		r := run(t, grid.Config{Workload: split(seed, 240, 2), Sites: []grid.Site{pilots(60, card), second}, Seed: 1, KeepBars: true})
		if pauses := changes(r); pauses[len(pauses)*99/100] > 200*time.Millisecond {
			t.Errorf("seed %d: %d changes, p99 %s, the longest %s", seed, len(pauses), pauses[len(pauses)*99/100], pauses[len(pauses)-1])
		}
		if r.LocalHitRatio() < 0.93 {
			t.Errorf("seed %d: %.3f of the reads were local", seed, r.LocalHitRatio())
		}
	}
}

// A hand-out of which most tasks wait for others has few that are ready. That is no
// reason to call the queue with each task that is given out.
func TestWaitingTasksAreNoReasonToCall(t *testing.T) {
	second := pilots(60, nil)
	second.Name = "siteB"
	r := run(t, grid.Config{Workload: split(1, 360, 1), Sites: []grid.Site{pilots(60, nil), second}, Seed: 1})
	// Each pilot registers; a master gathers news for 200 ms, and parks some calls.
	if most := 120 + 2*int(r.Makespan/(160*time.Millisecond)); r.Requests > most {
		t.Errorf("%d requests in %s, want %d at most", r.Requests, r.Makespan, most)
	}
}
