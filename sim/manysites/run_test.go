package manysites_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim/manysites"
)

func small() manysites.Config {
	config := manysites.DefaultConfig()
	config.Sites, config.Pilots, config.Tasks, config.Workflow, config.Seed = 4, 25, 400, 120, 7
	return config
}

// TestTwiceTheSame pins that a run is decided by its seed.
func TestTwiceTheSame(t *testing.T) {
	var makespans [3]time.Duration
	var events [3]uint64
	for i, seed := range []uint64{7, 7, 8} {
		config := small()
		config.Seed = seed
		r, err := manysites.Run(config)
		if err != nil {
			t.Fatal(err)
		}
		makespans[i], events[i] = r.Makespan, r.Events
	}
	if makespans[0] != makespans[1] || events[0] != events[1] || makespans[0] == makespans[2] {
		t.Errorf("makespans %v, events %v", makespans, events)
	}
}

// TestEveryTaskIsHandedOutAndDone follows a run by its samples: several
// workflows are submitted one after the other, and nothing is lost.
func TestEveryTaskIsHandedOutAndDone(t *testing.T) {
	config := small()
	r, err := manysites.Run(config)
	if err != nil {
		t.Fatal(err)
	}
	sizes, requests := 0, 0
	for i := range r.HandOuts {
		h := &r.HandOuts[i]
		sizes += h.Tasks
		if h.Took < 2*config.QueueLatency {
			t.Errorf("a hand-out took %s", h.Took)
		}
	}
	for i, s := range r.Samples {
		requests += s.Requests
		if s.Busy > config.Sites*config.Pilots || i > 0 && s.Done < r.Samples[i-1].Done {
			t.Errorf("sample %+v", s)
		}
	}
	last := r.Samples[len(r.Samples)-1]
	// A task that was recalled for an idle site is handed out again.
	if last.Done != config.Tasks || sizes != r.Handed || sizes < config.Tasks || requests != r.Requests {
		t.Errorf("%d done, %d handed out, %d in hand-outs, %d and %d requests", last.Done, r.Handed, sizes, requests, r.Requests)
	}
	if r.Filled != 100 || r.Delays != config.Tasks-100 {
		t.Errorf("%d slots were filled, %d delays", r.Filled, r.Delays)
	}
	if r.Submissions != 4 {
		t.Errorf("%d submissions", r.Submissions)
	}
}

func TestRefusesWhatMakesNoSense(t *testing.T) {
	for _, change := range []func(*manysites.Config){
		func(c *manysites.Config) { c.Sites = 0 }, func(c *manysites.Config) { c.Usual = time.Millisecond },
		func(c *manysites.Config) { c.Prefill = -1 }, func(c *manysites.Config) { c.Ahead = 0 },
	} {
		config := small()
		change(&config)
		if _, err := manysites.Run(config); err == nil {
			t.Errorf("%+v runs", config)
		}
	}
}
