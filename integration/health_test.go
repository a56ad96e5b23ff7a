package integration

import (
	"fmt"
	"strings"
	"testing"
)

// One of four nodes fails every payload at once. Its retries go elsewhere and it
// is set back soon, whoever gives work at the site: no task fails. The queue says
// which node it is, and why.
func TestABlackHoleFailsNoTask(t *testing.T) {
	for _, mode := range []string{"distributed", "isolated"} {
		t.Run(mode, func(t *testing.T) {
			g := newGrid(t, "siteA")
			g.must("site", "add", "siteA", "--mode", mode)
			for i := range 4 {
				t.Setenv("SLURMD_NODENAME", fmt.Sprint("node-", i))
				g.startPilot("siteA")
			}
			for _, p := range g.pilots {
				p.awaitReady(t)
			}
			bad := g.pilots[2]
			if host := g.pilot(bad.id).GetHost(); host != "node-2" {
				t.Errorf("the third pilot is at node %q", host)
			}
			id := g.submitted("hole", fmt.Sprintf(`
defaults: {memory: 64MiB, disk: 64MiB, retries: 3}
tasks:
  some:
    foreach: {n: "{00..79}"}
    shell: '[ "$PILOTAGE_PILOT" != %s ] || { echo no compiler here >&2; exit 7; }; sleep 0.2'
`, bad.id))
			g.done(id)
			slots, prefill, least := 1, 1, 5
			if burnt := g.site("siteA").GetFailures(); burnt < uint64(least) || burnt > uint64(slots+prefill+least) {
				t.Errorf("%d attempts burnt, want %d to %d", burnt, least, slots+prefill+least)
			}
			for i, p := range g.pilots {
				if why := g.pilot(p.id).GetStopped(); strings.Contains(why, "node-2 is set back") != (i == 2) {
					t.Errorf("pilot %d is said to be stopped by %q", i, why)
				}
			}
			wantText(t, "pilot list", g.must("pilot", "list"), "node-2 is set back")
			wantText(t, "the queue", g.queue.log.String(), "a node is set back", "site=siteA node=node-2", `why="for `, "exit code 7")
			_, metrics := g.scrape("/metrics")
			wantText(t, "the metrics", metrics, `pilotage_nodes_set_back{site="siteA"} 1`)
		})
	}
}
