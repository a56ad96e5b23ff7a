package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
