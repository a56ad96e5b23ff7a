package taskqueue_test

import (
	"errors"
	"strings"
	"testing"

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
