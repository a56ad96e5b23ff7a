package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Outputs that can be stored nowhere end their workflow, and can be fetched from
// the caches of living pilots; a site with storage makes and keeps them instead.
func TestOutputsWithoutStorage(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	g.must("site", "add", "siteB")
	g.addPilots("siteB", "siteB")
	id := g.submitted("bare", `
tasks:
  make: {foreach: {i: "{0..5}"}, shell: "head -c 1000000 /dev/zero | tr '\\0' {i} > out; sleep 0.2", outputs: {"out.{i}": out}}
  none: {shell: "true > none", outputs: [none]}
`)
	_, said, code := g.run("workflow", "wait", id, "--timeout", "60s")
	if code != 6 || !strings.Contains(said, "7 final outputs are only in caches") || !strings.Contains(said, "(siteB)") {
		t.Fatalf("wait ends with code %d: %s", code, said)
	}
	into := filepath.Join(g.dir, "fetched")
	g.must("workflow", "outputs", id, "--to", into)
	for i := range 6 {
		content, err := os.ReadFile(filepath.Join(into, fmt.Sprintf("out.%d", i)))
		if err != nil || len(content) != 1_000_000 || strings.Trim(string(content), fmt.Sprint(i)) != "" {
			t.Errorf("out.%d has %d bytes: %v", i, len(content), err)
		}
	}
	if content, err := os.ReadFile(filepath.Join(into, "none")); err != nil || len(content) > 0 {
		t.Errorf("%q, %v", content, err)
	}
	if listed := g.must("workflow", "outputs", id, "--list"); !strings.Contains(listed, "caches of siteB") {
		t.Errorf("listed: %s", listed)
	}

	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.MkdirAll(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	g.must("site", "add", "siteA", "--se", "file://"+storage)
	g.addPilot("siteA")
	kept := g.submitted("kept", `
tasks:
  make: {foreach: {i: "{0..9}"}, shell: "echo {i} > out", outputs: {"kept.{i}": out}}
`)
	g.done(kept)
	for i := range 10 {
		if at := g.task(fmt.Sprintf("%s/make[%d]", kept, i)).GetSite(); at != "siteA" {
			t.Errorf("task %d ran at %s", i, at)
		}
	}
}
