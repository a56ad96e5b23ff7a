package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// kind is one way in which things go wrong, and how rarely a seed has it: of two times
// rare seeds one. It tells whether there was anything to break.
type kind struct {
	name string
	rare int
	do   func(s *storm, d draws, at *site, live []*node) bool
}

// kinds are all of them. Those that come last among equals change the plans of fewer
// seeds.
var kinds = []kind{
	{"pilot killed", 1, func(_ *storm, d draws, _ *site, live []*node) bool {
		return len(live) > 1 && d.victim(live).dies()
	}},
	{"master killed", 1, func(_ *storm, _ draws, at *site, live []*node) bool {
		return len(live) > 1 && at.master() != nil && at.master().dies()
	}},
	{"pilot stopped", 1, func(_ *storm, d draws, _ *site, live []*node) bool {
		return len(live) > 1 && d.victim(live).ends(d.between(time.Second, 30*time.Second))
	}},
	{"master stopped", 1, func(_ *storm, d draws, at *site, live []*node) bool {
		return len(live) > 1 && at.master() != nil && at.master().ends(d.between(time.Second, 30*time.Second))
	}},
	{"pilot late", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		return s.queue.works() && s.world.startOne(at, 1+d.IntN(3), nil) != nil
	}},
	{"queue killed", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		return s.kills(d.between(time.Second, 2*time.Minute))
	}},
	{"way to the queue cut", 1, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) == 0 {
			return false
		}
		victim := d.victim(live)
		victim.cutOff(true)
		s.after(d.between(time.Second, 15*time.Minute), func() { victim.cutOff(false) })
		return true
	}},
	{"site cut in two", 1, func(s *storm, d draws, _ *site, live []*node) bool { return s.partition(d, live) }},
	{"storage away", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		s.note("the storage element of %s is away", at.name)
		return s.holds(&at.down, d.between(time.Second, 5*time.Minute))
	}},
	{"calls lost", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.link.loseCall += 1 + d.IntN(4)
		return true
	}},
	{"answers lost", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.link.loseReply += 1 + d.IntN(4)
		return true
	}},
	{"work comes", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		if !s.queue.works() || len(s.flows) >= 4 {
			return false
		}
		s.more(10 + d.IntN(20))
		return true
	}},
	{"mode switched", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		modes := []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized, taskqueue.ModeIsolated}
		if !s.queue.works() {
			return false
		}
		at.setMode(modes[d.IntN(len(modes))])
		return true
	}},
	{"power cut before a sync", 1, func(s *storm, _ draws, _ *site, _ []*node) bool {
		return s.cutsPower(beforeSync)
	}},
	{"power cut after a sync", 1, func(s *storm, _ draws, _ *site, _ []*node) bool {
		return s.cutsPower(afterSync)
	}},
	{"disk full", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.diskFails(true, false)
		s.after(d.between(time.Second, 3*time.Minute), func() { s.queue.diskFails(false, s.queue.disk.sick) })
		return true
	}},
	{"syncs fail", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.diskFails(false, true)
		s.after(d.between(time.Second, time.Minute), func() { s.queue.diskFails(s.queue.disk.full, false) })
		return true
	}},
	{"disk slow", 1, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.note("the queue's disk is slow")
		s.queue.lag = d.between(10*time.Millisecond, 2*time.Second)
		s.after(d.between(time.Second, 5*time.Minute), func() { s.queue.lag = 0 })
		return true
	}},
	{"pilot paused", 1, func(s *storm, d draws, _ *site, live []*node) bool {
		return len(live) > 0 && s.pauses(d.victim(live), d.between(time.Second, 20*time.Minute))
	}},
	{"master paused", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		return at.master() != nil && s.pauses(at.master(), d.between(time.Second, 20*time.Minute))
	}},
	{"site killed", 2, func(s *storm, _ draws, at *site, live []*node) bool {
		for _, n := range live {
			n.kill()
		}
		s.after(time.Minute, s.man)
		return len(live) > 0
	}},
	{"black hole", 2, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) < 2 {
			return false
		}
		n := d.victim(live)
		s.note("all payloads fail at %s", n.host)
		s.bad[n.host] = s.now() + d.between(time.Minute, 10*time.Minute)
		return true
	}},
	{"poison", 4, func(s *storm, d draws, _ *site, _ []*node) bool { return s.poisons(d) }},
	{"copy lost", 2, func(s *storm, d draws, at *site, _ []*node) bool { return s.spoils(d, at, true) }},
	{"copy damaged", 2, func(s *storm, d draws, at *site, _ []*node) bool { return s.spoils(d, at, false) }},
	{"stored and dropped", 4, func(s *storm, d draws, at *site, _ []*node) bool {
		s.note("the storage of %s drops what it takes", at.name)
		return s.holds(&at.drops, d.between(time.Second, time.Minute))
	}},
	{"network slow", 2, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.net.Latency = d.between(2*time.Millisecond, 300*time.Millisecond)
		s.note("a message takes %s", s.net.Latency)
		s.after(d.between(time.Second, 5*time.Minute), func() { s.net.Latency = latency })
		return true
	}},
	{"cache lost", 2, func(s *storm, d draws, _ *site, live []*node) bool {
		return len(live) > 0 && d.victim(live).loses(d)
	}},
	{"backup restored", 3, func(s *storm, d draws, _ *site, _ []*node) bool { return s.restores(d) }},
	{"bit rot", 3, func(s *storm, d draws, _ *site, _ []*node) bool { return s.rots(d) }},
	{"answers cut", 2, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) == 0 {
			return false
		}
		n := d.victim(live)
		s.note("no answer of the queue reaches %s", n.id)
		return s.holds(&n.deaf, d.between(time.Second, 15*time.Minute))
	}},
	{"calls late", 2, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.link.delayCall += 1 + d.IntN(4)
		return true
	}},
	{"calls twice", 2, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.link.doubles += 1 + d.IntN(4)
		return true
	}},
	{"registration lost", 3, func(s *storm, _ draws, at *site, _ []*node) bool {
		return s.queue.works() && s.registersInVain(at)
	}},
	{"clock drifts", 2, func(_ *storm, d draws, _ *site, live []*node) bool {
		if len(live) == 0 {
			return false
		}
		d.victim(live).drift(0.95 + d.Float64()/10)
		return true
	}},
	{"queue's wall clock jumps", 3, func(s *storm, d draws, _ *site, _ []*node) bool {
		s.queue.skew += d.between(-time.Hour, time.Hour)
		s.note("the wall clock of the queue is wrong by %s", s.queue.skew)
		return true
	}},
	{"storage slow", 2, func(s *storm, d draws, at *site, _ []*node) bool {
		at.slow = d.between(time.Second, 2*time.Minute)
		s.note("the storage element of %s takes %s longer", at.name, at.slow)
		s.after(d.between(time.Second, 5*time.Minute), func() { at.slow = 0 })
		return true
	}},
	{"storage lies", 3, func(s *storm, d draws, at *site, _ []*node) bool {
		s.note("the storage element of %s gives an HTML page for every file", at.name)
		return s.holds(&at.lies, d.between(time.Second, 5*time.Minute))
	}},
	{"node's disk full", 2, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) < 2 {
			return false
		}
		n := d.victim(live)
		s.note("the disk of %s is full", n.host)
		return s.holds(&n.full, d.between(time.Second, 5*time.Minute))
	}},
	{"site drained", 3, func(s *storm, d draws, at *site, _ []*node) bool {
		if !s.queue.works() || s.drained[at.name] {
			return false
		}
		s.drained[at.name] = true
		s.drainSite(at, true)
		s.after(d.between(time.Second, 15*time.Minute), func() { s.drainSite(at, false) })
		return true
	}},
	{"pilot drained", 2, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) < 2 || !s.queue.works() {
			return false
		}
		n := d.victim(live)
		s.note("an operator drains %s", n.id)
		return s.queue.Update(func(t *taskqueue.Turn) error { return s.queue.Rules.DrainPilot(t, n.id) }) == nil
	}},
}

