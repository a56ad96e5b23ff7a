package taskqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// ward is a site at which the queue matches tasks, with one node at which
// everything fails at once.
type ward struct {
	*desk
	pilots []*solo
	busy   map[task.ID]int
	bad    func() bool // the first pilot's node is
	burnt  int
	news   []taskqueue.NodeNews
	calls  map[task.PilotID]bool // pilots that are parked
}

func newWard(t *testing.T, mode taskqueue.Mode, pilots, slots int) *ward {
	w := &ward{desk: newDesk(newGrid(t)), busy: make(map[task.ID]int), bad: func() bool { return true }, calls: make(map[task.PilotID]bool)}
	w.addSite("A", inMode(mode))
	for i := range pilots {
		w.pilots = append(w.pilots, w.solo("A", task.PeerID(fmt.Sprint("p", i)), slots))
	}
	return w
}

// second is a second of the site: the good pilots' tasks run for three, those of
// the bad one end at once, pilots that were parked pull only when they are called.
func (w *ward) second() {
	w.tick(time.Second)
	for i, p := range w.pilots {
		for again := true; again; {
			again = false
			for _, lt := range slices.Clone(p.inHand[:min(p.slots, len(p.inHand))]) {
				w.busy[lt.Task.ID]++
				switch {
				case i == 0 && w.bad():
					w.burnt++
					again = true
					p.finish(lt.Task.ID)
					o := &p.news.Outcomes[len(p.news.Outcomes)-1]
					o.OK, o.Failure, o.Reason = false, task.PayloadFailed, "exit code 1"
				case w.busy[lt.Task.ID] >= 3:
					p.finish(lt.Task.ID)
				default:
					continue
				}
				delete(w.busy, lt.Task.ID)
			}
			if len(p.news.Outcomes) == 0 && w.calls[p.id] {
				continue
			}
			w.calls[p.id] = len(p.pull()) == 0
			w.news = append(w.news, w.effects.Nodes...)
		}
	}
	w.look()
}

// look is what a server does of itself.
func (w *ward) look() {
	site := w.siteRecord("A")
	care, changed := w.maker.Tend(w.clock, &site, nil, nil, func(task.PilotID) bool { return true })
	if care.Judged {
		w.commit(func(t *taskqueue.Turn) error {
			return w.rules.Tend(t, "A", &taskqueue.Care{Judged: true, Nodes: care.Nodes})
		})
		w.news = append(w.news, w.effects.Nodes...)
	}
	w.view(func(t *taskqueue.Turn) error { return w.maker.Refresh(t, "A") })
	for _, id := range append(changed, w.maker.CallIn("A", func(id task.PilotID) matchmaker.Stance {
		if w.calls[id] {
			return matchmaker.Waits
		}
		return matchmaker.Away
	})...) {
		w.calls[id] = false
	}
}

func (w *ward) run(limit int, over func() bool) bool {
	for range limit {
		if over() {
			return true
		}
		w.second()
	}
	return over()
}

func (w *ward) submit(count int) task.WorkflowID {
	s := taskqueue.Submission{Name: "flow"}
	for i := range count {
		s.Tasks = append(s.Tasks, job(fmt.Sprint("t", i), nil, nil))
	}
	id := w.mustSubmit(s)
	w.maker.Changed(&w.effects)
	return id
}

