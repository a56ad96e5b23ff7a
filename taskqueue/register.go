package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// office keeps who is master of a site, and whom its pilots are told of.
type office struct{ *records }

// members keeps the sites: their pilots, who of them is master, and what they can do.
type members struct{ *records }

// Register makes a pilot a member of its site. The same peer registering
// again gets the same pilot id. The first live pilot of a site is made master;
// so is one that finds nobody else alive.
//
// Errors: ErrNotFound (the site), ErrInvalid, ErrRefused (a denied peer).
func (r *Rules) Register(t *Turn, reg Registration) (_ Registered, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(reg.Site)
	check(r.Config.admit(site, &reg))
	bansIn(q.Meta()).mayJoin(&reg, q.By)
	q.members.redeem(&reg)
	if reg.Check {
		return r.visit(q, site, &reg), nil
	}
	if wait := q.keepApart(site, &reg); wait != "" {
		return Registered{Wait: wait}, nil
	}
	pilot, again := q.members.enrol(site, &reg)
	others := q.pilots.present(site.Name, pilot.ID)
	q.audit.add(AuditEntry{Kind: AuditRegistered, Subject: string(pilot.ID), Site: site.Name, Node: pilot.Node(), Pilot: pilot.ID, Job: pilot.BatchJob})
	master := q.office.appoint(site, pilot, others, again)
	out := r.registered(q, site, pilot, others)
	out.Master = contact(master)
	return out, nil
}

// keepApart lets only pilots be members of a site that speak one protocol with each
// other. Older ones are drained, and the newcomer waits until they have left; an
// older newcomer is refused.
func (q *queue) keepApart(site *SiteRecord, reg *Registration) (wait string) {
	switch {
	case reg.Overlay == site.Overlay:
		return ""
	case site.Pilots == 0:
		q.members.outdate(site)
		site.Overlay = reg.Overlay
		q.sites.touch(site.Name)
		return ""
	case reg.Overlay < site.Overlay:
		end(refused("the pilots of site %s speak protocol %d with each other, and this one %d: start it with the present release", site.Name, site.Overlay, reg.Overlay))
	}
	for _, p := range q.pilots.alive(site.Name) {
		q.members.drain(site, p)
	}
	return fmt.Sprintf("%s of site %s that speak an older protocol are drained first", task.Counted(site.Pilots, "pilot"), site.Name)
}

// anotherRelease is the reason of pilots that were taken for dead when their site went
// over to another protocol. Could they come back, nobody would understand them: what they
// tell counts, and they are to leave.
const anotherRelease = "its site has gone over to another release"

func (p *PilotRecord) outdated() bool { return p.State == PilotLeft && p.Reason == anotherRelease }

func (m *members) outdate(site *SiteRecord) {
	for _, p := range m.pilots.of(read(m.Pilots().OfSite(site.Name, PilotDead))) {
		p.State, p.Reason = PilotLeft, anotherRelease
		m.pilots.touch(p.ID)
	}
	site.Silenced = nil
}

func (r *Rules) registered(q *queue, site *SiteRecord, pilot *PilotRecord, others []task.PilotID) Registered {
	pilot.Certified = q.config.validUntil(pilot)
	return Registered{
		Pilot:    pilot.ID,
		Term:     site.Term,
		Contacts: q.office.sample(others),
		Settings: r.Settings(*site),
		Denied:   site.Denied,
		NotAfter: pilot.Ends.Add(r.Config.Site.Pilot.MemberAfterEnd),
	}
}

// visited is why the pilot of a check has left.
const visited = "self-check only"

