package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/sim/chart"
)

// trace is how one run goes over time, for figures; X is seconds since the
// first submission. nil follows nothing.
type trace struct {
	// Running payloads.
	Running []chart.Point `json:"running"`
	// Messages of 004's pilots until then, and those that wait for an answer.
	Messages []chart.Point `json:"messages"`
	Waiting  []chart.Point `json:"waiting"`
	// Delays of slots (slotChange), in seconds: their means, with the standard
	// deviation of the delays beside them.
	Delays []chart.Point `json:"delays"`
}

const (
	traceEvery = 250 * time.Millisecond
	traceBins  = 100
)

// follow samples the messages until the function returned is called, which may
// be more than once.
func (t *trace) follow(ctx context.Context, began time.Time, talk *paperTalk) (end func()) {
	if t == nil || talk == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(traceEvery)
		defer ticker.Stop()
		before := talk.total()
		for {
			select {
			case at := <-ticker.C:
				x := at.Sub(began).Seconds()
				t.Messages = append(t.Messages, chart.Point{X: x, Y: float64(talk.total() - before)})
				t.Waiting = append(t.Waiting, chart.Point{X: x, Y: float64(talk.waiting.Load())})
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		sampling.Wait()
	}
}

// sumUp takes the rest from the attempts of the run.
func (t *trace) sumUp(all *tally) {
	if t == nil {
		return
	}
	type step struct {
		at time.Time
		by float64
	}
	var steps []step
	for _, turns := range all.turns {
		for _, one := range turns {
			steps = append(steps, step{one.started, 1}, step{one.ended, -1})
		}
	}
	if len(steps) == 0 {
		return
	}
	slices.SortFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	width := steps[len(steps)-1].at.Sub(all.began).Seconds() / traceBins
	running, next := 0.0, 0
	for bin := range traceBins + 1 {
		x := float64(bin) * width
		for ; next < len(steps) && steps[next].at.Sub(all.began).Seconds() <= x; next++ {
			running += steps[next].by
		}
		t.Running = append(t.Running, chart.Point{X: x, Y: running})
	}
	delays := make([][]float64, traceBins+1)
	changes, _ := all.slotChanges()
	for _, change := range changes {
		bin := min(traceBins, max(0, int(change.at.Sub(all.began).Seconds()/width)))
		delays[bin] = append(delays[bin], change.free.Seconds())
	}
	for bin, observed := range delays {
		if len(observed) > 0 {
			mean, deviation := meanAndDeviation(observed)
			t.Delays = append(t.Delays, chart.Point{X: (float64(bin) + 0.5) * width, Y: mean, Spread: deviation})
		}
	}
}
