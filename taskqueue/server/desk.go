package server

import (
	"sync"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// desk knows the Syncs that are being served, by site. One that waits there
// is its site's sign of life for as long as its connection stands.
type desk struct {
	mutex sync.Mutex
	next  uint64
	sites map[task.Site]*siteDesk
}

type siteDesk struct {
	tickets map[*ticket]struct{}
	// told is the standing content of the last answer, to the given term.
	told     task.SyncReply
	toldTerm task.Term
	// gone is when the last parked Sync ended, and whose it was.
	gone     taskqueue.Instant
	goneTerm task.Term
}

// ticket is one Sync at the desk.
type ticket struct {
	number uint64
	term   task.Term
	parked bool
	wake   chan struct{} // something changed for the site; holds one signal
	ended  chan struct{} // closed by a newer Sync
}

func (d *desk) site(name task.Site) *siteDesk {
	if d.sites == nil {
		d.sites = make(map[task.Site]*siteDesk)
	}
	s := d.sites[name]
	if s == nil {
		s = &siteDesk{tickets: make(map[*ticket]struct{})}
		d.sites[name] = s
	}
	return s
}

// arrive enters a Sync, so that no change is missed from now on.
func (d *desk) arrive(site task.Site, term task.Term) *ticket {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.next++
	t := &ticket{number: d.next, term: term, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	d.site(site).tickets[t] = struct{}{}
	return t
}

// park lets a Sync wait, after its term was found to be in office, and ends
// the older ones of its site.
func (d *desk) park(site task.Site, t *ticket) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	t.parked = true
	d.endOlder(site, t)
}

// endOlder answers a site's older Syncs: the master has sent a newer one.
func (d *desk) endOlder(site task.Site, t *ticket) {
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
func (d *desk) supersede(site task.Site, t *ticket) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.endOlder(site, t)
}

// leave takes a Sync from the desk; a parked one was heard until now.
func (d *desk) leave(site task.Site, t *ticket, now taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	delete(s.tickets, t)
	if t.parked {
		s.gone, s.goneTerm = now, t.term
	}
}

// heard returns when and in which term a site's master was last known to
// wait for an answer: now if it still does; false if it never did.
func (d *desk) heard(site task.Site, now taskqueue.Instant) (taskqueue.Instant, task.Term, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.sites[site]
	if s == nil {
		return 0, task.Term{}, false
	}
	for t := range s.tickets {
		if t.parked {
			return now, t.term, true
		}
	}
	return s.gone, s.goneTerm, s.gone != 0
}

// waiting returns the sites that have a parked Sync, with its term.
func (d *desk) waiting() map[task.Site]task.Term {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	sites := make(map[task.Site]task.Term)
	for name, s := range d.sites {
		for t := range s.tickets {
			if t.parked {
				sites[name] = t.term
			}
		}
	}
	return sites
}

func (d *desk) wake(site string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if s := d.sites[task.Site(site)]; s != nil {
		s.wake()
	}
}

func (d *desk) wakeAll() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, s := range d.sites {
		s.wake()
	}
}

func (s *siteDesk) wake() {
	for t := range s.tickets {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// tell keeps what a master is answered.
func (d *desk) tell(site task.Site, term task.Term, reply task.SyncReply) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	s.told, s.toldTerm = standing(reply), term
}

// told returns the standing content of the last answer to a term; false if
// there was none.
func (d *desk) told(site task.Site, term task.Term) (task.SyncReply, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(site)
	return s.told, s.toldTerm == term && !term.IsZero()
}

// standing is what every answer repeats until something changes.
func standing(reply task.SyncReply) task.SyncReply {
	reply.Leases, reply.Acks, reply.ReportSeq = nil, nil, 0
	return reply
}
