package server

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// pulls serves the pilots of sites at which the queue matches tasks: it knows
// their calls, and the matchmaker under its lock.
type pulls struct {
	mutex  sync.Mutex
	maker  *matchmaker.Matchmaker
	guests map[task.PilotID]*pullGuest
	due    map[task.Site]struct{} // tasks may have come up there
	signal chan struct{}          // something is due; holds one
}

// pullGuest is a pilot with its calls.
type pullGuest struct {
	site   task.Site
	ticket *pullTicket // of its newest call
	told   task.PullReply
	ever   bool // it was told something
}

// pullTicket is one call.
type pullTicket struct {
	parked bool
	wake   chan struct{}
	ended  chan struct{} // closed by the pilot's next call
}

// compiledExpressions bounds the cache of compiled requirements and ranks.
const compiledExpressions = 4096

func newPulls(config *taskqueue.Config) *pulls {
	return &pulls{
		maker:  matchmaker.New(config, matcher.NewCompiler(compiledExpressions)),
		guests: make(map[task.PilotID]*pullGuest), due: make(map[task.Site]struct{}), signal: make(chan struct{}, 1),
	}
}

// arrive enters a pilot's call, ends its older one, and takes what it says of
// the pilot.
func (p *pulls) arrive(now taskqueue.Instant, in *task.Pull) (*pullTicket, task.Capacity) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	g := p.guests[in.Pilot]
	if g == nil {
		g = &pullGuest{site: in.Site}
		p.guests[in.Pilot] = g
	}
	if g.ticket != nil {
		close(g.ticket.ended)
	}
	g.ticket = &pullTicket{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	return g.ticket, p.maker.Hear(now, in)
}

// keepOnly forgets all sites but those given, and their pilots that have no call
// under way.
func (p *pulls) keepOnly(sites map[task.Site]bool) {
	for _, name := range p.maker.Sites() {
		if !sites[name] {
			p.maker.Close(name)
		}
	}
	for id, g := range p.guests {
		if !sites[g.site] && g.ticket == nil {
			delete(p.guests, id)
		}
	}
}

// tend decides what is to be done for a site, and which pilots should ask again.
func (p *pulls) tend(now taskqueue.Instant, c *centralSite) (taskqueue.Care, []task.PilotID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	care, ask := p.maker.Tend(now, &c.site, c.pilots, c.unsafe, func(id task.PilotID) bool {
		g := p.guests[id]
		return g != nil && g.ticket != nil
	})
	for id, g := range p.guests {
		if g.site == c.site.Name && g.ticket == nil && !p.maker.Knows(g.site, id) {
			delete(p.guests, id)
		}
	}
	p.due[c.site.Name] = struct{}{}
	return care, ask
}

// leave ends a call.
func (p *pulls) leave(pilot task.PilotID, ticket *pullTicket) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if g := p.guests[pilot]; g != nil && g.ticket == ticket {
		g.ticket = nil
	}
}

// broken notes that a pilot has not waited for the answer to its newest call.
func (p *pulls) broken(now taskqueue.Instant, in *task.Pull, ticket *pullTicket) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if g := p.guests[in.Pilot]; g != nil && g.ticket == ticket {
		p.maker.Broken(now, in.Site, in.Pilot)
	}
}

// explain adds what keeps a task from the pilots of sites at which the queue
// matches.
func (p *pulls) explain(e *taskqueue.Explanation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range e.Sites {
		p.maker.Explain(&e.Sites[i], e.State.ID)
	}
}

// newest tells whether no later call of the pilot has come.
func (t *pullTicket) newest() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

func (p *pulls) setParked(ticket *pullTicket, parked bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	ticket.parked = parked
}

// waits tells whether a call of the pilot is parked.
func (p *pulls) waits(pilot task.PilotID) bool {
	g := p.guests[pilot]
	return g != nil && g.ticket != nil && g.ticket.parked
}

