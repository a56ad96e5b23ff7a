package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// storm has the faults of a plan happen in a world.
type storm struct {
	*timeline
	world    *world
	queue    *queue
	plan     *Plan
	flows    []task.WorkflowID
	clients  []*client
	parts    bool // the network is in parts
	calmed   bool // the faults are over
	wentBack bool // the queue went on from a copy: what it was told later is gone
	injected map[string]int
	recovery time.Duration
	copies   []copied // backups, the oldest first
	poison   map[task.ID]bool
	long     task.ID                  // that runs for an hour
	twice    task.ID                  // that fails twice
	bad      map[string]time.Duration // hosts at which all payloads fail, until when
	drained  map[task.Site]bool
	lasts    time.Duration // payloads that start before that last long
}

// copied is a backup with the workflows that it knows.
type copied struct {
	backup
	flows []task.WorkflowID
}

// draws are what a fault draws from.
type draws struct{ *rand.Rand }

func (d draws) one(of int) bool { return d.IntN(of) == 0 }

func (d draws) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)))
}

// shape is how large a run is.
type shape struct {
	sites, pilots, slots, makers int
	later                        int // workflows that come one after the other
	payload                      time.Duration
	logs                         int
}

func (p *Plan) shape(d draws) shape {
	if p.Large {
		return shape{sites: 5, pilots: 60, slots: 2, makers: 250, later: 9, payload: 20 * time.Minute, logs: 4 << 10}
	}
	s := shape{sites: 1 + d.IntN(2), pilots: 2 + d.IntN(5), slots: 1 + d.IntN(3), makers: 10 + d.IntN(30), payload: 20 * time.Second}
	if s.sites == 2 {
		s.pilots = min(s.pilots, 4)
	}
	if d.one(3) {
		s.logs = 64 << 10
	}
	return s
}

// settings draws how a site schedules: mostly as it does by default.
func (d draws) settings(site *taskqueue.SiteRecord) {
	if !d.one(3) {
		return
	}
	site.Prefill = d.IntN(4)
	site.LocalityWait = time.Duration(d.IntN(4)) * 2 * time.Second
	site.Replicate = []string{"", "alpha(1)", "plans(0,2)", "alpha(2);plans(2,3,eliminate)"}[d.IntN(4)]
	if d.one(4) {
		site.RoundEvery = 500 * time.Millisecond
	}
}

// newStorm makes the world of a plan; change, if any, comes before all pilots.
func newStorm(judge Judge, plan *Plan, change ...func(*world)) *storm {
	w := newWorldOf(judge, plan.Seed, taskqueue.DefaultConfig())
	s := &storm{
		timeline: w.timeline, world: w, queue: w.queue, plan: plan, injected: make(map[string]int),
		poison: make(map[task.ID]bool), bad: make(map[string]time.Duration), drained: make(map[task.Site]bool),
	}
	w.bounded = true
	for _, do := range change {
		do(w)
	}
	if d := (draws{rand.New(rand.NewPCG(plan.Seed, 21))}); !plan.Large && d.one(4) {
		w.capacity = task.Bytes(12+d.IntN(40)) * task.MiB // of files of 1 MiB, which go for want of room
	}
	d := draws{rand.New(rand.NewPCG(plan.Seed, 3))}
	shape := plan.shape(d)
	w.logBytes = func(id task.AttemptID) int { return shape.logs >> (4 * (id.Counter % 4)) } // most are short
	w.run1 = func(id task.ID, n *node) time.Duration {
		switch {
		case s.poison[id]:
			n.after(time.Second, func() {
				if n.alive {
					n.kill()
				}
			})
			return time.Hour
		case id == s.long:
			return time.Hour
		case s.isBad(n):
			return 5 * time.Millisecond
		case s.now() < s.lasts:
			return s.between(shape.payload, 4*shape.payload)
		}
		return s.between(shape.payload/200, shape.payload)
	}
	w.fails = func(id task.ID, n *node) bool { return s.isBad(n) || id == s.twice && w.started[id] <= 2 }
	for _, name := range []task.Site{"siteA", "siteB", "siteC", "siteD", "siteE"}[:shape.sites] {
		at := w.addSite(name, d.settings)
		started := w.start(at, shape.pilots, shape.slots)
		if !plan.Large {
			continue
		}
		for _, n := range started {
			n.lives(walltime)
		}
		at.submits(d.IntN(3), shape.pilots+10, shape.slots)
	}
	s.net.Every(lookEvery, func() { s.queue.atAGlance(s.judgeLeases) })
	s.more(shape.makers)
	for i := range shape.later {
		s.after(time.Duration(i+1)*laterEvery, func() { s.comes(shape.makers) })
	}
	for range d.IntN(4) {
		s.addClient(d)
	}
	if slices.ContainsFunc(plan.Faults, func(f Fault) bool { return f.Kind == "backup restored" || f.Kind == "bit rot" }) {
		every := d.between(5*time.Second, 2*time.Minute)
		if plan.Large {
			every *= 20 // of a whole day
		}
		s.keepCopies(every)
	}
	return s
}

