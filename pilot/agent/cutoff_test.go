package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// toldQueue is a queue that is told that pilots are cut off.
type toldQueue struct {
	Queue

	mode string
	err  error
	told []string
}

func (q *toldQueue) Unreachable(_ context.Context, reason string) (task.SiteSettings, error) {
	q.told = append(q.told, reason)
	return task.SiteSettings{Site: "siteA", Mode: q.mode}, q.err
}

// A pilot that no peer reaches takes work if its site does without that.
func TestWithoutPeers(t *testing.T) {
	for _, c := range []struct {
		what   string
		ok     bool
		mode   string
		err    error
		fit    bool
		told   int
		detail string
	}{
		{PortsCheck, true, "", nil, true, 0, "as it was"},
		{"disk", false, "", nil, false, 0, "as it was"},
		{PortsCheck, false, task.ModeIsolated, nil, true, 1, "the site does without its network: as it was"},
		{PortsCheck, false, "distributed", nil, false, 1, "as it was"},
		{PortsCheck, false, task.ModeIsolated, errors.New("away"), false, 1, "as it was"},
	} {
		queue := &toldQueue{mode: c.mode, err: c.err}
		var settings siteSettings
		a := &reach{
			shell: &shell{log: slog.New(slog.DiscardHandler)}, queue: queue,
			settle: func(_ time.Time, now task.SiteSettings) { settings.set(now) },
		}
		findings := []Finding{{What: "clock", OK: true}, {What: c.what, OK: c.ok, Detail: "as it was"}}
		a.withoutPeers(t.Context(), findings)
		if got := findings[1]; got.OK != c.fit || got.Detail != c.detail || len(queue.told) != c.told {
			t.Errorf("%+v: %+v after %q", c, got, queue.told)
		}
		if c.told > 0 && !strings.Contains(queue.told[0], "as it was") {
			t.Errorf("the queue was told %q", queue.told[0])
		}
		if isolated := settings.isolated(); isolated != (c.mode == task.ModeIsolated && c.err == nil) {
			t.Errorf("%+v: isolated %v", c, isolated)
		}
	}
}
