package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pilot of three slots is given tasks whose inputs take three times its
// cache: they take turns, and none of them fails.
func TestTasksTakeTurnsInATightCache(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilot("siteA", "--slots", "3", "--cache-size", "8MiB")
	var files, tasks strings.Builder
	for i := range 8 {
		name := fmt.Sprintf("in%d", i)
		content := strings.Repeat(fmt.Sprintf("%07d\n", i), 3<<20/8)
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&files, "  %s: {source: ./%s}\n", name, name)
		fmt.Fprintf(&tasks, "  t%d: {shell: \"sleep 0.2; cat in%d in%d | wc -c > n%d\", inputs: [in%d, in%d], outputs: [n%d]}\n",
			i, i, (i+3)%8, i, i, (i+3)%8, i)
	}
	id := g.submitted("tight", "files:\n"+files.String()+"tasks:\n"+tasks.String()+"outputs: [n0, n7]\n", "--upload")
	g.done(id)
	for i := range 8 {
		if attempts := g.task(fmt.Sprintf("%s/t%d", id, i)).GetAttempts(); len(attempts) != 1 {
			t.Errorf("t%d took %d attempts", i, len(attempts))
		}
	}
	if got := strings.TrimSpace(g.output(id, "n7")); got != fmt.Sprint(6<<20) {
		t.Errorf("n7 has %q", got)
	}
}