// keepCopies backs the queue's store up, now and every so often until the faults are
// over.
func (s *storm) keepCopies(every time.Duration) {
	if s.calmed {
		return
	}
	if !s.queue.away {
		s.copies = append(s.copies, s.copied())
	}
	s.after(every, func() { s.keepCopies(every) })
}

func (s *storm) copied() copied { return copied{s.queue.backup(), slices.Clone(s.flows)} }

func (s *storm) isBad(n *node) bool { return s.now() < s.bad[n.host] }

func (s *storm) between(least, most time.Duration) time.Duration {
	return draws{s.random}.between(least, most)
}

// blow lets the faults happen, then waits for what must come of the work.
func (s *storm) blow() {
	began := s.now()
	for _, f := range s.plan.Faults {
		s.run(began + f.At - s.now())
		s.inject(f)
	}
	d := draws{rand.New(rand.NewPCG(s.plan.Seed, 4))}
	s.run(d.between(0, time.Minute))
	s.calm()
	s.verdict()
}

// more submits a workflow; its tasks bear as many lost pilots as there may be.
func (s *storm) more(makers int) {
	name := fmt.Sprint("flow", len(s.flows))
	work := named(name, tree(makers))
	for i := range work {
		work[i].Retries = 50
	}
	if id := s.world.submit(name, work...); id != "" {
		s.flows = append(s.flows, id)
	}
}

// laterEvery is how long after a workflow of a large run the next one comes.
const laterEvery = 2 * time.Hour

// comes submits a workflow, once the queue takes it.
func (s *storm) comes(makers int) {
	if !s.queue.works() {
		s.after(time.Minute, func() { s.comes(makers) })
		return
	}
	s.more(makers)
}

// named gives tasks and what they make names of their own.
func named(name string, work []task.Task) []task.Task {
	for i := range work {
		work[i].ID = task.ID("/" + name + "." + work[i].ID.Name())
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
	return work
}

// calm ends all faults and sees to it that every site has two pilots.
func (s *storm) calm() {
	s.note("the faults stop")
	s.calmed = true
	s.queue.link.loseCall, s.queue.link.loseReply, s.queue.link.delayCall, s.queue.link.doubles = 0, 0, 0, 0
	s.queue.lag, s.queue.disk.power = 0, noCut
	if s.queue.away {
		s.queue.start()
	}
	s.queue.diskFails(false, false)
	s.net.Latency = latency
	clear(s.bad)
	s.world.part(nil)
	for _, n := range s.world.pilots {
		n.resume()
		n.deaf, n.full, n.shut, n.alone = false, false, false, false
		if n.offline {
			n.cutOff(false)
		}
	}
	for _, site := range s.world.sites {
		site.down, site.drops, site.lies, site.mute, site.slow = false, false, false, false, 0
		if s.drained[site.name] {
			s.drainSite(site, false)
		}
	}
	s.man()
}

// crew is how many pilots a batch system has run at each site at least.
const crew = 2

// man starts pilots where there are fewer.
func (s *storm) man() {
	for _, site := range s.world.sites {
		for len(site.live()) < crew && s.queue.works() {
			if s.world.startOne(site, 2, nil) == nil {
				break
			}
		}
	}
	if s.calmed {
		s.after(time.Minute, s.man)
	}
}

// manned tells whether no site waits for pilots, which may not join before those of an
// earlier release have left.
func (s *storm) manned() bool {
	return !slices.ContainsFunc(s.world.sites, func(at *site) bool { return at.coming > 0 || len(at.live()) < crew })
}