// nodeKinds are drawn apart from the others; see Plan.cutOffNodes.
var nodeKinds = []kind{
	{"node without storage", 1, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) < 2 {
			return false
		}
		n := d.victim(live)
		s.note("no storage element answers %s", n.id)
		return s.holds(&n.shut, d.between(10*time.Second, 15*time.Minute))
	}},
	{"node without peers", 1, func(s *storm, d draws, _ *site, live []*node) bool {
		if len(live) < 2 {
			return false
		}
		n := d.victim(live)
		s.note("no pilot gives %s a file", n.id)
		return s.holds(&n.alone, d.between(10*time.Second, 15*time.Minute))
	}},
}

// releases are drawn apart as well; see Plan.nextRelease.
var releases = []kind{
	{"next release", 1, func(s *storm, d draws, at *site, _ []*node) bool {
		at.speaks++
		at.coming++
		s.comesWithTheNext(at, 1+d.IntN(3))
		return true
	}},
}

// comesWithTheNext starts a pilot, again and again until it may join: those of the release
// before leave first.
func (s *storm) comesWithTheNext(at *site, slots int) {
	if !s.queue.works() || s.world.startOne(at, slots, nil) == nil {
		s.after(20*time.Second, func() { s.comesWithTheNext(at, slots) })
		return
	}
	at.coming--
}

