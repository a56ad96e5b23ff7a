package taskqueue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// unreachable is a pilot's word that it cannot talk with the others.
func (c *crew) unreachable(m *member) (task.SiteSettings, error) {
	var settings task.SiteSettings
	err := c.update(func(t *taskqueue.Turn) (err error) {
		settings, err = c.rules.Unreachable(t, taskqueue.Unreachable{Site: c.site, Pilot: m.id, Reason: "nobody answers " + string(m.peer)})
		return err
	})
	return settings, err
}

func (c *crew) settings() (settings task.SiteSettings, fallback string) {
	c.t.Helper()
	site := c.siteRecord(c.site)
	return c.rules.Settings(site), site.Fallback
}

// set changes the site's settings as an operator does.
func (c *crew) set(site taskqueue.SiteRecord) {
	c.t.Helper()
	site.Name = c.site
	c.must(func(t *taskqueue.Turn) error {
		_, err := c.rules.AddSite(t, site)
		return err
	})
}

// A site does without its network when more of its pilots are cut off than
// work with its master, until an operator sets a mode or nobody is left.
func TestFallbackToIsolated(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	var pilots []*member
	for _, peer := range []task.PeerID{"master", "works", "cut1", "cut2"} {
		pilots = append(pilots, a.join(peer, 1))
	}
	a.sync() // the master has met all of them
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, nil)}})
	expect := func(pilot *member, mode string) {
		t.Helper()
		settings, err := a.unreachable(pilot)
		if now, _ := a.settings(); err != nil || settings.Mode != mode || now != settings {
			t.Fatalf("after the word of %s: %s, %v, want mode %s", pilot.peer, settings.Mode, err, mode)
		}
	}
	expect(pilots[2], "distributed") // one of three
	expect(pilots[2], "distributed") // the same
	expect(pilots[3], "isolated")
	_, fallback := a.settings()
	for _, word := range []string{"distributed is set", "2 of 4", "nobody answers cut2"} {
		if !strings.Contains(fallback, word) {
			t.Errorf("the fallback is explained by %q, want %q in it", fallback, word)
		}
	}
	g.must(func(t *taskqueue.Turn) error {
		e, err := g.rules.Explain(t, task.NewID(w, "one"))
		if err == nil && (len(e.Sites) == 0 || e.Sites[0].Fallback != fallback) {
			g.t.Errorf("the task is explained by %+v, want the fallback", e.Sites)
		}
		return err
	})
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A", Prefill: 2}, SiteMode: taskqueue.SiteMode{Fallback: fallback}}) // another setting
	if now, _ := a.settings(); now.Mode != "isolated" {
		t.Errorf("a change of another setting ended the fallback")
	}
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A"}})
	if now, why := a.settings(); now.Mode != "distributed" || why != "" {
		t.Errorf("mode %s, %q after an operator has set one", now.Mode, why)
	}
	expect(pilots[2], "isolated")
	g.check()
	for _, pilot := range pilots {
		g.must(func(t *taskqueue.Turn) error {
			return g.rules.Leave(t, taskqueue.Leaving{Pilot: pilot.id, Site: a.site, Reason: "over"})
		})
	}
	if now, why := a.settings(); now.Mode != "distributed" || why != "" {
		t.Errorf("mode %s, %q after the last pilot left", now.Mode, why)
	}
	if _, err := a.unreachable(pilots[1]); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("the word of a pilot that has left: %v", err)
	}
	g.check()
}

// A pilot that its master takes for dead lives, by its own word; meeting it
// again takes the word back. Without a storage element there is nothing to
// fall back to.
func TestUnreachablePilots(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("master", 1)
	cut := a.join("cut", 1)
	a.sync()
	a.next.Departed = []task.Departure{{Pilot: cut.id, Dead: true, Reason: "silent"}}
	a.members = a.members[:1]
	a.sync()
	a.set(taskqueue.SiteRecord{})
	if settings, err := a.unreachable(cut); err != nil || settings.Mode != "distributed" {
		t.Errorf("mode %s without a storage element, %v", settings.Mode, err)
	}
	other := g.addSite("B")
	stranger := other.join("stranger", 1)
	stranger.id, cut.id = cut.id, stranger.id
	if _, err := other.unreachable(stranger); !errors.Is(err, taskqueue.ErrNotFound) {
		t.Errorf("the word of a pilot of another site: %v", err)
	}
	stranger.id, cut.id = cut.id, stranger.id
	a.next.Joined = []task.PilotID{cut.id}
	a.sync()
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A"}})
	late := a.join("late", 1)
	if settings, err := a.unreachable(late); err != nil || settings.Mode != "distributed" {
		t.Errorf("mode %s, %v: one is cut off, one works with the master again", settings.Mode, err)
	}
	g.check()
}
