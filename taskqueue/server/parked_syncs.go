package server

import (
	"sync"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// parkedSyncs knows the Syncs that are being served, and when each site's master was
// last heard. A Sync that waits here is a sign of life for as long as its
// connection stands.
type parkedSyncs struct {
	mutex sync.Mutex
	next  uint64
	sites map[task.Site]*siteSyncs
}

type siteSyncs struct {
	tickets map[*ticket]struct{}
	// told is the standing content of the last answer, to the given term.
	told     task.SyncReply
	toldTerm task.Term
	heard    sign
	newest   *ticket // of those that were heard
}

// sign is a sign of life of a site's master.
type sign struct {
	at   taskqueue.Instant
	term task.Term
	// assumed at the start of a server: who was away could hear nobody. It
	// holds up claims and counts for nothing else.
	assumed bool
}

// ticket is one Sync that is being served.
type ticket struct {
	number uint64
	term   task.Term
	by     *connection
	parked bool
	wake   chan struct{} // something changed for the site; holds one signal
	ended  chan struct{} // closed by a newer Sync
}

func (d *parkedSyncs) site(name task.Site) *siteSyncs {
	if d.sites == nil {
		d.sites = make(map[task.Site]*siteSyncs)
	}
	s := d.sites[name]
	if s == nil {
		s = &siteSyncs{tickets: make(map[*ticket]struct{})}
		d.sites[name] = s
	}
	return s
}

// arrive enters a Sync, so that no change is missed from now on.
func (d *parkedSyncs) arrive(site task.Site, term task.Term, by *connection) *ticket {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.next++
	t := &ticket{number: d.next, term: term, by: by, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	d.site(site).tickets[t] = struct{}{}
	return t
}

// park lets a Sync wait that was heard, and ends the older ones of its site.
func (d *parkedSyncs) park(site task.Site, t *ticket) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	t.parked = true
	d.endOlder(site, t)
}

// endOlder answers a site's older Syncs: the master has sent a newer one.
func (d *parkedSyncs) endOlder(site task.Site, t *ticket) {
	for other := range d.site(site).tickets {
		if other.number < t.number {
			select {
			case <-other.ended:
			default:
				close(other.ended)
			}
		}
	}
}

// supersede ends the older Syncs of a site for one that is answered at once.
func (d *parkedSyncs) supersede(site task.Site, t *ticket) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.endOlder(site, t)
}

// leave ends a Sync; a parked one was heard until now, unless a
// newer one was heard meanwhile.
func (d *parkedSyncs) leave(site task.Site, t *ticket, now taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	delete(s.tickets, t)
	if t.parked && t == s.newest {
		s.heard = sign{at: now, term: t.term}
	}
}

// hear notes a sign of life, a Sync of the term in office, unless a newer one was
// heard.
func (d *parkedSyncs) hear(site task.Site, t *ticket, now taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	if s.newest == nil || s.newest.number <= t.number {
		s.newest, s.heard = t, sign{at: now, term: t.term}
	}
}

// assume enters a sign of life that was not given to this server.
func (d *parkedSyncs) assume(site task.Site, term task.Term, at taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.site(site).heard = sign{at: at, term: term, assumed: true}
}

// brokenOff is when the connection ended by which the master of a term was
// heard last; 0: it stands, another call of that master is being served, or this
// server does not know.
func (d *parkedSyncs) brokenOff(site task.Site, term task.Term, now taskqueue.Instant) taskqueue.Instant {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.sites[site]
	if s == nil || s.newest == nil || s.newest.term != term {
		return 0
	}
	for t := range s.tickets {
		if t.term == term && t.by.endedBy(now) == 0 {
			return 0
		}
	}
	ended := s.newest.by.endedBy(now)
	if ended == 0 {
		return 0
	}
	return max(ended, s.heard.at)
}

// heard returns a site's last sign of life, which is of this moment while a
// Sync is parked; false if there was none.
func (d *parkedSyncs) heard(site task.Site, now taskqueue.Instant) (sign, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.sites[site]
	if s == nil {
		return sign{}, false
	}
	last := s.last(now)
	return last, last.at != 0
}

// signs returns the last sign of life of every site that has given one to
// this server.
func (d *parkedSyncs) signs(now taskqueue.Instant) map[task.Site]sign {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	signs := make(map[task.Site]sign, len(d.sites))
	for name, s := range d.sites {
		if last := s.last(now); last.at != 0 && !last.assumed {
			signs[name] = last
		}
	}
	return signs
}

func (s *siteSyncs) last(now taskqueue.Instant) sign {
	for t := range s.tickets {
		if t.parked {
			return sign{at: now, term: t.term}
		}
	}
	return s.heard
}

func (d *parkedSyncs) wake(site string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if s := d.sites[task.Site(site)]; s != nil {
		s.wake()
	}
}

func (d *parkedSyncs) wakeAll() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, s := range d.sites {
		s.wake()
	}
}

func (s *siteSyncs) wake() {
	for t := range s.tickets {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// tell keeps what a master is answered.
func (d *parkedSyncs) tell(site task.Site, term task.Term, reply task.SyncReply) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	s.told, s.toldTerm = standing(reply), term
}

// told returns the standing content of the last answer to a term; false if
// there was none.
func (d *parkedSyncs) told(site task.Site, term task.Term) (task.SyncReply, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	return s.told, s.toldTerm == term && !term.IsZero()
}

// standing is what every answer repeats until something changes.
func standing(reply task.SyncReply) task.SyncReply {
	reply.Leases, reply.Acks, reply.Wanted, reply.ReportSeq = nil, nil, nil, 0
	return reply
}
