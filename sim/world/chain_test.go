package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Work of two sites ends, and what the catalogue says is true.
func TestWorkEnds(t *testing.T) {
	w := newWorld(t, 1)
	for _, name := range []task.Site{"siteA", "siteB"} {
		w.start(w.addSite(name, nil), 3, 2)
	}
	w.finish(w.submit("flow", tree(20)...), 10*time.Minute)
}

// A master is killed, its successor too, the last one stops in an orderly way,
// and the queue is away for a while: all work ends.
func TestWorkSurvivesItsMasters(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 5, 2)
		flow := w.submit("flow", tree(60)...)
		w.run(5 * time.Second)
		s.master().kill()
		w.run(8 * time.Second)
		s.master().kill()
		w.run(8 * time.Second)
		w.queue.stop()
		w.run(15 * time.Second)
		w.queue.start()
		w.run(10 * time.Second)
		s.master().stop(10 * time.Second)
		w.finish(flow, 20*time.Minute)
	}
}

// Half a site is cut off, queue and all, and comes back.
func TestWorkSurvivesAPartition(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 6, 2)
		flow := w.submit("flow", tree(60)...)
		w.run(4 * time.Second)
		w.part(pilots[3:])
		for _, n := range pilots[3:] {
			n.cutOff(true)
		}
		w.run(time.Minute)
		w.part(nil)
		for _, n := range pilots[3:] {
			n.cutOff(false)
		}
		w.finish(flow, 30*time.Minute)
	}
}

// After a change of masters the queue has the living for living: the new master
// meets them, whatever way it hears of them. No attempt is lost, none runs twice.
func TestNewMasterMeetsTheLiving(t *testing.T) {
	for name, end := range map[string]func(*node){
		"stopped": func(n *node) { n.stop(0) },
		"killed":  (*node).kill,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			s := w.addSite("siteA", nil)
			pilots := w.start(s, 4, 2)
			w.run1 = func(task.ID, *node) time.Duration { return 5 * time.Minute }
			flow := w.submit("flow", tree(2)...) // they run at pilots that stay
			w.run(5 * time.Second)
			if len(pilots[0].payloads) > 0 || s.master() != pilots[0] {
				t.Fatal("the first pilot is to be an idle master")
			}
			end(s.master())
			w.run(4 * time.Minute)
			w.judgePilots(s)
			w.finish(flow, time.Hour)
			for _, state := range w.queue.tasks(flow) {
				if attempts := w.queue.attempts(state.ID); len(attempts) != 1 || w.started[state.ID] != 1 {
					t.Errorf("%s has %d attempts at the queue and was begun %d times", state.ID, len(attempts), w.started[state.ID])
				}
			}
		})
	}
}
