package taskqueue

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// maxJump bounds by how much what pilots name may be ahead of the queue's own
// numbers: far more than a queue gives out between a backup and its restore, and
// too few for the numbers to run out.
const maxJump = 1 << 30

// Claim decides on a pilot's claim to be its site's master. It is granted
// when the claimant knows the term in office and its holder resigned, is
// known to be gone, or has not been heard for ClaimSilence, or for BrokenSilence
// after its connection broke. The site's open leases come with the grant. Who
// holds the office already is granted it again, without a new term unless the site
// has gone on to a provisional one, which that has to outrank. A claimant that shows
// the queue's own signature of a later term shows that the queue was put back to a backup:
// nobody whom the queue knows is in office by that term, and the new one comes after it.
// Without the signature a later term takes no office from a master that is heard.
//
// Errors: ErrNotFound (the site), ErrStranger, ErrRefused (a pilot of another site,
// or one whose membership was revoked).
func (r *Rules) Claim(t *Turn, c Claim) (_ ClaimResult, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(c.Site)
	claimant := q.office.claimant(site, c.Pilot)
	if claimant.outdated() {
		end(fmt.Errorf("%w: pilot %s is of another release than the pilots that site %s has now", ErrStranger, c.Pilot, site.Name))
	}
	ground, objection := q.office.judge(site, claimant, &c)
	if objection != "" {
		result := ClaimResult{Term: site.Term, Why: objection, Settings: r.Settings(*site)}
		if master := q.pilots.held[site.Master]; master != nil {
			result.Master = contact(master)
		}
		return result, nil
	}
	if claimant.State == PilotDead {
		q.members.revive(site, claimant)
	}
	if ground != "" {
		q.missMaster(site, &c)
		q.office.crown(site, claimant, c.Expected.Epoch, ground)
	}
	result := ClaimResult{Granted: true, Term: site.Term, Master: contact(claimant), Why: ground, Settings: r.Settings(*site)}
	for _, p := range q.pilots.alive(site.Name) {
		if p.ID != claimant.ID {
			result.Pilots = append(result.Pilots, contact(p))
		}
	}
	if site.InForce().Central() {
		return result, nil // mastership of the overlay only
	}
	for _, lease := range q.leasing.leasesOf(site.Name) {
		result.Leases = append(result.Leases, q.leasing.fullLease(site, lease))
	}
	result.Revoked = q.leasing.revocations(site.Name)
	return result, nil
}

// missMaster takes a master for dead whose office another one gets because neither
// its site nor the queue hears it. Where pilots speak for themselves only its site
// misses it.
func (q *queue) missMaster(site *SiteRecord, c *Claim) {
	master := q.pilots.held[site.Master]
	if master == nil || master.ID == c.Pilot || !master.State.Present() || c.Expected != site.Term ||
		site.Resigned || c.Resigned || site.InForce().Central() {
		return
	}
	q.dismiss(site, master, PilotDead, "it was master, and was missed by its site and the queue")
}

// claimant returns the pilot that claims, or pulls. One that was taken for dead lives again
// if its claim is granted; otherwise the master in office tells when it meets it.
func (m *office) claimant(site *SiteRecord, id task.PilotID) *PilotRecord {
	pilot := m.pilots.one(id)
	if pilot == nil {
		end(unknownPilot(id))
	}
	if pilot.Site != site.Name {
		end(refused("pilot %s belongs to site %s, not to %s", id, pilot.Site, site.Name))
	}
	if site.denies(pilot.Peer) {
		end(refused("the membership of pilot %s was revoked", id))
	}
	return pilot
}

func unknownPilot(id task.PilotID) error {
	return fmt.Errorf("%w: pilot %s registered after the backup that the queue was put back to", ErrStranger, id)
}

// judge tells why a claim is granted, or else why it is refused; neither to a
// claimant that is in office.
func (m *office) judge(site *SiteRecord, claimant *PilotRecord, c *Claim) (ground, objection string) {
	later := site.Term.Less(c.Expected)
	wentBack := later && c.Signed
	if later && c.Expected.Epoch-site.Term.Epoch > maxJump {
		end(refused("term %s is far beyond any that the queue can have granted", c.Expected))
	}
	if !wentBack && site.Master == claimant.ID && site.Term.Peer == claimant.Peer && !site.Resigned {
		if c.Ballot == 0 {
			return "", ""
		}
		return "its site elected it anew while the queue was away", ""
	}
	if claimant.State == PilotLeft {
		// It lost its master between its goodbyes to the queue and to its peers.
		return "", fmt.Sprintf("pilot %s has said goodbye", claimant.ID)
	}
	if wentBack {
		return fmt.Sprintf("the queue was put back to a backup from before term %s", c.Expected), ""
	}
	if site.Master == "" {
		return "nobody was master", ""
	}
	m.pilots.load(site.Master)
	if c.Expected != site.Term && !later {
		return "", fmt.Sprintf("the term in office is %s, not %s", site.Term, c.Expected)
	}
	if claimant.Tried > 0 && claimant.Unreachable && m.Clock.Sub(site.ModeSince) < m.config.Fallback.TrialAfter {
		return "", fmt.Sprintf("the others do not reach pilot %s, as it has found itself", claimant.ID)
	}
	silence := m.Clock.Sub(site.LastSync)
	switch master := m.pilots.held[site.Master]; {
	case site.Resigned || c.Resigned && !later:
		return fmt.Sprintf("master %s resigned", site.Master), ""
	case master == nil || !master.State.Present():
		return fmt.Sprintf("master %s was gone", site.Master), ""
	case c.BrokenOff != 0 && site.LastSync <= c.BrokenOff && m.Clock.Sub(c.BrokenOff) >= m.config.Site.BrokenSilence:
		return fmt.Sprintf("the connection of master %s broke", site.Master), ""
	case silence >= m.config.Site.ClaimSilence:
		return fmt.Sprintf("master %s was not heard for %s", site.Master, silence.Round(100*time.Millisecond)), ""
	}
	return "", fmt.Sprintf("master %s was heard %s ago, and stays in office until it is not heard for %s",
		site.Master, silence.Round(100*time.Millisecond), m.config.Site.ClaimSilence)
}