// hearsFrom tells whether some pilot of a site has a call parked, and what all
// of them have to offer.
func (p *pulls) hearsFrom(site task.Site) (offered task.Capacity, parked bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, g := range p.guests {
		if g.site == site && g.ticket != nil && g.ticket.parked {
			return p.maker.Capacity(site), true
		}
	}
	return task.Capacity{}, false
}

func (p *pulls) wakeUp(pilot task.PilotID) {
	if g := p.guests[pilot]; g != nil && g.ticket != nil {
		select {
		case g.ticket.wake <- struct{}{}:
		default:
		}
	}
}

// wakeAll has the parked calls of pilots look again.
func (p *pulls) wakeAll(pilots []task.PilotID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, id := range pilots {
		p.wakeUp(id)
	}
}

// changed hands on what a committed turn has changed.
func (p *pulls) changed(e *taskqueue.Effects) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.maker.Changed(e)
	for id := range e.Pilots {
		p.wakeUp(id)
	}
	if e.Modes {
		for id := range p.guests {
			p.wakeUp(id)
		}
	}
	if len(e.Tasks) > 0 || e.TooMany || e.WakeAll {
		for _, site := range p.maker.Sites() {
			p.due[site] = struct{}{}
		}
	}
	if len(p.due) > 0 {
		select {
		case p.signal <- struct{}{}:
		default:
		}
	}
}

// tell keeps what a pilot is answered.
func (p *pulls) tell(pilot task.PilotID, reply task.PullReply) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if g := p.guests[pilot]; g != nil {
		g.told, g.ever = standingOf(reply), true
	}
}

// saysNews tells whether the answer holds anything but what the pilot was last
// told.
func (p *pulls) saysNews(pilot task.PilotID, reply task.PullReply) bool {
	if len(reply.Leases)+len(reply.Acks) > 0 {
		return true
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	g := p.guests[pilot]
	return g == nil || !g.ever || !reflect.DeepEqual(g.told, standingOf(reply))
}

func standingOf(reply task.PullReply) task.PullReply {
	reply.SyncReply, reply.CacheVersion = standing(reply.SyncReply), 0
	return reply
}

// pull serves one Pull. It is answered at once if it brings news or the queue
// has some; else it is parked until something changes for the pilot, its next
// Pull comes, or its time is over.
func (m *matching) pull(ctx context.Context, c caller, in task.Pull) (task.PullReply, error) {
	ticket, capacity := m.pulls.arrive(m.turns.clock.now(), &in)
	defer m.pulls.leave(in.Pilot, ticket)
	mastery := m.masteryOf(ctx, &in)
	defer mastery.leave()
	hold := time.NewTimer(min(in.Hold, m.config.Timing.MaxPullHold))
	defer hold.Stop()
	news := bringsNews(in.Sync)
	for {
		reply, inOffice, err := m.pullOnce(ctx, &in, ticket, capacity)
		if err == nil && slices.Contains(reply.Denied, c.peer) {
			err = revoked(c) // while the call was under way
		}
		if err != nil {
			return task.PullReply{}, err
		}
		if inOffice {
			mastery.hear()
		}
		if news || in.Hold <= 0 || reply.CacheVersion != in.Cache.Version || m.pulls.saysNews(in.Pilot, reply) {
			m.pulls.tell(in.Pilot, reply)
			return reply, nil
		}
		m.pulls.setParked(ticket, true)
		if inOffice {
			mastery.park()
		}
		select {
		case <-ticket.wake:
		case <-ticket.ended:
			return reply, nil
		case <-hold.C:
			return reply, nil
		case <-m.stopping:
			return reply, nil
		case <-ctx.Done():
			m.pulls.broken(m.turns.clock.now(), &in, ticket)
			return task.PullReply{}, ctx.Err()
		}
		m.pulls.setParked(ticket, false)
		if err := m.access.recheck(c, time.Now()); err != nil {
			return task.PullReply{}, err
		}
	}
}

// pullOnce takes the news, then matches and leases tasks. It tells whether the
// pilot is master of its site's overlay, in the term that it names.
func (m *matching) pullOnce(
	ctx context.Context, in *task.Pull, ticket *pullTicket, capacity task.Capacity,
) (reply task.PullReply, inOffice bool, err error) {
	pulled, err := changed(ctx, m.turns, func(t *taskqueue.Turn) (taskqueue.Pulled, error) { return m.turns.rules.Pull(t, in, capacity) })
	if err != nil {
		return task.PullReply{}, false, err
	}
	m.shown.attempts(in.Site, in.Starts, in.Outcomes, in.Stored, pulled.Reply.Acks)
	for range matchTries {
		lease, matched, err := m.matchOnce(ctx, in, ticket, &pulled)
		if err != nil {
			return task.PullReply{}, false, err
		}
		if len(lease.Tasks) > 0 {
			pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
		}
		if len(lease.Tasks) > 0 || !matched {
			break
		}
	}
	pulled.Reply.Wanted = m.relays.ask(in.Site)
	return pulled.Reply, pulled.Site.Master == in.Pilot && pulled.Site.Term == in.Term, nil
}

// matchTries is how often a pilot is matched in one call, when all that was
// chosen for it has just gone to another site: nobody would wake it for the
// tasks behind those.
const matchTries = 8

// matchOnce chooses tasks and leases those that nobody has taken meanwhile.
func (m *matching) matchOnce(ctx context.Context, in *task.Pull, ticket *pullTicket, pulled *taskqueue.Pulled) (lease task.Lease, some bool, err error) {
	matched, err := m.match(ctx, in, ticket, pulled)
	if err != nil || len(matched) == 0 {
		return task.Lease{}, false, err
	}
	err = m.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		lease, err = m.turns.rules.Grant(t, in.Site, in.Pilot, matched)
		return err
	})
	m.pulls.mutex.Lock()
	m.pulls.maker.Granted(in.Site, in.Pilot, matched, &lease)
	m.pulls.mutex.Unlock()
	return lease, true, err
}

