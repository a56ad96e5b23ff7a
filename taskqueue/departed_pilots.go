package taskqueue

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// fellSilent is the reason of pilots that are taken for dead only because
// nobody of their site was heard.
const fellSilent = "its site fell silent"

func (s *SiteRecord) denies(peer task.PeerID) bool { return slices.Contains(s.Denied, peer) }

// revive counts a pilot as live, from now on or again. What it has, brings or makes is not
// to be forgotten.
func (m *members) revive(site *SiteRecord, pilot *PilotRecord) {
	if site.Forget {
		site.Forget = false
		m.sites.look(site)
	}
	pilot.State, pilot.Reason, pilot.Ended = PilotAlive, "", time.Time{}
	m.pilots.touch(pilot.ID)
	if pilot.Drain { // it may not have heard of that
		m.drain(site, pilot)
	}
	site.Pilots++
	site.Registered += pilot.Slots
	m.sites.touch(site.Name)
}

// heard takes a site that had fallen silent for living again.
func (m *members) heard(site *SiteRecord) {
	silenced := site.Silenced
	if len(silenced) == 0 {
		return
	}
	site.Silenced = nil
	m.sites.touch(site.Name)
	m.pilots.load(silenced...)
	for _, id := range silenced {
		if pilot := m.pilots.held[id]; pilot != nil && pilot.State == PilotDead && pilot.Reason == fellSilent {
			m.revive(site, pilot)
		}
	}
}

// depart books pilots that their master saw leave or die. One that left, and whose goodbye
// to the queue was lost, has not told whether what it has stored may never be told.
func (q *queue) depart(site *SiteRecord, departed []task.Departure) {
	q.pilots.load(keysOf(departed, func(d *task.Departure) task.PilotID { return d.Pilot })...)
	for _, d := range departed {
		pilot := q.pilots.held[d.Pilot]
		if stranger := slices.IndexFunc(site.Strangers, func(s Stranger) bool { return s.Pilot == d.Pilot }); stranger >= 0 {
			site.Strangers = slices.Delete(site.Strangers, stranger, stranger+1)
			q.sites.touch(site.Name)
		}
		if pilot == nil || pilot.Site != site.Name || !pilot.State.Present() {
			continue
		}
		if d.Dead {
			q.dismiss(site, pilot, PilotDead, d.Reason)
			continue
		}
		q.dismiss(site, pilot, PilotLeft, d.Reason)
		site.Untold = q.Clock
	}
}

// meet books pilots that their master has met: they live, whatever the queue
// took them for, unless they have said goodbye. What nobody could run before,
// they may: the master may have asked without them, although the queue knew
// them already. What the queue takes for running there and they do not
// have in hand has ended.
func (q *queue) meet(site *SiteRecord, joined []task.PilotID, inHand []task.AttemptID) {
	has := setOf(inHand)
	q.members.strangers(site, joined)
	for _, id := range joined {
		pilot := q.pilots.held[id]
		if pilot == nil || pilot.Site != site.Name || site.denies(pilot.Peer) || pilot.State == PilotLeft {
			continue
		}
		if site.Refused != nil {
			site.Refused = nil
			q.sites.touch(site.Name)
		}
		if pilot.Met != site.Roll || pilot.Stopped != "" || pilot.Unreachable {
			// Whether it is stopped the master tells.
			pilot.Met, pilot.Stopped, pilot.Unreachable = site.Roll, "", false
			q.pilots.touch(id)
		}
		if pilot.State == PilotDead {
			q.members.revive(site, pilot)
			q.Effects.tellOfPilot(NewsPilotJoined, pilot, "it lives, its master says")
		}
		q.outcomes.runsOnly(site, pilot, has)
	}
}

// takePauses notes which pilots of a site take no new work.
func (m *members) takePauses(site *SiteRecord, pauses []task.Pause) {
	m.pilots.load(keysOf(pauses, func(p *task.Pause) task.PilotID { return p.Pilot })...)
	for _, pause := range pauses {
		m.stopped(site, m.pilots.held[pause.Pilot], pause.Why)
	}
}

