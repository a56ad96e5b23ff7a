package serving

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// Moment is a time by the service clock, which moves in steps and not while the store
// takes no writes, and by this machine's.
type Moment struct {
	Service taskqueue.Instant
	Machine time.Time
}

// Holds bound how long and how often calls wait.
type Holds struct {
	// Sync bounds how long a Sync is parked: a master calls every 2 s.
	Sync time.Duration
	// Pull bounds how long a Pull is parked: there are as many as pilots.
	Pull time.Duration
	// Pause is the shortest time between two looks of a parked call, so that a stream
	// of changes does not become a stream of transactions.
	Pause time.Duration
}

// DefaultHolds are those of a server that is told no others.
var DefaultHolds = Holds{Sync: 2 * time.Second, Pull: 10 * time.Second, Pause: 20 * time.Millisecond}

// rememberFor is how long it is remembered what a pilot was told that does not call.
const rememberFor = time.Minute

// Desk parks Syncs and Pulls. A call is answered at once if it brings news or the queue
// has some; else it waits until something changes for its site or pilot, the pilot's next
// call comes, or its time is over. A call that waits is a sign of life for as long as its
// connection stands.
//
// Whoever serves a call asks Next what to do with it, and again whenever Wake is called.
// It is safe for concurrent use.
type Desk struct {
	holds Holds

	mutex   sync.Mutex
	number  uint64
	stopped bool
	pilots  map[task.PilotID]*guest
	sites   map[task.Site]*siteCalls
	swept   time.Time
}

// guest is a pilot that calls.
type guest struct {
	calls   []*Call // under way, the oldest first
	highest uint64  // number of its calls so far, by its own count
	last    time.Time
	told    task.PullReply // what every answer repeats until something changes
	term    task.Term      // in which it was told
	ever    bool
}

// newest is the newest call of a pilot; nil: none is under way.
func (g *guest) newest() *Call {
	if g == nil || len(g.calls) == 0 || g.calls[len(g.calls)-1].ended {
		return nil
	}
	return g.calls[len(g.calls)-1]
}

// enter takes a call in. One that comes after a later one has ended already.
func (g *guest) enter(c *Call, number uint64) {
	if c.ended = number != 0 && number < g.highest; c.ended {
		g.calls = slices.Insert(g.calls, 0, c)
		return
	}
	g.highest = max(g.highest, number)
	g.calls = append(g.calls, c)
}

// siteCalls are those of a site.
type siteCalls struct {
	calls  []*Call // under way, the oldest first
	heard  Sign
	newest *Call // of those by which a master was heard
	// written is when signs of life were written last.
	written taskqueue.Instant
}

// Call is one Sync or Pull.
type Call struct {
	pilot  task.PilotID
	site   task.Site
	term   task.Term
	news   bool   // it brings some
	cache  uint64 // the version of a Pull's summary
	pull   bool
	by     *Connection
	wake   func()
	number uint64
	until  time.Time
	looked time.Time
	doing  doing
	again  bool // something has changed since the last look
	ended  bool // a later call of the pilot has come before it or was looked at
	office bool // the pilot is the master of its site
	parked bool // it has waited
}

type doing uint8

const (
	arrived doing = iota
	looking
	waiting
	answering
)

// Connection is one of a pilot to this server; the desk knows when it ended.
type Connection struct{ end Moment }

// endedBy is the service time by which the connection had ended, not earlier than it is
// certain; 0: it stands, or is not known.
func (c *Connection) endedBy(now Moment) taskqueue.Instant {
	if c == nil || c.end.Machine.IsZero() {
		return 0
	}
	return max(c.end.Service, now.Service.Add(-max(0, now.Machine.Sub(c.end.Machine))))
}

// NewDesk returns a desk without calls.
func NewDesk(holds Holds) *Desk {
	return &Desk{holds: holds, pilots: make(map[task.PilotID]*guest), sites: make(map[task.Site]*siteCalls)}
}

// Sync enters a master's call, so that no change is missed from now on. The pilot's older
// one ends when this one was looked at; one that comes after a later one has ended
// already. wake is called when Next has another answer than before; it must neither block
// nor call the desk.
func (d *Desk) Sync(now Moment, in *task.Sync, by *Connection, wake func()) *Call {
	return d.arrive(now, in, d.holds.Sync, Call{by: by, wake: wake})
}

