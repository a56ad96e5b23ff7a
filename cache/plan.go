package cache

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// PlannerConfig says who a Planner plans for and bounds it. Zero numbers mean
// the defaults.
type PlannerConfig struct {
	Self task.PeerID // never fetched from
	Site task.Site   // whose storage element is read first

	PlannerLimits
	PlannerTries
	PlannerPatience
	PlannerDoubts
}

// PlannerLimits bound what goes on at once.
type PlannerLimits struct {
	MaxTransfers int // at once: 16, more would not make a LAN card faster
	MaxPerPeer   int // at once from one peer: 4, half of what it serves at all
	MaxPerSE     int // at once from one storage element: 4, many pilots read it
	// PartsFrom is the size from which parts come from up to MaxSources peers:
	// 64 MiB and 4.
	PartsFrom  task.Bytes
	MaxSources int
}

// PlannerTries say how often a source is tried, and how soon again.
type PlannerTries struct {
	PeerTries int // of an unreachable peer: 2
	Rounds    int // of locating, peers and storage elements: 3
	HomeAsks  int // per round, before reading without a grant: 6
	// Backoff is the mean pause before the second round, doubled for each
	// further one: 500 ms. The pause of an unreachable peer is a quarter of it.
	Backoff time.Duration
}

// PlannerPatience says how long others are waited for.
type PlannerPatience struct {
	// BusyPatience is how long busy peers are waited for before a storage
	// element is read, and until others are looked for: 10 s; BusyLimit is how long where
	// there is none to read: 1 min.
	BusyPatience, BusyLimit time.Duration
	RenewEvery              time.Duration // of a grant: 2.5 s, a quarter of its length
	// HomePatience is how long a home may keep a file waiting before it is read without
	// its consent: 45 s, long for three readers in a row that a dead element keeps
	// waiting, and what the read takes at HomeRate, 512 KiB a second, and up to half of
	// that once more, so that not all who wait begin at once.
	HomePatience time.Duration
	HomeRate     task.Bytes
}

// PlannerDoubts say when peers that give nothing are left alone.
type PlannerDoubts struct {
	// PeersInVain is how many transfers from peers may fail in a round before a storage
	// element is read where there is one: 4. Whoever lies about locations can name any
	// number of peers.
	PeersInVain int
	// ShunAfter is how many transfers from one peer fail, of whatever files and more than
	// succeed, until others are asked instead: 2; for Shun, 5 s, longer each further time
	// up to ShunMost, 5 min.
	ShunAfter      int
	Shun, ShunMost time.Duration
}

func (c PlannerConfig) withDefaults() PlannerConfig {
	setDefault(&c.MaxTransfers, 16)
	setDefault(&c.MaxPerPeer, 4)
	setDefault(&c.MaxPerSE, 4)
	setDefault(&c.PartsFrom, 64*task.MiB)
	setDefault(&c.MaxSources, 4)
	setDefault(&c.PeerTries, 2)
	setDefault(&c.Rounds, 3)
	setDefault(&c.HomeAsks, 6)
	setDefault(&c.Backoff, 500*time.Millisecond)
	setDefault(&c.BusyPatience, 10*time.Second)
	setDefault(&c.BusyLimit, time.Minute)
	setDefault(&c.RenewEvery, 2500*time.Millisecond)
	setDefault(&c.PeersInVain, 4)
	setDefault(&c.ShunAfter, 2)
	setDefault(&c.Shun, 5*time.Second)
	setDefault(&c.ShunMost, 5*time.Minute)
	setDefault(&c.HomePatience, 45*time.Second)
	setDefault(&c.HomeRate, 512*task.KiB)
	return c
}

