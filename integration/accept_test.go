package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// A pilot's own policy keeps it from taking work: for ever, or until a moment
// comes. That is shown wherever somebody may look for the reason, in every mode
// of a site; others run the tasks meanwhile. One that cannot be read is refused
// at the start, with its place.
func TestOwnPolicyOfAPilot(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.rejects([]string{"accept policy, line 1 column 9", "did you mean load?"}, "pilot", "--access", g.access("pilot-siteA"), "--accept", "true && lod < 1")
	g.rejects([]string{"it must be true when"}, "pilot", "--access", g.access("pilot-siteA"), "--accept", "free_memory")
	g.expect(0, []string{"weekday > 6: declines work now (load "}, g.check("siteA", "--accept", "weekday > 6")...)
	never := g.addPilot("siteA", "--accept", "hour > 23")
	const why = "its own policy declines: hour > 23"
	stopped := func(p *pilotProcess) {
		observe(g, "the pilot's policy being known", func() (string, bool) {
			shown := g.pilot(p.id).GetStopped()
			return shown, shown == why
		})
	}
	stopped(never)
	observe(g, "the site's new master counting it", func() (int32, bool) {
		count := g.site("siteA").GetStoppedPilots()
		return count, count == 1
	})
	g.expect(0, []string{why}, "pilot", "list")
	g.expect(0, []string{"1, of which one takes no new work", why}, "site", "show", "siteA")
	id := g.submitted("declined", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  t: {foreach: {n: "{0..5}"}, shell: "echo {n} > out.{n}", outputs: ["out.{n}"]}
outputs: ["out.{0..5}"]
`)
	for _, mode := range []string{"centralized", "isolated", "distributed"} {
		g.must("site", "add", "siteA", "--mode", mode)
		stopped(never)
		observe(g, "the reason in mode "+mode, func() (string, bool) {
			said := g.must("task", "explain", id+"/t[0]")
			return said, strings.Contains(said, "takes no work at the moment") && strings.Contains(said, why)
		})
	}
	if tasks := g.site("siteA").GetTasks(); tasks > 0 {
		t.Fatalf("%d tasks were run by a pilot that takes none", tasks)
	}
	moment := time.Now().Add(6 * time.Second)
	later := g.addPilot("siteA", "--accept", fmt.Sprintf("now >= timestamp(%q)", moment.UTC().Format(time.RFC3339Nano)))
	g.done(id)
	for n := range 6 {
		for _, attempt := range g.task(fmt.Sprintf("%s/t[%d]", id, n)).GetAttempts() {
			outcome := attempt.GetOutcome()
			if began := outcome.GetStarted().AsTime(); outcome.GetAttempt().GetPilot() != later.id || began.Before(moment) {
				t.Errorf("task %d ran on %s from %s: want %s from %s on", n, outcome.GetAttempt().GetPilot(), began, later.id, moment)
			}
		}
	}
	if site := g.site("siteA"); site.GetStoppedPilots() != 1 || site.GetTasks() != 6 || site.GetSettings().GetMode() != pb.SiteMode_SITE_MODE_DISTRIBUTED {
		t.Errorf("in the end %d pilots are stopped and %d tasks done", site.GetStoppedPilots(), site.GetTasks())
	}
}
