package manysites

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
)

// epoch is the wall clock at the start of a run.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// limit ends a run that does not end by itself.
const limit = 365 * 24 * time.Hour

// Run plays a grid until all tasks are done.
func Run(config Config) (*Result, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("simulate many sites: %w", err)
	}
	w := &world{config: config, timeline: &sim.Timeline{}, random: sim.Random(config.Seed, "many sites")}
	w.queue = newQueue(w)
	if err := w.begin(); err != nil {
		return nil, fmt.Errorf("simulate many sites: %w", err)
	}
	for w.done < config.Tasks && w.failure == nil {
		if !w.timeline.Step() || w.timeline.Now() > limit {
			w.failure = fmt.Errorf("%d of %d tasks are not done after %s", config.Tasks-w.done, config.Tasks, w.timeline.Now())
		}
	}
	if w.failure != nil {
		return nil, fmt.Errorf("simulate many sites: %w", w.failure)
	}
	w.sample()
	return w.result(), nil
}

type world struct {
	config   Config
	timeline *sim.Timeline
	random   *rand.Rand
	queue    *queue
	sites    []*site
	done     int // accepted outcomes
	busy     int // slots that run a payload
	failure  error
	sums     Result
	noted    sums // at the last sample
}

// sums are what a sample shows the growth of.
type sums struct {
	requests, done, handed, handOuts int
	delays                           time.Duration
	delayed                          int
	cost                             time.Duration
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

func (w *world) now() time.Time { return epoch.Add(w.timeline.Now()) }

// begin puts sites and pilots in place and starts submitting.
func (w *world) begin() error {
	for i := range w.config.Sites {
		s := newSite(w, i)
		w.sites = append(w.sites, s)
		if err := w.queue.place(s); err != nil {
			return err
		}
	}
	w.queue.supply()
	w.queue.tick()
	for _, s := range w.sites {
		// Masters do not all begin at one moment.
		w.timeline.After(time.Duration(w.random.Int64N(int64(s.config.Pilot.SyncEvery))), s.begin)
	}
	var next func()
	next = func() {
		w.sample()
		w.timeline.After(w.config.Sample, next)
	}
	next()
	return nil
}

// lasts draws how long a task takes.
func (w *world) lasts() time.Duration {
	return time.Duration(float64(w.config.Usual) * (0.7 + 0.6*w.random.Float64()))
}
