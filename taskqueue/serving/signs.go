package serving

import (
	"errors"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Sign is a sign of life of a site's master.
type Sign struct {
	At   taskqueue.Instant
	Term task.Term
	// Assumed at the start of a server: who was away could hear nobody. It holds up
	// claims and counts for nothing else.
	Assumed bool
}

// Assume enters a sign of life that was not given to this server.
func (d *Desk) Assume(site task.Site, term task.Term, at taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.site(site).heard = Sign{At: at, Term: term, Assumed: true}
}

// Heard returns a site's last sign of life, which is of this moment while the newest call
// of its master is parked; false if there was none.
func (d *Desk) Heard(site task.Site, now taskqueue.Instant) (Sign, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.sites[site]
	if s == nil {
		return Sign{}, false
	}
	if s.newest != nil && s.newest.parked && slices.Contains(s.calls, s.newest) {
		return Sign{At: now, Term: s.newest.term}, true
	}
	return s.heard, s.heard.At != 0
}

// brokenOff is when the connection ended by which the master of a term was heard last; 0:
// it stands, another call of that master is being served, or this server does not know.
func (d *Desk) brokenOff(site task.Site, term task.Term, now Moment) taskqueue.Instant {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.sites[site]
	if s == nil || s.newest == nil || s.newest.term != term {
		return 0
	}
	for _, c := range s.calls {
		if c.term == term && c.by.endedBy(now) == 0 {
			return 0
		}
	}
	ended := s.newest.by.endedBy(now)
	if ended == 0 {
		return 0
	}
	return max(ended, s.heard.At)
}

// MarkEvery is how exactly rules that a server runs write signs of life: as the site counts
// as live for longer. They leave them to SaveSigns, which writes them more often and for
// sites together: a Sync that brings and gets nothing has nothing to write.
func MarkEvery(config taskqueue.Config) time.Duration {
	return max(config.Site.MarkEvery, config.Site.LiveFor/2)
}

// marking are the rules that write signs of life as exactly as is said.
func marking(config taskqueue.Config, every time.Duration) *taskqueue.Rules {
	config.Site.MarkEvery = every
	return taskqueue.NewRules(config)
}

// SignsDue lists the sites of which signs of life are to be written: where one is due, all
// that are half as old go with it, as one commit costs more than some rows.
func (m *Matching) SignsDue(now taskqueue.Instant) []task.Site {
	least := m.signs.Config.Site.MarkEvery
	if due := m.desk.signsDue(now, 2*least); len(due) > 0 {
		return m.desk.signsDue(now, least)
	}
	return nil
}

func (d *Desk) signsDue(now taskqueue.Instant, every time.Duration) (due []task.Site) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for name, s := range d.sites {
		waits := func(c *Call) bool { return c.doing == waiting }
		if now.Sub(s.written) >= every && (s.heard.At > s.written && !s.heard.Assumed || slices.ContainsFunc(s.calls, waits)) {
			due = append(due, name)
		}
	}
	slices.Sort(due)
	return due
}

// SaveSigns brings the signs of life of sites into their records: those of masters, at the
// time now of the service clock, and those of pilots that pull. What was noted of a site
// that the store does not know, as after going back to a backup, is dropped.
func (m *Matching) SaveSigns(t *taskqueue.Turn, sites []task.Site, now taskqueue.Instant) error {
	for _, site := range sites {
		if err := m.saveSigns(t, site, now); err != nil && !errors.Is(err, taskqueue.ErrNotFound) {
			return err
		}
	}
	m.desk.written(sites, now)
	return nil
}

func (d *Desk) written(sites []task.Site, now taskqueue.Instant) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, site := range sites {
		d.site(site).written = now
	}
}

func (m *Matching) saveSigns(t *taskqueue.Turn, site task.Site, now taskqueue.Instant) error {
	if sign, ever := m.desk.Heard(site, now); ever && !sign.Assumed {
		if err := m.save(t, m.signs, site, sign); err != nil {
			return err
		}
	}
	if _, pulls := m.desk.Parked(site); pulls {
		return m.signs.HeardPull(t, site, m.capacity(site))
	}
	return nil
}

func (m *Matching) save(t *taskqueue.Turn, by *taskqueue.Rules, site task.Site, sign Sign) error {
	if sign.At > t.Clock {
		return nil
	}
	then := *t
	then.Clock = sign.At
	return by.Heard(&then, site, sign.Term)
}

// Claim decides on a claim for a mastership. How long the old master has been silent
// counts from its last call, or the end of one that was parked.
func (m *Matching) Claim(t *taskqueue.Turn, c taskqueue.Claim) (taskqueue.ClaimResult, error) {
	if sign, ever := m.desk.Heard(c.Site, t.Clock); ever {
		if err := m.save(t, m.exact, c.Site, sign); err != nil {
			return taskqueue.ClaimResult{}, err
		}
	}
	c.BrokenOff = m.desk.brokenOff(c.Site, c.Expected, Moment{t.Clock, t.Wall})
	return m.turns.Rules.Claim(t, c)
}