// Pull enters the call of a pilot that is its own master, likewise.
func (d *Desk) Pull(now Moment, in *task.Pull, by *Connection, wake func()) *Call {
	return d.arrive(now, &in.Sync, d.holds.Pull, Call{pull: true, cache: in.Cache.Version, by: by, wake: wake})
}

func (d *Desk) arrive(now Moment, in *task.Sync, longest time.Duration, of Call) *Call {
	c := &of
	c.pilot, c.site, c.term, c.news = in.Pilot, in.Site, in.Term, bringsNews(in)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.sweep(now.Machine)
	d.number++
	c.number, c.until = d.number, now.Machine.Add(min(in.Hold, longest))
	g := d.pilots[c.pilot]
	if g == nil {
		g = &guest{}
		d.pilots[c.pilot] = g
	}
	g.enter(c, in.Number)
	s := d.site(c.site)
	s.calls = append(s.calls, c)
	return c
}

func (d *Desk) site(name task.Site) *siteCalls {
	s := d.sites[name]
	if s == nil {
		s = &siteCalls{}
		d.sites[name] = s
	}
	return s
}

// sweep forgets who has not called for a while: the next call is answered at once.
func (d *Desk) sweep(now time.Time) {
	if now.Sub(d.swept) < rememberFor {
		return
	}
	d.swept = now
	maps.DeleteFunc(d.pilots, func(_ task.PilotID, g *guest) bool { return len(g.calls) == 0 && now.Sub(g.last) > rememberFor })
}

// Do is what to do with a call.
type Do uint8

// What to do with a call.
const (
	Look   Do = iota // serve it, and tell by Looked what came of it
	Wait             // for Wake, or for a time
	Answer           // with what the last look gave
)

// Next tells what to do with a call, and how long to wait. Who is to look looks.
func (d *Desk) Next(now Moment, c *Call) (do Do, wait time.Duration) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	look := c.looked.Add(d.holds.Pause)
	switch {
	case c.doing == arrived:
	case c.doing == answering || c.ended || d.stopped || !now.Machine.Before(c.until):
		return Answer, 0
	case !c.again:
		return Wait, c.until.Sub(now.Machine)
	case now.Machine.Before(look):
		return Wait, look.Sub(now.Machine)
	}
	c.doing, c.again = looking, false
	return Look, 0
}

// Looked takes what a look at a call gave, and whether the pilot is master of its site in
// the term that it names.
func (d *Desk) Looked(now Moment, c *Call, reply *task.PullReply, office bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	c.looked, c.office = now.Machine, office
	if s := d.site(c.site); office && !c.ended && (s.newest == nil || s.newest.number <= c.number) {
		s.newest, s.heard = c, Sign{At: now.Service, Term: c.term}
	}
	g := d.pilots[c.pilot]
	for _, older := range g.calls[:slices.Index(g.calls, c)] {
		older.ended = true
		older.wake()
	}
	if c.news || g.hears(c, reply) || !now.Machine.Before(c.until) {
		c.doing = answering
		if g.newest() == c {
			g.told, g.term, g.ever = standing(*reply), c.term, true
		}
		return
	}
	c.doing, c.parked = waiting, true
}

// bringsNews tells whether a pilot reports anything but its standing state.
func bringsNews(in *task.Sync) bool {
	return len(in.Outcomes)+len(in.Starts)+len(in.Returns)+len(in.Stored)+len(in.Lost)+len(in.Departed)+
		len(in.Refused)+len(in.Confirmed) > 0 || !in.Report.Empty()
}

// hears tells whether an answer holds anything but what the pilot was last told.
func (g *guest) hears(c *Call, reply *task.PullReply) bool {
	return len(reply.Leases)+len(reply.Acks)+len(reply.Wanted) > 0 || reply.CacheVersion != c.cache ||
		!g.ever || g.term != c.term || !reflect.DeepEqual(g.told, standing(*reply))
}

// standing is what every answer repeats until something changes.
func standing(reply task.PullReply) task.PullReply {
	reply.Leases, reply.Acks, reply.Wanted, reply.ReportSeq, reply.CacheVersion = nil, nil, nil, 0, 0
	return reply
}

