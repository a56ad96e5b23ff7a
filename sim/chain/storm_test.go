package chain_test

import (
	"flag"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

var (
	stormSeeds = flag.Int("seeds", 8, "how many storms TestStorms runs")
	stormFirst = flag.Uint64("first", 1, "the seed of the first storm")
)

// storm is a world in which faults happen by its seed.
type storm struct {
	*world
	flows []task.WorkflowID
	parts bool // the network is in parts
}

// Everything that can break does so at random for a while. When the faults stop,
// all work ends, and what both sides say of each other is true.
func TestStorms(t *testing.T) {
	for i := range *stormSeeds {
		seed := *stormFirst + uint64(i)
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { newStorm(t, seed).blow() })
	}
}

// The queue is put back to a copy in the midst of a storm. What was submitted after
// the copy is gone, all else ends, and all lists are true.
func TestStormsWithRestores(t *testing.T) {
	for i := range max(1, *stormSeeds/2) {
		seed := *stormFirst + uint64(i)
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			s := newStorm(t, seed)
			var copied backup
			known := 0
			s.more()
			for range 1 + s.random.IntN(6) {
				s.run(s.between(0, 20*time.Second))
				copied, known = s.queue.backup(), len(s.flows)
				s.fault()
			}
			for range 1 + s.random.IntN(6) {
				s.run(s.between(0, 20*time.Second))
				s.fault()
			}
			s.run(s.between(0, time.Minute))
			s.flows = s.flows[:known]
			if !s.queue.away {
				s.queue.stop()
			}
			s.queue.restore(copied)
			for range s.random.IntN(4) {
				s.run(s.between(0, 20*time.Second))
				s.fault()
			}
			s.calm()
			s.run(10 * time.Minute) // pilots that the queue does not know leave
			s.calm()
			s.judge()
		})
	}
}

func newStorm(t testing.TB, seed uint64) *storm {
	s := &storm{world: newWorld(t, seed)}
	if s.one(3) {
		s.logBytes = 64 << 10
	}
	s.run1 = func(task.ID, *node) time.Duration { return s.between(100*time.Millisecond, 20*time.Second) }
	for _, name := range []task.Site{"siteA", "siteB"}[:1+s.random.IntN(2)] {
		s.start(s.addSite(name, nil), 2+s.random.IntN(5), 1+s.random.IntN(3))
	}
	return s
}

func (s *storm) one(of int) bool { return s.random.IntN(of) == 0 }

func (s *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// blow lets faults happen, then waits for what must come of the work.
func (s *storm) blow() {
	s.t.Helper()
	s.more()
	for range 4 + s.random.IntN(10) {
		s.run(s.between(0, 20*time.Second))
		s.fault()
	}
	s.run(s.between(0, time.Minute))
	s.calm()
	s.judge()
	s.judgeCopies()
}

// more submits a workflow; its tasks bear as many lost pilots as there may be.
func (s *storm) more() {
	work := tree(10 + s.random.IntN(30))
	name := fmt.Sprint("flow", len(s.flows))
	for i := range work {
		work[i].ID = task.ID("/" + name + "." + work[i].ID.Name())
		work[i].Retries = 50
		for k := range work[i].Inputs {
			if in := &work[i].Inputs[k]; in.LFN != "db" {
				in.LFN = task.LFN(name + "." + string(in.LFN))
			}
		}
		for k := range work[i].Outputs {
			out := &work[i].Outputs[k]
			out.LFN = task.LFN(name + "." + string(out.LFN))
		}
	}
	s.flows = append(s.flows, s.submit(name, work...))
}

// fault is one thing that goes wrong; most of them end by themselves.
func (s *storm) fault() {
	at := s.sites[s.random.IntN(len(s.sites))]
	live := at.live()
	if len(live) == 0 {
		return
	}
	victim := live[s.random.IntN(len(live))]
	switch s.random.IntN(13) {
	case 0:
		if len(live) > 1 {
			victim.kill()
		}
	case 1:
		if master := at.master(); master != nil && len(live) > 1 {
			master.kill()
		}
	case 2:
		if len(live) > 1 {
			victim.stop(s.between(time.Second, 30*time.Second))
		}
	case 3:
		if master := at.master(); master != nil && len(live) > 1 {
			master.stop(s.between(time.Second, 30*time.Second))
		}
	case 4:
		if !s.queue.away {
			s.startOne(at, 1+s.random.IntN(3), nil)
		}
	case 5:
		if !s.queue.away {
			s.queue.stop()
			s.after(s.between(time.Second, 2*time.Minute), s.queue.startAgain)
		}
	case 6:
		victim.cutOff(true)
		s.after(s.between(time.Second, 15*time.Minute), func() { victim.cutOff(false) })
	case 7:
		s.partition(live)
	case 8:
		at.down = true
		s.note("the storage element of %s is away", at.name)
		s.after(s.between(time.Second, 5*time.Minute), func() { at.down = false })
	case 9:
		s.queue.loseCall += s.random.IntN(5)
	case 10:
		s.queue.loseReply += s.random.IntN(5)
	case 11:
		if !s.queue.away && len(s.flows) < 4 {
			s.more()
		}
	case 12:
		if !s.queue.away {
			modes := []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized, taskqueue.ModeIsolated}
			at.setMode(modes[s.random.IntN(len(modes))])
		}
	}
}

