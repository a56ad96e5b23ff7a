package taskqueue

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// BanKind is what a ban shuts out.
type BanKind string

// What can be banned. A pilot's ban is kept with its site, see Rules.Deny.
const (
	BanPerson BanKind = "person" // calls are refused, work is cancelled, pilots are revoked
	BanNode   BanKind = "node"   // pilots there are revoked, new ones refused
	BanSite   BanKind = "site"   // the same of a whole site
)

// Ban shuts somebody or something out until it is lifted.
type Ban struct {
	Kind BanKind
	Name string    // of the person, node or site
	Site task.Site // of a node; "" is every site
	Why  string
	By   string // person
	At   time.Time
}

func (b *Ban) same(other *Ban) bool {
	return b.Kind == other.Kind && b.Name == other.Name && b.Site == other.Site
}

// keepsOut tells whether a ban is on what a pilot says of itself.
func (b *Ban) keepsOut(site task.Site, host string) bool {
	switch b.Kind {
	case BanSite:
		return b.Name == string(site)
	case BanNode:
		return (b.Site == "" || b.Site == site) && (b.Name == host || b.Name == task.NodeOf(host, ""))
	}
	return false
}

// metaBans names the list of bans.
const metaBans = "bans"

// Bans lists the bans in force, but those of pilots.
func (r *Rules) Bans(t *Turn) (bans []Ban, err error) {
	q := r.open(t)
	defer catch(&err)
	q.remembered(metaBans, &bans)
	return bans, nil
}

// Ban shuts out a person, a node or a site, and revokes the pilots there, or those
// that registered with the person's accesses. It returns them. What a banned person
// has submitted is cancelled by Rules.CancelWorkflow of OpenWorkflows.
//
// Errors: ErrInvalid, ErrNotFound (the site).
func (r *Rules) Ban(t *Turn, b Ban) (revoked []task.PilotID, err error) {
	q := r.open(t)
	defer q.close(&err)
	var of func(*PilotRecord) bool
	switch {
	case b.Name == "":
		end(invalid("a ban needs a name"))
	case b.Kind == BanPerson:
		tokens := q.tokensOf(b.Name)
		of = func(p *PilotRecord) bool { return tokens[p.Token] }
	case b.Kind == BanNode || b.Kind == BanSite:
		if b.Kind == BanSite {
			q.site(task.Site(b.Name))
		}
		of = func(p *PilotRecord) bool { return b.keepsOut(p.Site, p.Host) }
	default:
		end(invalid("%q cannot be banned: give person, pilot, node or site", b.Kind))
	}
	b.At = q.Wall
	bans := append(q.bansWithout(&b), b)
	q.remember(metaBans, bans)
	q.audit(AuditEntry{Kind: AuditBanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site, Note: b.Why})
	return q.expelAll(of, string(b.Kind)+" "+b.Name+" was banned"), nil
}

// Unban lifts a ban. Pilots that it had revoked do not come back; new ones may.
//
// Errors: ErrNotFound.
func (r *Rules) Unban(t *Turn, b Ban) (err error) {
	q := r.open(t)
	defer q.close(&err)
	var bans []Ban
	q.remembered(metaBans, &bans)
	rest := q.bansWithout(&b)
	if len(rest) == len(bans) {
		end(notFound("ban of "+string(b.Kind), b.Name))
	}
	rememberList(q.records, metaBans, rest)
	q.audit(AuditEntry{Kind: AuditUnbanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site})
	return nil
}

func (r *records) bansWithout(b *Ban) (bans []Ban) {
	r.remembered(metaBans, &bans)
	return slices.DeleteFunc(bans, func(other Ban) bool { return b.same(&other) })
}

// notBanned refuses a pilot of a site or a node that is banned.
func (r *records) notBanned(reg *Registration) {
	var bans []Ban
	r.remembered(metaBans, &bans)
	for i := range bans {
		if bans[i].keepsOut(reg.Site, reg.Host) {
			end(refused("%s %s is banned: %s", bans[i].Kind, bans[i].Name, bans[i].Why))
		}
	}
}

// tokensOf returns the ids of a person's accesses.
func (r *records) tokensOf(person string) map[string]bool {
	grants := read(r.Grants().All())
	ids := make(map[string]bool)
	for i := range grants {
		if grants[i].Holder().Name == person {
			ids[grants[i].ID] = true
		}
	}
	return ids
}

// expelAll revokes live pilots of all sites.
func (q *queue) expelAll(of func(*PilotRecord) bool, reason string) (revoked []task.PilotID) {
	q.loadSites()
	for _, name := range q.siteNames {
		site := q.sites.held[name]
		for _, pilot := range q.alive(name) {
			if of(pilot) {
				q.expel(site, pilot, reason)
				revoked = append(revoked, pilot.ID)
			}
		}
	}
	return revoked
}

// expel revokes a pilot's membership. What the last one of a site had goes back.
func (q *queue) expel(site *SiteRecord, pilot *PilotRecord, reason string) {
	if !site.denies(pilot.Peer) {
		site.Denied = append(site.Denied, pilot.Peer)
		q.sites.touch(site.Name)
		q.audit(AuditEntry{Kind: AuditRevoked, Subject: string(pilot.ID), Site: site.Name, Node: pilot.Node(), Pilot: pilot.ID, Note: reason})
	}
	q.Effects.wake(site.Name)
	q.Effects.wakePilot(pilot.ID)
	if !pilot.State.present() {
		return
	}
	q.dismiss(site, pilot, PilotDead, reason)
	if site.Pilots <= 0 {
		q.vacate(site, reason)
	}
}

// OpenWorkflows returns, of a page of a person's workflows after one, those that are
// not over, and the last of the page, "" after the last page.
func (r *Rules) OpenWorkflows(t *Turn, person string, after task.WorkflowID) (open []task.WorkflowID, last task.WorkflowID, err error) {
	defer catch(&err)
	page := read(t.Workflows().List(person, "", after, r.Config.Workflow.SweepPage))
	for i := range page {
		if w := &page[i]; !w.Sealed && !w.Cancelled || w.open() > 0 {
			open = append(open, w.ID)
		}
		last = page[i].ID
	}
	return open, last, nil
}
