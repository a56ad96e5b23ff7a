package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A storage element that a live site is given is every pilot's at once, not
// its master's alone: what they have made so far is brought there.
func TestSettingsOfALiveSite(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	g.must("site", "add", "siteA")
	var tasks strings.Builder // one for each pilot
	for n, p := range g.addPilots("siteA", "siteA", "siteA") {
		fmt.Fprintf(&tasks, `
  part%d: {require: 'pilot.id == "%s"', shell: "echo %d > part.%d", outputs: [part.%d]}`, n, p.id, n, n, n)
	}
	id := g.submitted("moved", fmt.Sprintf(`
defaults: {memory: 64MiB, disk: 64MiB}
tasks:%s
outputs: ["part.{0..2}"]
`, &tasks))
	observe(g, "a task done at every pilot", func() (uint64, bool) {
		tasks := g.site("siteA").GetTasks()
		return tasks, tasks == 3
	})
	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.MkdirAll(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	g.must("site", "add", "siteA", "--se", "file://"+storage)
	g.done(id)
	for n := range 3 {
		if got := g.output(id, fmt.Sprintf("part.%d", n)); got != fmt.Sprintf("%d\n", n) {
			t.Errorf("part %d holds %q", n, got)
		}
	}
}

// The solver and the rank of a site are settings like any other: they hold for
// tasks that wait.
func TestSolverAndRankOfALiveSite(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.rejects([]string{"give the rank dad(BETA)"}, "site", "add", "siteA", "--solver", "dad(0.5,2)")
	g.rejects([]string{"unknown solver", "greedy, exact"}, "site", "add", "siteA", "--solver", "best")
	g.rejects([]string{"pilot.kores"}, "site", "add", "siteA", "--rank", "pilot.kores")
	g.must("site", "add", "siteA", "--solver", "exact", "--rank", "overlap")
	for range 2 {
		g.startPilot("siteA", "--slots", "2")
	}
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	id := g.submitted("exact", chainAndMerge)
	g.done(id)
	wantLines(t, g.output(id, "all"), 12)
	g.expect(0, []string{"exact", "overlap"}, "site", "show", "siteA")

	g.must("site", "add", "siteA", "--solver", "dad(0.5,2)", "--rank", "dad(0.8)")
	id = g.submitted("delayed", chainAndMerge)
	g.done(id)
	wantLines(t, g.output(id, "all"), 12)
	g.rejects([]string{"give mode distributed"}, "site", "add", "siteA", "--mode", "centralized")
	g.must("site", "add", "siteA", "--mode", "centralized", "--solver", "choose(2)", "--rank", "combined")
	id = g.submitted("chosen", chainAndMerge)
	g.done(id)
	wantLines(t, g.output(id, "all"), 12)
}