// stopped notes why a pilot takes no new work; "" is that it takes some.
func (m *members) stopped(site *SiteRecord, pilot *PilotRecord, why string) {
	if pilot == nil || pilot.Site != site.Name || !pilot.State.Present() || pilot.Stopped == why {
		return
	}
	pilot.Stopped = why
	m.pilots.touch(pilot.ID)
	if why != "" {
		m.Effects.tellOfPilot(NewsPilotHeld, pilot, task.Brief(why))
	} else {
		m.Effects.tellOfPilot(NewsPilotGoesOn, pilot, "")
	}
}

// dismiss takes a live pilot out of its site's counts. What runs there still, as
// far as the queue knows, is lost.
func (q *queue) dismiss(site *SiteRecord, pilot *PilotRecord, state PilotState, reason string) {
	pilot.State, pilot.Reason, pilot.Stopped, pilot.Ended = state, reason, "", q.Wall
	q.pilots.touch(pilot.ID)
	site.Pilots--
	site.Registered -= pilot.Slots
	site.Refused = nil
	q.sites.look(site)
	site.Drain = slices.DeleteFunc(site.Drain, func(id task.PilotID) bool { return id == pilot.ID })
	switch {
	case state == PilotLeft:
		q.Effects.tellOfPilot(NewsPilotLeft, pilot, task.Brief(reason))
	case reason != fellSilent: // which is told of the site
		q.Effects.tellOfPilot(NewsPilotDied, pilot, task.Brief(reason))
	}
	if state == PilotDead {
		site.DeadUntil = max(site.DeadUntil, q.Clock.Add(pilot.Ends.Sub(q.Wall)+q.config.Site.Pilot.DeadAfterEnd))
		site.Untold = q.Clock
	}
	q.sites.touch(site.Name)
	q.outcomes.loseRunning(site, pilot, reason)
	q.leasing.takeBackFrom(pilot, reason)
}

// loseRunning books that what runs at a pilot that is gone is lost. The task
// bears it only if the pilot died: one that left has ended its payloads itself,
// and its last words may still be on their way.
func (j *outcomes) loseRunning(site *SiteRecord, pilot *PilotRecord, reason string) {
	running := j.runningAt(pilot)
	for _, id := range j.attempts.order { // what this turn brought is not in the store yet
		if a := j.attempts.held[id]; id.Pilot == pilot.ID && a.State == AttemptRunning {
			running = append(running, *a)
		}
	}
	if pilot.State == PilotDead && len(running) > 0 {
		j.noteDeath(site, pilot, reason)
	}
	j.loseAttempts(site, running, reason, pilot.State == PilotDead)
}

// runsOnly books that what runs at a pilot by the store, and is not in hand
// there, is lost: the queue was put back to a backup from before its outcome.
func (j *outcomes) runsOnly(site *SiteRecord, pilot *PilotRecord, inHand map[task.AttemptID]bool) {
	running := j.runningAt(pilot)
	running = slices.DeleteFunc(running, func(a Attempt) bool { return inHand[a.Outcome.Attempt] })
	j.loseAttempts(site, running, "it has ended, and the queue has no outcome of it", false)
}

