package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/agent"
)

// observations are what masters saw, of all sites.
type observations struct {
	mutex    sync.Mutex
	rounds   []time.Duration
	coverage float64 // the least
	peers    int     // that one pilot sent a round to, at most
	terms    int
	offices  map[int]office // by number of the site
	changed  chan struct{}  // closed when somebody takes one
	ended    map[int]bool   // pilots killed: what is left of them is not listened to
	// failovers that are over, after masters were killed and stopped.
	killed, hung []time.Duration
}

// office is the mastership of a site.
type office struct {
	pilot int       // number of the last one that took it
	lost  time.Time // when that one was killed or stopped; zero: it was not
	hung  bool      // it was stopped
}

func newObservations() observations {
	return observations{offices: make(map[int]office), ended: make(map[int]bool), changed: make(chan struct{}), coverage: 1}
}

// witness tells the observations what one pilot sees.
type witness struct {
	*observations
	site, pilot int
	joined      func() // called when the pilot has
}

// see takes in what happens to the pilot.
func (w witness) see(event agent.Event) {
	switch e := event.(type) {
	case agent.Joined:
		w.joined()
	case agent.TookOffice:
		w.inOffice(w.site, w.pilot)
	case agent.RoundDone:
		w.roundDone(e)
	}
}

func (w witness) roundDone(r agent.RoundDone) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if in := w.offices[w.site]; in.pilot != w.pilot || !in.lost.IsZero() {
		return // of a master that was stopped, to nobody
	}
	w.rounds = append(w.rounds, r.Took)
	w.peers = max(w.peers, r.Peers)
	if r.Members > 0 {
		w.coverage = min(w.coverage, float64(r.Answered)/float64(r.Members))
	}
}

func (o *observations) inOffice(site, pilot int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.ended[pilot] {
		return
	}
	o.terms++
	o.endFailover(site)
	o.offices[site] = office{pilot: pilot}
	close(o.changed)
	o.changed = make(chan struct{})
}

// lost notes that a pilot was killed, or stopped: perhaps a master.
func (o *observations) lost(site, pilot int, hung bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.ended[pilot] = o.ended[pilot] || !hung
	if in, taken := o.offices[site]; taken && in.pilot == pilot && in.lost.IsZero() {
		o.offices[site] = office{pilot: pilot, lost: time.Now(), hung: hung}
	}
}

// endFailover counts how long a site was without a master until now.
func (o *observations) endFailover(site int) {
	switch in := o.offices[site]; {
	case in.lost.IsZero():
	case in.hung:
		o.hung = append(o.hung, time.Since(in.lost))
	default:
		o.killed = append(o.killed, time.Since(in.lost))
	}
}

// master returns the pilot that took the mastership of a site last; changed is
// closed when another one does so at any site.
func (o *observations) master(site int) (pilot int, changed <-chan struct{}) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.offices[site].pilot, o.changed
}

// succession waits until another pilot than this one is a site's master.
func (o *observations) succession(ctx context.Context, site, before int) {
	for {
		now, changed := o.master(site)
		if now != before {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// masters lists the pilots in office by their numbers.
func (o *observations) masters() map[int]bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	masters := make(map[int]bool, len(o.offices))
	for _, in := range o.offices {
		masters[in.pilot] = true
	}
	return masters
}

// reset forgets the rounds of the time in which pilots joined.
func (o *observations) reset() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.rounds, o.coverage, o.peers = nil, 1, 0
}

// tell fills in what was seen since reset. Bytes are what all pilots have sent.
func (o *observations) tell(r *OverlayResult, bytes uint64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.rounds) > 0 {
		latency := Distribute(o.rounds)
		r.Rounds = &RoundFigures{
			Count: len(o.rounds), CoverageMin: o.coverage, PeersMax: o.peers, LatencyP50: latency.P50, LatencyP99: latency.P99,
			BytesPerPilot: float64(bytes) / float64(r.Pilots) / float64(len(o.rounds)) * float64(r.Sites),
		}
	}
	for _, in := range o.offices {
		if !in.lost.IsZero() { // nobody has taken it: the work was done before
			r.Master.Unfinished++
			r.Master.Failover = max(r.Master.Failover, time.Since(in.lost).Seconds())
		}
	}
	r.Master.Changes = max(0, o.terms-r.Sites) // sites without masters have no terms
	all := slices.Concat(o.killed, o.hung)
	r.Master.Failovers, r.Master.FailoversKilled, r.Master.FailoversHung = Distribute(all), Distribute(o.killed), Distribute(o.hung)
	if len(all) > 0 {
		r.Master.Failover = max(r.Master.Failover, slices.Max(all).Seconds())
	}
}