// visit lets somebody in who only checks a node. It is recorded as one who has
// left: it counts nowhere, is told to nobody and cannot be master.
func (r *Rules) visit(q *queue, site *SiteRecord, reg *Registration) Registered {
	known := read(q.Pilots().ByPeer(reg.Peer))
	if known != "" {
		end(conflict("peer %s is pilot %s already: check with a new key", reg.Peer, known))
	}
	pilot := &PilotRecord{
		ID: task.NewPilotID(randomBytes(q.Random, 8)), Peer: reg.Peer, Site: reg.Site, Registered: q.Wall,
		State: PilotLeft, Reason: visited, Ended: q.Wall,
	}
	q.members.describePilot(pilot, reg)
	q.pilots.put(pilot.ID, pilot)
	q.pilots.touch(pilot.ID)
	others := q.pilots.present(site.Name, "")
	out := r.registered(q, site, pilot, others)
	if slices.Contains(others, site.Master) {
		out.Master = contact(q.pilots.one(site.Master))
	}
	return out
}

// describePilot takes over what a pilot says of itself.
func (m *members) describePilot(pilot *PilotRecord, reg *Registration) {
	latest := m.Wall.Add(m.config.Site.Pilot.MaxLifetime)
	pilot.PilotDescription = reg.PilotDescription
	if pilot.Ends.IsZero() || pilot.Ends.After(latest) {
		pilot.Ends = latest
	}
}

// redeem uses up a token that is for one registration. Its pilot may register
// again; nobody else may.
func (m *members) redeem(reg *Registration) {
	if reg.Token == "" {
		return
	}
	found := read(m.Grants().Load(reg.Token))
	if len(found) > 0 && found[0].Revoked {
		end(refused("access %s was revoked", reg.Token)) // while the call was on its way
	}
	if len(found) == 0 || !found[0].Once {
		return
	}
	g := &found[0]
	if g.UsedBy != "" && g.UsedBy != reg.Peer {
		end(refused("access %s is for one pilot, and one has registered with it", g.ID))
	}
	reg.Job = g.Job
	if g.UsedBy == "" {
		g.UsedBy = reg.Peer
		check(m.Grants().Save(*g))
	}
}

func (c *Config) admit(site *SiteRecord, reg *Registration) error {
	least := max(site.MinConfinement, c.Site.Pilot.MinConfinement)
	switch {
	case reg.Peer == "":
		return invalid("a registration needs a peer id")
	case reg.Slots < 1:
		return invalid("pilot %s offers %s: at least 1 is needed", reg.Peer, task.Counted(reg.Slots, "slot"))
	case slices.Contains(site.Denied, reg.Peer):
		return refused("the membership of peer %s at site %s was revoked: start the pilot with a new key", reg.Peer, site.Name)
	case c.Site.Pilot.Protocol != 0 && reg.Overlay > c.Site.Pilot.Protocol:
		return refused("this queue knows protocols between pilots up to %d, and pilot %s speaks %d: update the queue first", c.Site.Pilot.Protocol, reg.Peer, reg.Overlay)
	case reg.Walls.Confinement < least:
		return refused("site %s takes pilots that confine payloads by %s at least, and host %s has %s", site.Name, least, reg.Host, reg.Walls)
	}
	return nil
}

// enrol creates or renews a pilot's record and counts it; again tells that it
// was a live member already.
func (m *members) enrol(site *SiteRecord, reg *Registration) (pilot *PilotRecord, again bool) {
	id := read(m.Pilots().ByPeer(reg.Peer))
	if id == "" {
		id = task.NewPilotID(randomBytes(m.Random, 8))
	}
	pilot = m.pilots.one(id)
	switch {
	case pilot == nil:
		pilot = &PilotRecord{ID: id, Peer: reg.Peer, Site: reg.Site, Registered: m.Wall}
		m.pilots.put(id, pilot)
	case pilot.Site != reg.Site:
		end(conflict("peer %s is pilot %s of site %s and cannot join %s: start it with a new key", reg.Peer, id, pilot.Site, reg.Site))
	case pilot.State.Present():
		again = true
		site.Pilots--
		site.Registered -= pilot.Slots
	}
	m.describePilot(pilot, reg)
	pilot.Since, pilot.Unreachable = m.Clock, false
	m.revive(site, pilot)
	if !again {
		m.Effects.tellOfPilot(NewsPilotJoined, pilot, task.Counted(pilot.Slots, "slot"))
	}
	site.Refused = nil // what nobody could run, the new one may
	return pilot, again
}