func setOf[K comparable](ids []K) map[K]bool {
	set := make(map[K]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func (j *outcomes) runningAt(pilot *PilotRecord) []Attempt {
	running := read(j.Attempts().RunningAt(pilot.ID))
	return running
}

// loseAttempts books attempts of one pilot as lost; died tells that it is dead, which
// the tasks bear.
func (j *outcomes) loseAttempts(site *SiteRecord, running []Attempt, reason string, died bool) {
	ids := keysOf(running, func(a *Attempt) task.ID { return a.Outcome.Attempt.Task })
	j.tasks.load(ids...)
	j.specs.load(ids...)
	var bearing []*TaskState
	first := 0 // attempts of tasks that had lost no pilot before
	for i := range running {
		id := running[i].Outcome.Attempt
		if !j.loseAttempt(site, &running[i], reason) || !died {
			continue
		}
		s := j.tasks.held[id.Task]
		if s == nil || s.Losses == 0 {
			site.Fates.add(true)
			first++
		}
		if s != nil && s.State == task.Leased && s.Lease == id.Lease && s.Generation == id.Generation {
			bearing = append(bearing, s)
		}
	}
	j.countLoss(site, bearing, first)
}

// loseAttempt books an attempt as lost, and tells whether it ran as far as was known.
func (j *outcomes) loseAttempt(site *SiteRecord, a *Attempt, reason string) bool {
	id := a.Outcome.Attempt
	if held := j.attempts.held[id]; held != nil {
		if a = held; a.State != AttemptRunning {
			return false
		}
	} else {
		j.attempts.put(id, a)
	}
	a.State, a.Outcome.Failure, a.Outcome.Reason = AttemptLost, task.PilotLost, reason
	j.attempts.touch(id)
	j.auditAttempt(AuditLost, site.Name, &a.Outcome, AttemptLost)
	if s := j.tasks.held[id.Task]; s != nil && s.State.Terminal() {
		j.catalogue.discardLosers(s)
	}
	return true
}

// Leave books a pilot that goes by itself. When the queue knows of nobody else
// alive at the site, its open leases are returned and what only its caches
// held is lost; a pilot cannot tell, since one that found no peers takes itself
// for the last. Leaving twice changes nothing more.
//
// Errors: ErrNotFound (site or pilot).
func (r *Rules) Leave(t *Turn, l Leaving) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site, pilot := q.sites.need(l.Site), q.pilots.at(l.Site, l.Pilot)
	if l.Resigns && l.Term == site.Term {
		site.Resigned = true
		q.sites.touch(site.Name)
	}
	if pilot.State == PilotDead { // as its master told while it was leaving
		pilot.State, pilot.Reason = PilotLeft, l.Reason
		q.pilots.touch(pilot.ID)
	}
	if l.Unfinished {
		site.Untold = q.Clock
		q.sites.touch(site.Name)
	}
	if !pilot.State.Present() {
		return nil
	}
	q.dismiss(site, pilot, PilotLeft, l.Reason)
	if site.Pilots <= 0 {
		q.vacate(site, "the last pilot left")
	}
	return nil
}

// vacate takes back everything a site holds and forgets its caches, once what they
// held alone was looked for on storage: nobody is there any more. Of pilots that come back
// before that, the site is still to tell anew what it has told once (CheckUntil).
func (q *queue) vacate(site *SiteRecord, reason string) {
	for _, lease := range q.leasing.leasesOf(site.Name) {
		q.life.takeBack(lease, task.Return, reason)
	}
	q.leasing.dropRevocations(site.Name)
	site.Capacity, site.Check = task.Capacity{}, false
	if site.Fallback != "" { // the next pilots may run where the network is another
		before := site.InForce()
		site.endFallback()
		site.TrialPause = 0
		q.changedMode(site, before, reason)
	}
	site.Forget = true
	q.sites.touch(site.Name)
	if site.SE != "" && q.config.Workflow.LookFor > 0 {
		site.ForgetAt = q.Clock.Add(q.config.Workflow.LookFor)
		return
	}
	site.ForgetAt = 0
	q.catalogue.forgetCaches(site)
}

// dropRevocations forgets what nobody of a site is there to answer.
func (l *leasing) dropRevocations(site task.Site) {
	saveAll(read(l.Leases().Revocations(site)), l.Leases().Confirm)
}

// takeBack reopens all tasks of a lease.
func (l *lifecycle) takeBack(lease *Lease, event task.Event, reason string) {
	for _, s := range l.leased(lease) {
		l.reopen(s, event, reason)
	}
	l.leases.touch(lease.ID)
}

// Deliver takes outcomes and stored copies from any pilot of a site, in
// whatever term: they are facts. See Sync.
//
// Errors: ErrNotFound (site or pilot).
func (r *Rules) Deliver(t *Turn, d Delivery) (_ []task.Ack, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(d.Site)
	q.pilots.at(d.Site, d.Pilot)
	acks := q.takeOutcomes(site, d.Outcomes)
	q.outcomes.takeStored(site, d.Stored)
	return acks, nil
}
