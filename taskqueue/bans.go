package taskqueue

import (
	"errors"
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

	// Of a person: open work is still to be cancelled, in workflows after this one.
	Cancelling bool
	After      task.WorkflowID
}

// bans are those in force, as they are kept.
func (r *records) bans() (list []Ban) {
	r.remembered(metaBans, &list)
	return list
}

// Same tells whether both shut out the same.
func (b Ban) Same(other Ban) bool {
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
	return q.bans(), nil
}

// Banned is what a ban has led to.
type Banned struct {
	Pilots []task.PilotID // that were revoked
	Tasks  int            // that were cancelled
	More   bool           // ticks cancel further work of the person
}

// Ban shuts out a person, a node or a site, and revokes the pilots there, or those
// that registered with the person's accesses. It cancels the open work of a person; of
// much work ticks cancel the rest.
//
// Errors: ErrInvalid, ErrNotFound (the site).
func (r *Rules) Ban(t *Turn, b Ban) (out Banned, err error) {
	q := r.open(t)
	defer q.close(&err)
	var of func(*PilotRecord) bool
	within := task.Site("") // every site
	switch {
	case b.Name == "":
		end(invalid("a ban needs a name"))
	case b.Kind == BanPerson:
		tokens := q.tokensOf(b.Name)
		of = func(p *PilotRecord) bool { return tokens[p.Token] }
	case b.Kind == BanNode || b.Kind == BanSite:
		if b.Kind == BanSite {
			within = q.site(task.Site(b.Name)).Name
		} else if b.Site != "" {
			within = q.site(b.Site).Name
		}
		of = func(p *PilotRecord) bool { return b.keepsOut(p.Site, p.Host) }
	default:
		end(invalid("%q cannot be banned: give person, pilot, node or site", b.Kind))
	}
	b.At, b.Cancelling = q.Wall, b.Kind == BanPerson
	bans := append(q.bansWithout(&b), b)
	q.remember(metaBans, bans)
	q.audit(AuditEntry{Kind: AuditBanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site, Note: b.Why})
	out.Pilots = q.expelAll(within, of, string(b.Kind)+" "+b.Name+" was banned")
	if b.Cancelling {
		out.Tasks, out.More = q.cancelBanned()
	}
	return out, nil
}

// isCancelling tells whether work of a ban's person is still to be cancelled.
func isCancelling(b Ban) bool { return b.Cancelling }

// cancelBanned cancels open work of banned persons, about as many tasks as a page has or
// one workflow; more tells that some may be left.
func (q *queue) cancelBanned() (tasks int, more bool) {
	bans := q.bans()
	at := slices.IndexFunc(bans, isCancelling)
	if at < 0 {
		return 0, false
	}
	b, size := &bans[at], q.config.Workflow.SweepPage
	page, err := q.Workflows().List(b.Name, "", b.After, size)
	if errors.Is(err, ErrWorkflowGone) {
		b.After = ""
		page, err = q.Workflows().List(b.Name, "", "", size)
	}
	check(err)
	b.Cancelling = len(page) == size
	for i := range page {
		b.After = page[i].ID
		if w := &page[i]; !w.Deleted && (!w.Sealed && !w.Cancelled || w.open() > 0) {
			q.turnPage() // it is cancelled page by page
			tasks += q.cancelAll(w.ID)
		}
		if tasks >= size && i+1 < len(page) {
			b.Cancelling = true
			break
		}
	}
	q.remember(metaBans, bans)
	return tasks, slices.ContainsFunc(bans, isCancelling)
}

// mayWork refuses work of a person who is banned.
func (r *records) mayWork(person string) {
	if slices.ContainsFunc(r.bans(), func(b Ban) bool { return b.Kind == BanPerson && b.Name == person }) {
		end(refused("%s, whose work it is, is banned", person))
	}
}

// Unban lifts a ban. Pilots that it had revoked do not come back; new ones may.
//
// Errors: ErrNotFound.
func (r *Rules) Unban(t *Turn, b Ban) (err error) {
	q := r.open(t)
	defer q.close(&err)
	rest := q.bansWithout(&b)
	if len(rest) == len(q.bans()) {
		end(NotFound("ban of "+string(b.Kind), b.Name))
	}
	rememberList(q.records, metaBans, rest)
	q.audit(AuditEntry{Kind: AuditUnbanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site})
	return nil
}

func (r *records) bansWithout(b *Ban) []Ban {
	return slices.DeleteFunc(r.bans(), func(other Ban) bool { return b.Same(other) })
}

// notBanned refuses a pilot of a site or a node that is banned, and one that comes with
// the access of a banned person: its call may have been let in before the ban.
func (r *records) notBanned(reg *Registration) {
	bans := r.bans()
	for i := range bans {
		if bans[i].keepsOut(reg.Site, reg.Host) || bans[i].Kind == BanPerson && bans[i].Name == r.By.Name {
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

// expelAll revokes live pilots of a site, "" of all.
func (q *queue) expelAll(within task.Site, of func(*PilotRecord) bool, reason string) (revoked []task.PilotID) {
	q.loadSites()
	for _, name := range q.siteNames {
		if within != "" && name != within {
			continue
		}
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
		q.audit(AuditEntry{Kind: AuditRevoked, Subject: string(pilot.ID), Site: site.Name, Node: pilot.Node(), Pilot: pilot.ID, Job: pilot.BatchJob, Note: reason})
	}
	q.Effects.wake(site.Name)
	q.Effects.wakePilot(pilot.ID)
	if !pilot.State.Present() {
		return
	}
	q.dismiss(site, pilot, PilotDead, reason)
	if site.Pilots <= 0 {
		q.vacate(site, reason)
	}
}
