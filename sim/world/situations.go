package world

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// situations are what single faults seldom bring about together. What they leave is often
// hidden by further faults: the next pilot that dies has all be looked through. So they
// come in plans of their own; see quiet.
var situations = []kind{
	{"answers of storage lost", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		s.busy(d)
		s.mutes(at, d.between(5*time.Second, 2*time.Minute))
		return true
	}},
	{"user on a bad line", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.addClient(d).badLine = s.now() + d.between(20*time.Second, time.Minute)
		return true
	}},
	{"poison where the queue matches", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		if !s.queue.works() {
			return false
		}
		at.setMode(taskqueue.ModeCentralized)
		return s.poisons(d)
	}},
	{"pilot killed where the queue matches", 1, func(s *storm, d draws, at *site, live []*node) bool {
		if !s.queue.works() || len(live) < 2 {
			return false
		}
		at.setMode(taskqueue.ModeCentralized)
		s.busy(d)
		victim := d.victim(live)
		s.after(d.between(time.Second, 20*time.Second), func() {
			if !s.calmed {
				victim.dies()
			}
		})
		return true
	}},
	{"copy of a queue with uploads under way", 1, func(s *storm, d draws, _ *site, _ []*node) bool { return s.forgetsUploads(d) }},
	{"master leaves when the queue is back", 1, func(s *storm, d draws, at *site, live []*node) bool {
		if at.master() == nil || len(live) < 2 {
			return false
		}
		s.busy(d)
		s.leavesInHaste(d, at.master(), live)
		return true
	}},
	{"work of a site cut off is cancelled", 1, func(s *storm, d draws, at *site, live []*node) bool {
		if !s.queue.works() || len(live) == 0 {
			return false
		}
		s.busy(d)
		s.cancelsUnheard(d, at, live)
		return true
	}},
}

// lateSituations are drawn apart from the others: most quiet seeds have the plans that they
// had without.
var lateSituations = []kind{
	{"pilot hangs in long tasks", 1, func(s *storm, d draws, _ *site, live []*node) bool {
		if !s.queue.works() || len(live) < 2 {
			return false
		}
		s.hangsAtWork(d, d.victim(live))
		return true
	}},
}

// quiet is the plan of a seed in which nothing happens but situations of two kinds at the
// most; few seeds have one.
func quiet(seed uint64) (p Plan, has bool) {
	random := rand.New(rand.NewPCG(seed, quietStream))
	if random.IntN(5) > 0 {
		return p, false
	}
	p.Seed = seed
	mix := []string{situations[random.IntN(len(situations))].name, situations[random.IntN(len(situations))].name}
	if late := rand.New(rand.NewPCG(seed, lateStream)); late.IntN(4) == 0 {
		mix[1] = lateSituations[late.IntN(len(lateSituations))].name
	}
	at := time.Duration(0)
	for i := range 1 + random.IntN(4) {
		at += time.Duration(random.Int64N(int64(time.Minute)))
		p.Faults = append(p.Faults, Fault{Number: i + 1, Kind: mix[random.IntN(len(mix))], At: at, seed: random.Uint64()})
	}
	return p, true
}

// busy sees to it that there is work.
func (s *storm) busy(d draws) {
	for _, flow := range s.flows {
		if !s.queue.workflow(flow).Over() {
			return
		}
	}
	if s.queue.works() {
		s.more(10 + d.IntN(20))
	}
}

// hangsAtWork has a pilot hang that runs long tasks, for so long that it is taken for dead,
// and go on before they end.
func (s *storm) hangsAtWork(d draws, n *node) {
	within := d.between(time.Second, 20*time.Second)
	s.lasts = s.now() + within
	s.busy(d)
	s.after(within, func() {
		if n.alive && !s.calmed {
			s.pauses(n, d.between(10*time.Second, 30*time.Second))
		}
	})
}

// mutes has a storage element take files for a while without a word.
func (s *storm) mutes(at *site, d time.Duration) {
	s.note("no answer comes from the storage element of %s", at.name)
	at.mute = true
	s.after(d, func() { at.mute = false })
}

// cutsOff takes the way to the queue from pilots for a while.
func (s *storm) cutsOff(pilots []*node, d time.Duration) {
	for _, n := range pilots {
		n.cutOff(true)
	}
	s.after(d, func() {
		for _, n := range pilots {
			n.cutOff(false)
		}
	})
}

// forgetsUploads puts the queue back to a copy of a moment at which much was on its way
// to storage.
func (s *storm) forgetsUploads(d draws) bool {
	if !s.queue.works() {
		return false
	}
	s.busy(d)
	slow := d.between(20*time.Second, time.Minute)
	for _, at := range s.world.sites {
		at.slow = slow
		s.note("the storage element of %s takes %s longer", at.name, at.slow)
		s.after(slow, func() { at.slow = 0 })
	}
	gone := slow + d.between(20*time.Second, 40*time.Second) // what was on its way has arrived
	s.after(d.between(5*time.Second, slow), func() {
		if s.queue.away {
			return
		}
		c := s.copied()
		s.after(gone, func() {
			if !s.calmed {
				s.goesBackTo(c)
			}
		})
	})
	return true
}

// leavesInHaste has a site lose the queue, and its master told to stop shortly before the
// queue is there again.
func (s *storm) leavesInHaste(d draws, master *node, live []*node) {
	within := d.between(200*time.Millisecond, 2*time.Second)
	cut := d.between(10*time.Second, time.Minute)
	s.cutsOff(live, cut)
	s.after(cut-within-d.between(0, office.SettleTime), func() {
		if master.alive && !s.calmed {
			master.stop(within)
		}
	})
}

// cancelsUnheard has a user cancel what runs at a site that the queue does not hear, and
// think better of it. The site's storage element may take files without an answer meanwhile.
func (s *storm) cancelsUnheard(d draws, at *site, live []*node) {
	cut := d.between(5*time.Second, time.Minute)
	s.cutsOff(live, cut)
	if d.one(2) {
		s.mutes(at, cut+d.between(0, 20*time.Second))
	}
	s.after(d.between(0, cut), func() {
		for _, flow := range s.flows {
			if s.cancelsLeased(d, at, flow) {
				s.after(d.between(0, 20*time.Second), func() { s.retries(flow) })
			}
		}
	})
}

// cancelsLeased cancels every other task of a workflow that a site has.
func (s *storm) cancelsLeased(d draws, at *site, flow task.WorkflowID) (any bool) {
	if s.calmed || !s.queue.works() {
		return false
	}
	for _, state := range s.queue.tasks(flow) {
		if state.State != task.Leased || state.Site != at.name || d.one(2) {
			continue
		}
		any = s.queue.must(func(t *taskqueue.Turn) error {
			_, err := s.queue.Rules.CancelTask(t, state.ID)
			return err
		}) || any
	}
	s.note("a user cancels tasks of %s: %v", flow, any)
	return any
}

// retries retries a workflow, once the queue takes that.
func (s *storm) retries(flow task.WorkflowID) {
	err := s.queue.Update(func(t *taskqueue.Turn) error {
		_, err := s.queue.Rules.RetryWorkflow(t, flow, false)
		return err
	})
	if ofTheDisk(err) {
		s.after(time.Second, func() { s.retries(flow) })
	} else if err != nil && !errors.Is(err, taskqueue.ErrConflict) && !s.restored() {
		s.judge.Errorf("a user retries %s in vain: %v", flow, err)
	}
}
