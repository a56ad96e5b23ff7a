package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// While three tasks wait for a pilot that is busy, their input is copied into
// its cache from the pilot that has made it (003): when they come they find it
// there.
func TestReplicasAreMadeBeforeTasksAskForThem(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.rejects([]string{"replica policies look at all pilots", "give mode distributed"}, "site", "add", "siteA", "--mode", "centralized", "--replicate", "alpha(1)")
	g.rejects([]string{"alpha(15)"}, "site", "add", "siteA", "--replicate", "alpha")
	g.must("site", "add", "siteA", "--replicate", "alpha(1)", "--prefill", "0")
	g.addPilot("siteA", "--slots", "1", "--feature", "maker")
	g.addPilot("siteA", "--slots", "1", "--feature", "reader")
	held, open := filepath.Join(g.outside(), "held"), filepath.Join(g.outside(), "open")
	id := g.submitted("replicas", fmt.Sprintf(`
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  hold: {require: '"reader" in pilot.features', shell: "touch %s; until test -e %s; do sleep 0.1; done"}
  make: {require: '"maker" in pilot.features', shell: "until test -e %s; do sleep 0.1; done; head -c 100000 /dev/zero > made", outputs: [made]}
  read: {foreach: {n: "{0..2}"}, require: '"reader" in pilot.features', inputs: [made], shell: "cmp -n 100000 made /dev/zero"}
`, held, open, held))
	observe(g, "a replica", func() (*pb.Site, bool) {
		site := g.site("siteA")
		return site, site.GetReplicas() > 0
	})
	if err := os.WriteFile(open, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	g.done(id)
	site := g.site("siteA")
	if reads := site.GetIntermediate(); reads.GetLocalReads() != 3 || reads.GetPeerReads()+reads.GetSeReads()+reads.GetRemoteReads() != 0 {
		t.Errorf("the tasks read %v, want three local reads", reads)
	}
	if site.GetReplicas() != 1 || site.GetReplicaBytes() != 100_000 {
		t.Errorf("%d replicas of %d bytes, want one of 100000", site.GetReplicas(), site.GetReplicaBytes())
	}
	g.expect(0, []string{"alpha(1); copies made: 1, 97.7KiB"}, "site", "show", "siteA")
	if _, body := g.scrape("/metrics"); !strings.Contains(body, `pilotage_replicas_total{site="siteA"} 1`) {
		t.Error("/metrics does not tell of the replica")
	}
}