// A node at which everything fails at once burns few tasks where the queue
// matches; it is let in again by one task at a time, shown and told of, and gets
// work again when it is mended.
func TestQueueSetsABlackHoleBack(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		for _, slots := range []int{1, 4} {
			w := newWard(t, mode, 4, slots)
			mended := false
			w.bad = func() bool { return !mended }
			id := w.submit(400 * slots)
			w.run(10, func() bool { return false })
			if most := slots + health.Least; w.burnt > most {
				t.Errorf("%s, %d slots: %d tasks burnt, want at most %d", mode, slots, w.burnt, most)
			}
			bad := w.pilots[0]
			if why := w.pilot(bad.id).Stopped; !strings.Contains(why, "set back") || !strings.Contains(why, "exit code 1") {
				t.Errorf("%s: the pilot of the bad node is said to be stopped by %q", mode, why)
			}
			if len(w.news) != 1 || !w.news[0].SetBack || w.news[0].Node != "p0" || w.news[0].Pause <= 0 {
				t.Errorf("%s: told was %+v", mode, w.news)
			}
			capacity := w.maker.Capacity("A")
			if capacity.Stopped != 1 || capacity.Slots != 3*slots || capacity.StoppedSlots != slots || capacity.StoppedWhy == "" {
				t.Errorf("%s: capacity %+v", mode, capacity)
			}
			first := w.burnt
			w.run(100, func() bool { return false }) // trials after 30 s and 60 s more
			if w.burnt != first+2 {
				t.Errorf("%s, %d slots: %d tasks burnt by two trials", mode, slots, w.burnt-first)
			}
			// A queue that starts anew remembers.
			w.maker = matchmaker.New(&w.rules.Config, matcher.NewCompiler(100))
			w.calls = make(map[task.PilotID]bool)
			w.run(40, func() bool { return false })
			if w.burnt != first+2 {
				t.Errorf("%s, %d slots: %d tasks burnt after a new start", mode, slots, w.burnt-first-2)
			}
			mended = true
			if !w.run(200, func() bool { return len(bad.inHand) == slots }) {
				t.Errorf("%s, %d slots: the mended node does not get work again", mode, slots)
			}
			w.run(5, func() bool { return false })
			if why := w.pilot(bad.id).Stopped; why != "" || w.news[len(w.news)-1].SetBack || len(w.siteRecord("A").Nodes) > 0 {
				t.Errorf("%s: the pilot of the mended node is stopped: %q; told was last %+v", mode, why, w.news[len(w.news)-1])
			}
			if !w.run(1000, func() bool { return w.workflow(id).Finished() }) {
				t.Errorf("%s, %d slots: %v", mode, slots, w.workflow(id).Counts)
			}
		}
	}
}

// One pilot alone has nobody to be compared with.
func TestQueueHoldsNobodyAlone(t *testing.T) {
	w := newWard(t, taskqueue.ModeIsolated, 1, 2)
	id := w.submit(50)
	if !w.run(600, func() bool { return w.workflow(id).Over() }) || len(w.news) > 0 {
		t.Errorf("%v, told was %+v", w.workflow(id).Counts, w.news)
	}
}

// Pilots of one node that die with what they run speak against it, each once.
func TestQueueSetsANodeBackWherePilotsDie(t *testing.T) {
	w := newWard(t, taskqueue.ModeIsolated, 3, 1)
	w.bad = func() bool { return false }
	w.submit(100)
	w.run(5, func() bool { return false })
	w.host = "grave"
	for i := range health.Least + 1 {
		p := w.solo("A", task.PeerID(fmt.Sprint("d", i)), 2)
		if got := p.pull(); len(got) != 2 && i < health.Least || len(got) > 0 && i == health.Least {
			t.Errorf("pilot %d of the node got %v", i, got)
		}
		for _, lt := range p.inHand {
			p.counter++
			p.news.Starts = append(p.news.Starts, task.Start{Attempt: task.AttemptID{
				Task: lt.Task.ID, Generation: lt.Generation, Lease: p.of[lt.Task.ID], Pilot: p.id, Counter: p.counter,
			}, Number: lt.Number})
		}
		p.pull()
		w.commit(func(t *taskqueue.Turn) error {
			return w.rules.Tend(t, "A", &taskqueue.Care{Silent: []task.PilotID{p.id}})
		})
		w.maker.Left("A", p.id)
	}
	w.look()
	if len(w.news) != 1 || w.news[0].Node != "grave" || !strings.Contains(w.news[0].Why, "it fell silent") {
		t.Errorf("told was %+v", w.news)
	}
}
