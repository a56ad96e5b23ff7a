package taskqueue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// TestModesOfSites: nobody gets a site that schedules otherwise than it was
// told to, or an isolated one whose pilots can read nothing of each other.
func TestModesOfSites(t *testing.T) {
	g := newGrid(t)
	for _, c := range []struct {
		mode taskqueue.Mode
		se   string
		want string
	}{
		{"", "", ""}, {taskqueue.ModeDistributed, "", ""}, {taskqueue.ModeCentralized, "", ""},
		{taskqueue.ModeIsolated, "", "needs a storage element"}, {taskqueue.ModeIsolated, "file:///se", ""}, {"x", "", "not known"},
	} {
		err := g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.AddSite(turn, taskqueue.SiteRecord{Name: "A", SiteSettings: taskqueue.SiteSettings{Mode: c.mode, SE: c.se}})
			return err
		})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, taskqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("mode %q: %v", c.mode, err)
		}
	}
}

// TestPilotsThatFellSilentInAnotherModeAreMetAgain: their way to the queue was cut
// while they were to speak for themselves, and their master missed nothing.
func TestPilotsThatFellSilentInAnotherModeAreMetAgain(t *testing.T) {
	a := newGrid(t).addSite("A")
	a.join("master", 1)
	a.join("other", 1)
	a.sync()
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{Mode: taskqueue.ModeCentralized}})
	a.must(func(turn *taskqueue.Turn) error {
		return a.rules.Tend(turn, "A", &taskqueue.Care{Silent: []task.PilotID{a.members[0].id, a.members[1].id}})
	})
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{Mode: taskqueue.ModeDistributed}})
	a.sync() // it hears that it is to meet all of them
	a.sync()
	if site := a.siteRecord("A"); site.Pilots != 2 || site.Registered != 2 {
		t.Errorf("%d pilots with %d slots are counted, want 2 with 2", site.Pilots, site.Registered)
	}
}