// match chooses tasks for the pilot; one call after the other.
func (m *matching) match(ctx context.Context, in *task.Pull, ticket *pullTicket, pulled *taskqueue.Pulled) ([]task.ID, error) {
	p := m.pulls
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := m.turns.clock.now()
	p.maker.Describe(now, pulled, in.Self)
	if !pulled.MayTake() || !ticket.newest() {
		return nil, nil
	}
	if err := m.refresh(ctx, in.Site); err != nil {
		return nil, err
	}
	return p.maker.Match(now, in.Site, in.Pilot, pulled.Unseen), nil
}

// refresh brings the matchmaker's tasks up to date; its lock is held.
func (m *matching) refresh(ctx context.Context, site task.Site) error {
	if !m.pulls.maker.Stale(m.turns.clock.now(), site) {
		return nil
	}
	return m.turns.view(ctx, func(t *taskqueue.Turn) error { return m.pulls.maker.Refresh(t, site) })
}

// mastery keeps the sign of life of a pilot that pulls and is master of its
// site's overlay, so that nobody else may claim that office.
type mastery struct {
	matching *matching
	site     task.Site
	ticket   *ticket // nil: it is not master
}

func (m *matching) masteryOf(ctx context.Context, in *task.Pull) mastery {
	found := mastery{matching: m, site: in.Site}
	if !in.Term.IsZero() {
		found.ticket = m.syncs.arrive(in.Site, in.Term, connectionOf(ctx))
	}
	return found
}

func (m mastery) hear() {
	if m.ticket != nil {
		m.matching.syncs.hear(m.site, m.ticket, m.matching.turns.clock.now())
	}
}

func (m mastery) park() {
	if m.ticket != nil {
		m.matching.syncs.park(m.site, m.ticket)
	}
}

func (m mastery) leave() {
	if m.ticket != nil {
		m.matching.syncs.leave(m.site, m.ticket, m.matching.turns.clock.now())
	}
}