// Present tells whether the pilot counts as a live member of its site.
func (s PilotState) Present() bool { return s == PilotAlive || s == PilotDraining }

// present returns the ids of the other live pilots of a site, in order, as
// this turn sees them. A site may have thousands, and each that registers asks.
func (r *pilotRecords) present(site task.Site, except task.PilotID) []task.PilotID {
	ids := read(r.turn.Pilots().IDsOfSite(site, PilotAlive, PilotDraining))
	return slices.DeleteFunc(ids, func(id task.PilotID) bool {
		held := r.held[id]
		return id == except || held != nil && !held.State.Present()
	})
}

// alive returns the live pilots of a site, by id, as this turn sees them.
func (r *pilotRecords) alive(site task.Site) []*PilotRecord {
	found := r.of(read(r.turn.Pilots().OfSite(site, PilotAlive, PilotDraining)))
	return slices.DeleteFunc(found, func(p *PilotRecord) bool { return !p.State.Present() })
}

// appoint returns the site's master: the one in office; if there is none
// alive, or it has resigned, and nobody else is there, the new pilot.
func (m *office) appoint(site *SiteRecord, pilot *PilotRecord, others []task.PilotID, again bool) *PilotRecord {
	if site.Master == pilot.ID && !site.Resigned {
		if !again {
			m.crown(site, pilot, 0, "re-registration")
		}
		return pilot
	}
	if len(others) == 0 {
		why := "nobody else is alive"
		if site.Term.IsZero() {
			why = "first pilot"
		}
		m.crown(site, pilot, 0, why)
		return pilot
	}
	m.pilots.load(site.Master, others[0])
	if master := m.pilots.held[site.Master]; master != nil {
		return master
	}
	return m.pilots.held[others[0]]
}

// crown opens the next term of a site. Where pilots speak for themselves the queue hears
// nothing else from them than before, whoever is master of their overlay.
func (m *office) crown(site *SiteRecord, pilot *PilotRecord, known uint64, why string) {
	site.Term = task.Term{Epoch: max(site.Term.Epoch, known) + 1, Peer: pilot.Peer}
	site.Master = pilot.ID
	site.LastSync, site.Resigned = m.Clock, false
	if !site.InForce().Central() || site.Roll == 0 {
		m.callRoll(site, site.Roll+1)
	}
	site.History = append(site.History, Mastership{Term: site.Term, Pilot: pilot.ID, Since: m.Wall, Why: why})
	site.History = site.History[max(0, len(site.History)-m.config.Site.MaxHistory):]
	m.sites.touch(site.Name)
	m.Effects.tellOfPilot(NewsSiteMaster, pilot, why)
}

// callRoll has all members of a site met anew, under a number of which its master
// has not heard.
func (m *office) callRoll(site *SiteRecord, number uint64) {
	site.Roll, site.RollAt = max(1, number), m.Clock
	m.sites.touch(site.Name)
}

// sample returns a random choice of contacts.
func (m *office) sample(pilots []task.PilotID) []Contact {
	pilots = slices.Clone(pilots)
	m.Random.Shuffle(len(pilots), func(i, j int) { pilots[i], pilots[j] = pilots[j], pilots[i] })
	pilots = pilots[:min(len(pilots), m.config.Site.ContactSample)]
	m.pilots.load(pilots...)
	contacts := make([]Contact, len(pilots))
	for i, id := range pilots {
		contacts[i] = contact(m.pilots.held[id])
	}
	return contacts
}

func contact(p *PilotRecord) Contact {
	return Contact{Pilot: p.ID, Peer: p.Peer, Addresses: p.Addresses, DataURL: p.DataURL}
}
