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

// bans are those in force.
type bans []Ban

// bansIn reads the bans in force.
func bansIn(meta MetaTable) (list bans) {
	recall(meta, metaBans, &list)
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
func (r *Rules) Bans(t *Turn) (_ []Ban, err error) {
	defer catch(&err)
	return bansIn(t.Meta()), nil
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
		tokens := tokensOf(q.Grants(), b.Name)
		of = func(p *PilotRecord) bool { return tokens[p.Token] }
	case b.Kind == BanNode || b.Kind == BanSite:
		if b.Kind == BanSite {
			within = q.sites.need(task.Site(b.Name)).Name
		} else if b.Site != "" {
			within = q.sites.need(b.Site).Name
		}
		of = func(p *PilotRecord) bool { return b.keepsOut(p.Site, p.Host) }
	default:
		end(invalid("%q cannot be banned: give person, pilot, node or site", b.Kind))
	}
	b.At, b.Cancelling = q.Wall, b.Kind == BanPerson
	bans := append(bansIn(q.Meta()).without(b), b)
	remember(q.Meta(), metaBans, bans)
	q.audit.add(AuditEntry{Kind: AuditBanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site, Note: b.Why})
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
	bans := bansIn(q.Meta())
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
	remember(q.Meta(), metaBans, bans)
	return tasks, slices.ContainsFunc(bans, isCancelling)
}

// mayWork refuses work of a person who is banned.
func (list bans) mayWork(person string) {
	if slices.ContainsFunc(list, func(b Ban) bool { return b.Kind == BanPerson && b.Name == person }) {
		end(refused("%s, whose work it is, is banned", person))
	}
}

// Unban lifts a ban. Pilots that it had revoked do not come back; new ones may.
//
// Errors: ErrNotFound.
func (r *Rules) Unban(t *Turn, b Ban) (err error) {
	q := r.open(t)
	defer q.close(&err)
	list := bansIn(q.Meta())
	rest := list.without(b)
	if len(rest) == len(list) {
		end(NotFound("ban of "+string(b.Kind), b.Name))
	}
	rememberList(q.Meta(), metaBans, rest)
	q.audit.add(AuditEntry{Kind: AuditUnbanned, Subject: string(b.Kind) + " " + b.Name, Site: b.Site})
	return nil
}

func (list bans) without(b Ban) bans {
	return slices.DeleteFunc(slices.Clone(list), b.Same)
}

// mayJoin refuses a pilot of a site or a node that is banned, and one that comes with
// the access of a banned person: its call may have been let in before the ban.
func (list bans) mayJoin(reg *Registration, by Person) {
	for i := range list {
		if b := &list[i]; b.keepsOut(reg.Site, reg.Host) || b.Kind == BanPerson && b.Name == by.Name {
			end(refused("%s %s is banned: %s", b.Kind, b.Name, b.Why))
		}
	}
}

// tokensOf returns the ids of a person's accesses.
func tokensOf(table GrantTable, person string) map[string]bool {
	grants := read(table.All())
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
	for site := range q.sites.all() {
		if within != "" && site.Name != within {
			continue
		}
		for _, pilot := range q.pilots.alive(site.Name) {
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
		q.audit.add(AuditEntry{Kind: AuditRevoked, Subject: string(pilot.ID), Site: site.Name, Node: pilot.Node(), Pilot: pilot.ID, Job: pilot.BatchJob, Note: reason})
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