// inject has a fault happen, if there is anything to break.
func (s *storm) inject(f Fault) {
	all := slices.Concat(kinds, nodeKinds, releases, situations, lateSituations)
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == f.Kind })
	d := draws{rand.New(rand.NewPCG(f.seed, f.seed))}
	at := s.world.sites[d.IntN(len(s.world.sites))]
	if all[i].do(s, d, at, at.live()) {
		s.note("fault %d: %s", f.Number, f.Kind)
		s.injected[f.Kind]++
	}
}

func (d draws) victim(live []*node) *node { return live[d.IntN(len(live))] }

// holds has something be wrong for a while.
func (s *storm) holds(wrong *bool, d time.Duration) bool {
	*wrong = true
	s.after(d, func() { *wrong = false })
	return true
}

func (n *node) dies() bool {
	n.kill()
	return true
}

func (n *node) ends(within time.Duration) bool {
	n.stop(within)
	return true
}

// registersInVain has a pilot register that never hears the answer, and ends.
func (s *storm) registersInVain(at *site) bool {
	number := len(s.world.pilots)
	peer := task.PeerID(fmt.Sprintf("peer%05dx%d", number, s.injected["registration lost"]))
	return s.queue.must(func(t *taskqueue.Turn) error {
		_, err := s.queue.Rules.Register(t, taskqueue.Registration{
			Site: at.name, Peer: peer, Overlay: at.speaks, PilotDescription: taskqueue.PilotDescription{
				Slots: 2, Host: "host-" + string(peer), Resources: task.Resources{Cores: 2, Memory: task.GiB, Disk: task.GiB},
				Addresses: []string{"/memory/" + string(peer)}, DataURL: "https://" + string(peer) + ":1", Ends: s.net.Now().Add(declaredLife),
			},
		})
		return err
	})
}

// drainSite stops hand-outs to a site, or lets them go on, once the queue takes that.
func (s *storm) drainSite(at *site, drain bool) {
	if !s.queue.works() || s.queue.Update(func(t *taskqueue.Turn) error { return s.queue.Rules.DrainSite(t, at.name, drain) }) != nil {
		s.after(time.Second, func() { s.drainSite(at, drain) })
		return
	}
	s.note("an operator drains %s: %v", at.name, drain)
	s.drained[at.name] = drain
}