// partition cuts some pilots of a site off from the others, with or without the
// way to the queue.
func (s *storm) partition(live []*node) {
	if s.parts || len(live) < 2 {
		return
	}
	s.parts = true
	group := live[:1+s.random.IntN(len(live)-1)]
	offline := s.one(2)
	s.part(group)
	for _, n := range group {
		if offline {
			n.cutOff(true)
		}
	}
	s.after(s.between(5*time.Second, 20*time.Minute), func() {
		s.parts = false
		s.part(nil)
		for _, n := range group {
			if offline {
				n.cutOff(false)
			}
		}
	})
}

// calm ends all faults and sees to it that every site has two pilots.
func (s *storm) calm() {
	s.note("the faults stop")
	if s.queue.away {
		s.queue.start()
	}
	s.queue.loseCall, s.queue.loseReply = 0, 0
	s.part(nil)
	for _, n := range s.pilots {
		if n.offline {
			n.cutOff(false)
		}
	}
	for _, site := range s.sites {
		site.down = false
		for len(site.live()) < 2 {
			s.startOne(site, 2, nil)
		}
	}
}

// judge says what must come of every storm.
func (s *storm) judge() {
	s.t.Helper()
	for _, flow := range s.flows {
		s.finish(flow, 2*time.Hour)
	}
	s.run(10 * time.Minute)
	for _, site := range s.sites { // the longest pause between two trials is an hour
		if !s.runUntil(2*time.Hour, func() bool { return s.queue.site(site.name).Fallback == "" }) {
			s.t.Errorf("%s stays isolated: %s", site.name, s.queue.site(site.name).Fallback)
		}
	}
	s.run(time.Minute)
	for _, flow := range s.flows {
		for _, state := range s.queue.tasks(flow) {
			s.judgeAttempts(state.ID)
		}
	}
	for _, site := range s.sites {
		if live, counted := len(site.live()), len(s.queue.alive(site.name)); live != counted {
			s.t.Errorf("%s has %d live pilots, the queue counts %d: %v", site.name, live, counted, s.queue.alive(site.name))
		}
	}
	calls := s.queue.calls
	s.run(10 * time.Minute)
	if calls = s.queue.calls - calls; calls > 600*len(s.sites) {
		s.t.Errorf("%d calls in ten minutes in which nothing happened", calls)
	}
	s.check()
}

// judgeAttempts wants one winner of every generation at most, one in all, no
// attempt without an end, and no two with the same number.
func (s *storm) judgeAttempts(id task.ID) {
	s.t.Helper()
	winners := make(map[uint32]int)
	s.judgeNumbers(id)
	for _, attempt := range s.queue.attempts(id) {
		switch attempt.State {
		case taskqueue.AttemptSucceeded:
			winners[attempt.Outcome.Attempt.Generation]++
		case taskqueue.AttemptRunning:
			s.t.Errorf("%s is said to run still at a pilot that is %s", attempt.Outcome.Attempt, s.queue.pilot(attempt.Outcome.Attempt.Pilot).State)
		}
	}
	if len(winners) == 0 {
		s.t.Errorf("%s has no winner", id)
	}
	for generation, count := range winners {
		if count != 1 {
			s.t.Errorf("generation %d of %s has %d winners", generation, id, count)
		}
	}
}

// judgeCopies wants no copy on a storage element that the catalogue does not name:
// what others than the winners have stored is gone, also what was stored by attempts
// of which nobody has told the queue.
func (s *storm) judgeCopies() {
	s.t.Helper()
	s.run(2 * garbageTime)
	named := make(map[string]bool)
	for _, f := range s.queue.files() {
		for _, replica := range f.Replicas {
			named[replica.URL] = true
		}
	}
	states := make(map[string]taskqueue.AttemptState) // by the names of attempts' folders
	for _, flow := range s.flows {
		for _, state := range s.queue.tasks(flow) {
			for _, attempt := range s.queue.attempts(state.ID) {
				states[path.Dir(task.StorageName(attempt.Outcome.Attempt, "x"))] = attempt.State
			}
		}
	}
	for _, at := range s.sites {
		for _, url := range slices.Sorted(maps.Keys(at.stored)) {
			name, _ := taskqueue.NameAt("file:///"+string(at.name), url)
			if !named[url] && task.StoredFile(name) != "" {
				s.t.Errorf("%s is left on the storage of %s by an attempt in state %d", url, at.name, states[path.Dir(name)])
			}
		}
	}
}
