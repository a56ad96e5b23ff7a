package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// Trace is how one run goes over time, for figures; X is seconds since the
// first submission. nil follows nothing.
type Trace struct {
	// Running payloads.
	Running []chart.Point `json:"running"`
	// Messages that pilots have sent until then, and those that wait for an answer:
	// the extra ones where there are some, else the requests to the queue, of which
	// it is not known how many wait.
	Messages []chart.Point `json:"messages"`
	Waiting  []chart.Point `json:"waiting"`
	// Queued are the tasks at the queue: not leased to a site, or blocked.
	Queued []chart.Point `json:"queued,omitempty"`
	// Delays of slots (slotChange), in seconds: their means, with the standard
	// deviation of the delays beside them.
	Delays []chart.Point `json:"delays"`
}

const (
	traceEvery = 250 * time.Millisecond
	traceBins  = 100
)

// counter tells how many messages were sent until now, and how many wait for an
// answer.
type counter func(context.Context) (sent, waiting float64, err error)

// counts are those of extra messages, or else of the requests that the queue has
// served.
func (q *queueProcess) counts(extra Extra) counter {
	if extra != nil {
		return func(context.Context) (float64, float64, error) {
			sent, waiting := extra.Sent()
			return sent, waiting, nil
		}
	}
	return func(ctx context.Context) (sum, waiting float64, err error) {
		byMethod, err := q.requestsOfPilots(ctx)
		for _, count := range byMethod {
			sum += count
		}
		return sum, 0, err
	}
}

// follow samples the messages until the function returned is called, which may
// be more than once.
func (t *Trace) follow(ctx context.Context, began time.Time, count counter) (end func()) {
	if t == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(traceEvery)
		defer ticker.Stop()
		before, _, _ := count(ctx)
		for {
			select {
			case at := <-ticker.C:
				sent, waiting, err := count(ctx)
				if err != nil {
					continue // a sample less
				}
				x := at.Sub(began).Seconds()
				t.Messages = append(t.Messages, chart.Point{X: x, Y: sent - before})
				t.Waiting = append(t.Waiting, chart.Point{X: x, Y: waiting})
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

// sees notes a state of the workflow.
func (t *Trace) sees(w *pb.Workflow, since time.Duration) {
	if t != nil {
		t.Queued = append(t.Queued, chart.Point{X: since.Seconds(), Y: float64(w.GetBlocked() + w.GetReady())})
	}
}

// sumUp takes the rest from the attempts of the run.
func (t *Trace) sumUp(all *tally) {
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

// Beside scales points so that they can be drawn with others.
func Beside(name string, points, others []chart.Point) chart.Series {
	highest := func(points []chart.Point) (high float64) {
		for _, p := range points {
			high = max(high, p.Y)
		}
		return high
	}
	own, other := highest(points), highest(others)
	if own <= 0 || other <= 0 {
		return chart.Series{Name: name, Points: points}
	}
	by := math.Pow(10, math.Ceil(math.Log10(own/other)))
	s := chart.Series{Name: fmt.Sprintf("%s, by %g", name, by), Points: slices.Clone(points)}
	for i := range s.Points {
		s.Points[i].Y /= by
	}
	return s
}