// Planner decides from where one pilot gets the files it lacks: one fetch per
// file however many wait for it, first from peers, then, with the consent of
// the file's home, from a storage element, the own site's before another's.
// Busy peers are waited for, unreachable ones tried twice, those that sent
// wrong bytes avoided; everything is bounded and ends in Ready or Failed. Not
// safe for concurrent use.
type Planner struct {
	config PlannerConfig
	random *rand.Rand

	fetches   map[task.FileKey]*fetch
	waiting   map[uint64]task.FileKey // waiter to file
	transfers map[uint64]*transfer
	asks      map[uint64]task.FileKey
	serial    uint64 // of transfers and asks

	unlocated []task.FileKey // to be located at the next Tick
	queue     []task.FileKey // ready for their next step, in order
	wakes     []wake         // in order of time
	peers     map[task.PeerID]*peerState
	elements  map[task.Site]int // reads and questions under way

	now time.Time
	out []PlanAction
}

// wake is when a fetch has something to do; outdated ones are harmless.
type wake struct {
	at  time.Time
	key task.FileKey
}

// transfer is one that the shell carries out.
type transfer struct {
	key     task.FileKey
	holders []Holder // or
	replica *replica
}

// peerState is what is known of a peer whatever the file.
type peerState struct {
	inFlight  int
	busy      int // answers since the last transfer that succeeded
	busyUntil time.Time
	faults    int // transfers that failed, less those that succeeded
	shunned   time.Time
}

// fault books a transfer that failed.
func (s *peerState) fault(now time.Time, c *PlannerConfig) {
	if s.faults++; s.faults < c.ShunAfter || now.Before(s.shunned) {
		return
	}
	s.shunned = now.Add(min(c.ShunMost, c.Shun<<min(s.faults-c.ShunAfter, 16)))
}

// idle tells whether there is nothing to remember.
func (s *peerState) idle(now time.Time) bool {
	return s.inFlight == 0 && !now.Before(s.busyUntil) && !now.Before(s.shunned)
}

// maxPeers is how many peers are remembered before those with nothing to remember are
// forgotten.
const maxPeers = 4096

// NewPlanner returns a Planner without files. The random numbers spread
// choices and pauses.
func NewPlanner(config PlannerConfig, random *rand.Rand) *Planner {
	return &Planner{
		config: config.withDefaults(), random: random,
		fetches: map[task.FileKey]*fetch{}, waiting: map[uint64]task.FileKey{},
		transfers: map[uint64]*transfer{}, asks: map[uint64]task.FileKey{},
		peers: map[task.PeerID]*peerState{}, elements: map[task.Site]int{},
	}
}

// Deadline is when the next Tick is due; zero for never. It lies in the past
// when files wait to be located: feed all Wants of a moment, then Tick, and
// one question goes out for all.
func (p *Planner) Deadline() time.Time {
	if len(p.unlocated) > 0 {
		return p.now
	}
	if len(p.wakes) > 0 {
		return p.wakes[0].at
	}
	return time.Time{}
}

// Step takes in an event and returns what to do, in order.
func (p *Planner) Step(now time.Time, event PlanEvent) []PlanAction {
	p.now, p.out = now, nil
	switch e := event.(type) {
	case Want:
		p.want(e)
	case Cancelled:
		p.cancelled(e.Waiter)
	case Located:
		p.located(e)
	case HomeAnswered:
		p.homeAnswered(e)
	case Progress:
		p.progress(e.Transfer)
	case TransferDone:
		p.transferDone(e)
	case Tick:
		p.tick()
	}
	p.dispatch()
	return p.out
}

// Waiting tells how many wishes are open.
func (p *Planner) Waiting() int { return len(p.waiting) }

func (p *Planner) emit(action PlanAction) { p.out = append(p.out, action) }

func (p *Planner) next() uint64 {
	p.serial++
	return p.serial
}

func (p *Planner) want(e Want) {
	key := e.File.Key()
	if e.Cached {
		p.emit(Ready{Waiter: e.Waiter, Key: key, Source: task.SourceLocal})
		return
	}
	f := p.fetches[key]
	if f == nil {
		f = &fetch{key: key}
		p.fetches[key] = f
		p.locate(f)
	}
	f.learnFile(e.File, e.Remote, p.config.Site)
	f.waiters = append(f.waiters, e.Waiter)
	p.waiting[e.Waiter] = key
}

