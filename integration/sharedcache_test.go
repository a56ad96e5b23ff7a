package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
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
	work := func(name string, tasks int) *pb.SourceSums {
		t.Helper()
		before := g.site("siteA").GetExternal()
		id := g.submitted(name, fmt.Sprintf(`
files: {big: {source: ./big}}
tasks:
  read: {foreach: {i: "{0..%d}"}, shell: "wc -c < big > n; sleep 0.3", inputs: [big], outputs: {"%s.{i}": n}}
`, tasks-1, name), "--upload")
		g.done(id)
		return observe(g, "all reads reported", func() (*pb.SourceSums, bool) {
			now := g.site("siteA").GetExternal()
			return &pb.SourceSums{
				LocalReads: now.GetLocalReads() - before.GetLocalReads(), SeReads: now.GetSeReads() - before.GetSeReads(),
				SeBytes: now.GetSeBytes() - before.GetSeBytes(),
			}, reads(now) == reads(before)+uint64(tasks)
		})
	}
	if sums := work("both", 8); sums.GetSeReads() == 0 || sums.GetSeReads() > 2 || sums.GetLocalReads() == 0 {
		t.Errorf("eight tasks at two pilots read %v", sums)
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
	if sums := work("one", 4); sums.GetSeReads() > 0 || sums.GetLocalReads() != 4 {
		t.Errorf("after the first pilot was killed, four tasks read %v", sums)
	}
	alone := []string{"pilot", "--access", g.access("pilot-siteA"), "--cache", shared, "--advertise", "127.0.0.1", "--slots", "1"}
	known := len(strings.Split(g.must("pilot", "list", "--all"), "\n"))
	g.expect(8, []string{"in use", "--shared-cache"}, alone...)
	if now := len(strings.Split(g.must("pilot", "list", "--all"), "\n")); now != known {
		t.Errorf("a pilot whose folder is in use has registered: %d lines of pilots, now %d", known, now)
	}
}