// kills ends the queue for a while.
func (s *storm) kills(pause time.Duration) bool {
	if s.queue.away {
		return false
	}
	s.queue.stop()
	s.after(pause, s.queue.startAgain)
	return true
}

// cutsPower has the power of the queue's machine fail at its next commit.
func (s *storm) cutsPower(at powerCut) bool {
	if !s.queue.works() {
		return false
	}
	s.queue.disk.power = at
	return true
}

func (s *storm) pauses(n *node, d time.Duration) bool {
	if n.paused {
		return false
	}
	n.pause()
	s.after(d, n.resume)
	return true
}

// partition cuts some pilots of a site off from the others, with or without the
// way to the queue.
func (s *storm) partition(d draws, live []*node) bool {
	if s.parts || len(live) < 2 {
		return false
	}
	s.parts = true
	group := live[:1+d.IntN(len(live)-1)]
	offline := d.one(2)
	s.world.part(group)
	for _, n := range group {
		if offline {
			n.cutOff(true)
		}
	}
	s.after(d.between(5*time.Second, 30*time.Minute), func() {
		s.parts = false
		s.world.part(nil)
		for _, n := range group {
			if offline {
				n.cutOff(false)
			}
		}
	})
	return true
}

// poisons submits a task that kills whatever pilot runs it, beside all other work.
func (s *storm) poisons(d draws) bool {
	if !s.queue.works() || len(s.poison) > 1 {
		return false
	}
	name := fmt.Sprint("poison", len(s.poison))
	flow := s.world.submit(name, named(name, []task.Task{one("t")})...)
	if flow == "" {
		return false
	}
	s.poison[task.NewID(flow, name+".t")] = true
	for i := range 6 {
		s.after(time.Duration(i+1)*d.between(10*time.Second, time.Minute), s.man)
	}
	return true
}

// spoils takes a copy that an attempt has stored, or gives it other bytes.
func (s *storm) spoils(d draws, at *site, gone bool) bool {
	var urls []string
	for _, url := range slices.Sorted(maps.Keys(at.stored)) {
		if name, _ := taskqueue.NameAt("file:///"+string(at.name), url); task.StoredFile(name) != "" {
			urls = append(urls, url)
		}
	}
	if len(urls) == 0 {
		return false
	}
	url := urls[d.IntN(len(urls))]
	at.spoilt[url] = true
	if gone {
		s.note("the copy %s is lost", url)
		delete(at.stored, url)
	} else {
		s.note("the copy %s is damaged", url)
		at.stored[url] = task.Produced{URL: url, Digest: digestOf("an HTML page")}
	}
	return true
}

// loses drops a file of a pilot's cache, whatever it is kept for.
func (n *node) loses(d draws) bool {
	held := n.files.Held()
	if len(held) == 0 {
		return false
	}
	n.note("%s loses a file of its cache", n.id)
	n.files.Drop(held[d.IntN(len(held))])
	return true
}

// restores puts the queue back to a copy: what was submitted later is gone.
func (s *storm) restores(d draws) bool {
	if len(s.copies) == 0 {
		return false
	}
	s.goesBackTo(s.copies[d.IntN(len(s.copies))])
	return true
}

func (s *storm) goesBackTo(c copied) {
	s.wentBack = true
	if !s.queue.away {
		s.queue.stop()
	}
	s.flows = slices.Clone(c.flows)
	s.queue.restore(c.backup)
	for _, site := range s.world.sites {
		s.drained[site.name] = s.queue.site(site.name).Draining
	}
}

// rots flips a bit of what the queue's disk holds. The next start notices, and the
// queue is put back to a copy.
func (s *storm) rots(d draws) bool {
	if len(s.copies) == 0 || s.queue.away {
		return false
	}
	table := s.queue.disk.rot(d.IntN(1<<30), d.IntN(1<<30))
	s.note("a bit flips in table %s", table)
	if s.queue.intact() {
		s.judge.Errorf("a bit has flipped in table %s, and nobody notices", table)
	}
	return s.restores(d)
}
