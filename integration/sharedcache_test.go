package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Pilots of a node that have one cache read an input from the storage element once; what
// one of them that is killed has brought and made is there for the other.
func TestPilotsOfANodeShareOneCache(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	shared := filepath.Join(g.dir, "shared")
	first := g.addPilot("siteA", "--shared-cache", shared)
	g.addPilot("siteA", "--shared-cache", shared)
	if err := os.WriteFile(filepath.Join(g.dir, "big"), []byte(strings.Repeat("0123456\n", 1<<18)), 0o600); err != nil {
		t.Fatal(err)
	}
	// work returns how many of the tasks found the input in their cache.
	work := func(name string, tasks int) uint64 {
		t.Helper()
		before := g.site("siteA").GetExternal()
		id := g.submitted(name, fmt.Sprintf(`
files: {big: {source: ./big}}
tasks:
  read: {foreach: {i: "{0..%d}"}, shell: "wc -c < big > n; sleep 0.3", inputs: [big], outputs: {"%s.{i}": n}}
`, tasks-1, name), "--upload")
		g.done(id)
		return observe(g, "all reads reported", func() (uint64, bool) {
			now := g.site("siteA").GetExternal()
			return now.GetLocalReads() - before.GetLocalReads(), reads(now) == reads(before)+uint64(tasks)
		})
	}
	work("both", 8)
	// Each task that waits for the one transfer counts as a read of its own.
	if read := observe(g, "the transfer reported", func() (uint64, bool) {
		read := g.site("siteA").GetSeTransfers()
		return read, read > 0
	}); read != 1 {
		t.Errorf("for eight tasks at two pilots the storage element was read %d times", read)
	}
	contents, err := filepath.Glob(filepath.Join(shared, "cache", "??", strings.Repeat("?", 64)))
	if err != nil {
		t.Fatal(err)
	}
	if large := slices.DeleteFunc(contents, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Size() < 1<<21
	}); len(large) != 1 {
		t.Errorf("the input lies in the folder as %v", large)
	}
	first.kill()
	if local := work("one", 4); local != 4 {
		t.Errorf("after the first pilot was killed, %d of four tasks found the input in the cache", local)
	}
	alone := []string{"pilot", "--access", g.access("pilot-siteA"), "--cache", shared, "--advertise", "127.0.0.1", "--slots", "1"}
	known := len(strings.Split(g.must("pilot", "list", "--all"), "\n"))
	g.expect(8, []string{"in use", "--shared-cache"}, alone...)
	if now := len(strings.Split(g.must("pilot", "list", "--all"), "\n")); now != known {
		t.Errorf("a pilot whose folder is in use has registered: %d lines of pilots, now %d", known, now)
	}
}
