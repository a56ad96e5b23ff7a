package serving

import (
	"context"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// Two calls of a pilot may be served in any order: what the later one says holds.
func TestAnOvertakenPullSaysNothingOfItsPilot(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		desk := NewDesk(DefaultHolds)
		matching := NewMatching(Turns{
			Rules: taskqueue.NewRules(taskqueue.DefaultConfig()), Clock: func() taskqueue.Instant { return taskqueue.Instant(time.Hour) },
		}, desk, func() {})
		moment := Moment{Service: taskqueue.Instant(time.Hour), Machine: time.Unix(1000, 0)}
		pull := func(free int) (*Call, *task.Pull) {
			in := &task.Pull{Sync: task.Sync{Site: "siteA", Pilot: "p-a", Capacity: task.Capacity{Slots: 9, FreeSlots: free}}}
			return desk.Pull(moment, in, nil, func() {}), in
		}
		before, old := pull(7)
		after, recent := pull(2)
		if swapped {
			matching.Hear(after, recent)
			matching.Hear(before, old)
		} else {
			matching.Hear(before, old)
			matching.Hear(after, recent)
		}
		if free := matching.capacity("siteA").FreeSlots; free != 2 {
			t.Errorf("swapped %t: the pilot has %d free slots, it has said 2 in the later call", swapped, free)
		}
	}
}

// A call that was given up may be served long after a later one has ended.
func TestAPullThatComesAfterALaterOneSaysNothingOfItsPilot(t *testing.T) {
	desk := NewDesk(DefaultHolds)
	matching := NewMatching(Turns{
		Rules: taskqueue.NewRules(taskqueue.DefaultConfig()), Clock: func() taskqueue.Instant { return taskqueue.Instant(time.Hour) },
	}, desk, func() {})
	moment := Moment{Service: taskqueue.Instant(time.Hour), Machine: time.Unix(1000, 0)}
	for _, said := range []struct {
		number uint64
		free   int
	}{{5, 2}, {4, 7}} {
		in := &task.Pull{Sync: task.Sync{Site: "siteA", Pilot: "p-a", Number: said.number, Capacity: task.Capacity{Slots: 9, FreeSlots: said.free}}}
		call := desk.Pull(moment, in, nil, func() {})
		matching.Hear(call, in)
		if free := matching.capacity("siteA").FreeSlots; free != 2 {
			t.Errorf("call %d: the pilot has %d free slots, it has said 2 last", said.number, free)
		}
		if newest := desk.Leave(moment, call); newest != (said.number == 5) {
			t.Errorf("call %d is the newest: %t", said.number, newest)
		}
	}
}

// Sites are read for those that match nothing themselves: where there is none, nobody looks.
func TestSitesWithMastersAreNotLookedAfter(t *testing.T) {
	looks, store := 0, mem.New()
	rules := taskqueue.NewRules(taskqueue.DefaultConfig())
	turn := func(tx taskqueue.Tx, effects *taskqueue.Effects) *taskqueue.Turn {
		return &taskqueue.Turn{Tx: tx, Clock: taskqueue.Instant(time.Hour), Effects: effects}
	}
	var matching *Matching
	update := func(ctx context.Context, change func(*taskqueue.Turn) error) error {
		effects := &taskqueue.Effects{}
		err := store.Update(ctx, func(tx taskqueue.Tx) error { return taskqueue.In(turn(tx, effects), change) })
		matching.Changed(effects)
		return err
	}
	matching = NewMatching(Turns{
		Rules: rules, Clock: func() taskqueue.Instant { return taskqueue.Instant(time.Hour) }, Update: update,
		View: func(ctx context.Context, read func(*taskqueue.Turn) error) error {
			looks++
			return store.View(ctx, func(tx taskqueue.Tx) error { return taskqueue.In(turn(tx, &taskqueue.Effects{}), read) })
		},
	}, NewDesk(DefaultHolds), func() {})
	for _, step := range []struct {
		mode taskqueue.Mode
		want int // looks of three
	}{{taskqueue.ModeDistributed, 1}, {taskqueue.ModeIsolated, 3}, {taskqueue.ModeDistributed, 1}} {
		if err := update(t.Context(), func(t *taskqueue.Turn) error {
			_, err := rules.AddSite(t, taskqueue.SiteRecord{Name: "siteA", SiteSettings: taskqueue.SiteSettings{SE: "file:///a", Mode: step.mode}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		looks = 0
		for range 3 {
			if err := matching.LookAfter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if looks < step.want || step.mode == taskqueue.ModeDistributed && looks > step.want {
			t.Errorf("mode %s: %d looks of 3, want %d", step.mode, looks, step.want)
		}
	}
}
