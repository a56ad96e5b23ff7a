package taskqueue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// TestModesToComeAreRefused: nobody gets a site that schedules otherwise than
// it was told to.
func TestModesToComeAreRefused(t *testing.T) {
	g := newGrid(t)
	for mode, want := range map[taskqueue.Mode]string{
		"": "", taskqueue.ModeDistributed: "", taskqueue.ModeCentralized: "not available", taskqueue.ModeIsolated: "not available", "x": "not known",
	} {
		err := g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.AddSite(turn, taskqueue.SiteRecord{Name: "A", Mode: mode})
			return err
		})
		if want == "" && err != nil || want != "" && (!errors.Is(err, taskqueue.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
}
