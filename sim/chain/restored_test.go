package chain_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The queue is put back to a state from before a pilot registered: the pilot is
// told to leave as soon as the queue hears of what it does, no task is run there
// again and again, and all work ends at the others.
func TestPilotThatTheQueueForgot(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		stranger := pilots[2]
		if s.master() == stranger {
			t.Fatal("the stranger is to be no master")
		}
		w.run(5 * time.Second)
		w.queue.must(func(turn *taskqueue.Turn) error {
			sites, err := turn.Sites().Load(s.name)
			if err != nil {
				return err
			}
			sites[0].Pilots--
			sites[0].Registered -= stranger.slots
			if err := turn.Sites().Save(sites[0]); err != nil {
				return err
			}
			return turn.Pilots().Delete(stranger.id)
		})
		err := w.queue.update(func(turn *taskqueue.Turn) error {
			_, err := w.queue.rules.Claim(turn, taskqueue.Claim{Site: s.name, Pilot: stranger.id})
			return err
		})
		if !errors.Is(err, taskqueue.ErrStranger) {
			t.Errorf("a claim of the stranger: %v", err)
		}
		began := make(map[task.ID]int) // at the stranger
		w.run1 = func(id task.ID, at *node) time.Duration {
			if at == stranger {
				began[id]++
			}
			return time.Second
		}
		flow := w.submit("flow", tree(40)...)
		w.finish(flow, 20*time.Minute)
		if len(began) == 0 {
			t.Fatal("the stranger was given nothing: this tests nothing")
		}
		for id, times := range began {
			if times > 1 {
				t.Errorf("seed %d: the stranger ran %s %d times", seed, id, times)
			}
		}
		if len(began) > 10 {
			t.Errorf("seed %d: the stranger ran %d tasks before it left", seed, len(began))
		}
		if !w.runUntil(time.Minute, func() bool { return !stranger.alive }) {
			t.Errorf("seed %d: the stranger has not left", seed)
		}
		w.run(time.Minute)
		if drain := w.queue.site(s.name).Drain; len(drain) > 0 {
			t.Errorf("seed %d: the site still has %v to drain", seed, drain)
		}
	}
}
