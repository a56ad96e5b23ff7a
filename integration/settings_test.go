package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// A storage element that a live site is given is every pilot's at once, not
// its master's alone: what they have made so far is brought there.
func TestSettingsOfALiveSite(t *testing.T) {
	g := newGrid(t)
	g.must("site", "add", "siteA")
	pilots := g.addPilots("siteA", "siteA", "siteA")
	id := g.submitted("moved", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  first:
    foreach: {n: "{0..8}"}
    shell: "sleep 0.5; echo {n} > part.{n}"
    outputs: ["part.{n}"]
outputs: ["part.{0..8}"]
`)
	observe(g, "every task done", func() (uint64, bool) {
		tasks := g.site("siteA").GetTasks()
		return tasks, tasks == 9
	})
	ran := make(map[string]bool)
	for n := range 9 {
		ran[g.task(fmt.Sprintf("%s/first[%d]", id, n)).GetWinner().GetPilot()] = true
	}
	if len(ran) != len(pilots) {
		t.Fatalf("%d of %d pilots have run tasks", len(ran), len(pilots))
	}
	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.MkdirAll(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	g.must("site", "add", "siteA", "--se", "file://"+storage)
	g.done(id)
}

// The solver and the rank of a site are settings like any other: they hold for
// tasks that wait, and how near the assignments come to the best ones is shown.
func TestSolverAndRankOfALiveSite(t *testing.T) {
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
	optimality := observe(g, "a measured solution", func() (*pb.Optimality, bool) {
		o := g.site("siteA").GetOptimality()
		return o, o.GetMeasured() > 0
	})
	if optimality.GetMeanRatio() != 1 || optimality.GetLeastRatio() != 1 {
		t.Errorf("the exact solver reaches %v of the best sum", optimality)
	}
	g.expect(0, []string{"exact, 1 of the best sum of ranks", "overlap"}, "site", "show", "siteA")

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