// Newest tells whether no later call of the pilot has come.
func (d *Desk) Newest(c *Call) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.pilots[c.pilot].newest() == c
}

// Leave ends a call. It tells whether the pilot has made no later one. A master whose
// call was parked was heard until now.
func (d *Desk) Leave(now Moment, c *Call) (newest bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.site(c.site)
	s.calls = slices.DeleteFunc(s.calls, func(other *Call) bool { return other == c })
	if c == s.newest && c.parked {
		s.heard = Sign{At: now.Service, Term: c.term}
	}
	g := d.pilots[c.pilot]
	newest = g.newest() == c
	g.calls, g.last = slices.DeleteFunc(g.calls, func(other *Call) bool { return other == c }), now.Machine
	return newest
}

// HangUp notes that a connection has ended.
func (d *Desk) HangUp(now Moment, c *Connection) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	c.end = now
}

// Stop has all calls answered.
func (d *Desk) Stop() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.stopped = true
	d.each(func(*Call) bool { return true })
}

// WakeAll has all parked calls looked at again.
func (d *Desk) WakeAll() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.each(func(*Call) bool { return true })
}

// WakeSite has the parked Syncs of a site looked at again, and one Pull: who asks a site
// for something asks one pilot.
func (d *Desk) WakeSite(site task.Site) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.wakeSite(site)
	if s := d.sites[site]; s != nil {
		if i := slices.IndexFunc(s.calls, func(c *Call) bool { return c.pull && c.doing == waiting && !c.again }); i >= 0 {
			s.calls[i].lookAgain()
		}
	}
}

func (d *Desk) wakeSite(site task.Site) {
	if s := d.sites[site]; s != nil {
		s.each(func(c *Call) bool { return !c.pull })
	}
}

// WakePilots has the parked calls of pilots looked at again.
func (d *Desk) WakePilots(pilots []task.PilotID) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.wakePilots(pilots)
}

func (d *Desk) wakePilots(pilots []task.PilotID) {
	for _, id := range pilots {
		if c := d.pilots[id].newest(); c != nil {
			c.lookAgain()
		}
	}
}

// Changed wakes whoever waits for what a committed turn has changed.
func (d *Desk) Changed(e *taskqueue.Effects) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if e.WakeAll || e.Modes {
		d.each(func(c *Call) bool { return c.pull && e.Modes || !c.pull && e.WakeAll })
	}
	if !e.WakeAll && len(e.Wake) > 0 {
		for _, site := range slices.Sorted(maps.Keys(e.Wake)) {
			d.wakeSite(task.Site(site))
		}
	}
	if len(e.Pilots) > 0 {
		d.wakePilots(slices.Sorted(maps.Keys(e.Pilots)))
	}
}

// each wakes the calls that something concerns, in an order that can be repeated.
func (d *Desk) each(concerned func(*Call) bool) {
	for _, site := range slices.Sorted(maps.Keys(d.sites)) {
		d.sites[site].each(concerned)
	}
}

func (s *siteCalls) each(concerned func(*Call) bool) {
	for _, c := range s.calls {
		if concerned(c) {
			c.lookAgain()
		}
	}
}

func (c *Call) lookAgain() {
	if !c.again {
		c.again = true
		c.wake()
	}
}

// Calls tells whether a call of the pilot is under way.
func (d *Desk) Calls(pilot task.PilotID) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.pilots[pilot].newest() != nil
}

// Stance tells what the newest call of the pilot does.
func (d *Desk) Stance(pilot task.PilotID) matchmaker.Stance {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	switch c := d.pilots[pilot].newest(); {
	case c == nil || c.doing == answering:
		return matchmaker.Away
	case c.doing == waiting:
		return matchmaker.Waits
	}
	return matchmaker.Asks
}

// Parked tells whether a master's call of a site waits, and a pilot's own.
func (d *Desk) Parked(site task.Site) (sync, pull bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if s := d.sites[site]; s != nil {
		for _, c := range s.calls {
			if c.doing == waiting {
				sync, pull = sync || !c.pull, pull || c.pull
			}
		}
	}
	return sync, pull
}