// locate puts a fetch among those that are located at the next Tick.
func (p *Planner) locate(f *fetch) {
	f.phase, f.looked = unlocated, p.now
	p.unlocated = append(p.unlocated, f.key)
}

func (p *Planner) cancelled(waiter uint64) {
	f := p.fetches[p.waiting[waiter]]
	if f == nil {
		return
	}
	delete(p.waiting, waiter)
	f.waiters = slices.DeleteFunc(f.waiters, func(w uint64) bool { return w == waiter })
	if len(f.waiters) > 0 {
		return
	}
	p.emit(Abandon{Key: f.key})
	if f.phase == moving || f.phase == stopping {
		f.phase = stopping // ends with its transfer
		return
	}
	p.end(f, GivenBack)
}

// end forgets a fetch and tells the home.
func (p *Planner) end(f *fetch, ending Ending) {
	if f.granted || f.phase == asking {
		p.emit(FinishGrant{Key: f.key, End: ending})
	}
	p.endAsk(f)
	delete(p.fetches, f.key)
	for _, waiter := range f.waiters {
		delete(p.waiting, waiter)
	}
}

// sleep lets a fetch rest until a time.
func (p *Planner) sleep(f *fetch, at time.Time) {
	f.phase, f.wake = resting, at
	p.wakeAt(at, f.key)
}

func (p *Planner) wakeAt(at time.Time, key task.FileKey) {
	i, _ := slices.BinarySearchFunc(p.wakes, at, func(w wake, at time.Time) int {
		if w.at.After(at) {
			return 1
		}
		return -1
	})
	p.wakes = slices.Insert(p.wakes, i, wake{at, key})
}

func (p *Planner) tick() {
	for len(p.wakes) > 0 && !p.now.Before(p.wakes[0].at) {
		key := p.wakes[0].key
		p.wakes = p.wakes[1:]
		f := p.fetches[key]
		switch {
		case f == nil:
		case f.phase == resting && p.now.Before(f.wake):
		case f.phase == resting && p.now.Sub(f.looked) < p.config.BusyPatience:
			p.enqueue(f)
		case f.phase == resting: // a new round, or others may have it by now
			p.locate(f)
		case f.phase == asking && !p.now.Before(f.unheeded):
			f.note("home", "it kept the file waiting for too long")
			p.endAsk(f)
			f.granted, f.renewed = true, p.now
			p.enqueue(f)
		case f.phase == queued && f.granted:
			p.renew(f) // it waits for its turn at the storage element
			p.wakeAt(p.now.Add(p.config.RenewEvery), key)
		}
	}
	var keys []task.FileKey
	for _, key := range p.unlocated {
		if f := p.fetches[key]; f != nil && f.phase == unlocated {
			f.phase = locating
			keys = append(keys, key)
		}
	}
	p.unlocated = nil
	if len(keys) > 0 {
		p.emit(Locate{Keys: keys, Doubted: p.doubted(keys)})
	}
}

// doubted are the peers that are shunned, and those that some files were not got from in
// earlier rounds.
func (p *Planner) doubted(keys []task.FileKey) []task.PeerID {
	var peers []task.PeerID
	for peer, state := range p.peers {
		if state.shunned.After(p.now) {
			peers = append(peers, peer)
		}
	}
	for _, key := range keys {
		peers = append(peers, p.fetches[key].tried()...)
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

// renew tells the home that a granted read is alive, not too often.
func (p *Planner) renew(f *fetch) {
	if f.granted && p.now.Sub(f.renewed) >= p.config.RenewEvery {
		f.renewed = p.now
		p.emit(RenewGrant{Key: f.key})
	}
}

// jitter is a random part of a span ("full jitter").
func (p *Planner) jitter(span time.Duration) time.Duration {
	return time.Duration(p.random.Float64() * float64(span))
}
