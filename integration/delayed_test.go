package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Paper 000, section IV-B and Fig. 4: with Delay 2 no task of AAAABBBB reads its
// input elsewhere than at its node, which two of the four have.
func TestDelayedTasksReadLocally(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.must("site", "add", "siteA", "--solver", "dad(0.5,2)", "--rank", "dad(0.8)", "--prefill", "0")
	for _, name := range []string{"A", "B"} {
		path := filepath.Join(g.dir, "storage", "siteA", name)
		if err := os.WriteFile(path, []byte(strings.Repeat(name, 100_000)), 0o644); err != nil {
			t.Fatal(err)
		}
		g.must("file", "register", name, "--at", "siteA=file://"+path)
		for range 2 {
			g.addPilot("siteA", "--slots", "1", "--feature", "has"+name)
		}
	}
	read := func(name, file, more string) string {
		return fmt.Sprintf(`  %s: {inputs: ["vo:%s"], shell: "test -s %s; sleep 0.5"%s}`+"\n", name, file, file, more)
	}
	// Both pilots of a file begin to read it at once, so each runs one of the two.
	var seed, tasks strings.Builder
	for i, file := range []string{"A", "A", "B", "B"} {
		seed.WriteString(read(fmt.Sprint("seed", i), file, fmt.Sprintf(`, require: '"has%s" in pilot.features'`, file)))
	}
	for i, file := range "AAAABBBB" {
		tasks.WriteString(read(fmt.Sprint("t", i), string(file), ""))
	}
	g.done(g.submitted("seed", "tasks:\n"+seed.String()))
	for run := range 4 {
		before := g.site("siteA").GetExternal()
		g.done(g.submitted(fmt.Sprint("run", run), "tasks:\n"+tasks.String()))
		now := g.site("siteA").GetExternal()
		if local := now.GetLocalReads() - before.GetLocalReads(); local != 8 {
			t.Errorf("run %d: %d of 8 tasks read what their node has", run, local)
		}
	}
}
