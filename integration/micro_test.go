package integration

import (
	"fmt"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Tasks that say that they are I/O-bound are spread over pilots by a rank that
// looks at what runs beside (004, section II), as are those bound by the CPU.
// All of them run at once: each waits for the others. Where the queue matches, it
// goes by the same.
func TestTasksOfOneKindAreSpread(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	for range 2 {
		g.startPilot("siteA", "--slots", "2")
	}
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	observe(g, "both pilots' slots", func() (*pb.Site, bool) {
		site := g.site("siteA")
		return site, site.GetFreeSlots() == 4
	})
	spread(g, "distributed")
	g.must("site", "add", "siteA", "--mode", "centralized")
	spread(g, "centralized")
}

// spread runs two tasks of each kind and looks where.
func spread(g *grid, mode string) {
	t := g.t
	met := `'cd ` + g.outside() + `; touch ` + mode + `.$KIND; until [ $(ls | grep -c ` + mode + `) = 4 ]; do sleep 0.1; done'`
	id := g.submitted("spread-"+mode, fmt.Sprintf(`
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  io: {foreach: {n: "{0..1}"}, bound: io, rank: -pilot.io_bound, env: {KIND: "kind.io.{n}"}, shell: %s}
  cpu: {foreach: {n: "{0..1}"}, bound: cpu, rank: -pilot.cpu_bound, env: {KIND: "kind.cpu.{n}"}, shell: %s}
`, met, met))
	g.done(id)
	for _, kind := range []string{"io", "cpu"} {
		first, second := g.task(id+"/"+kind+"[0]").GetWinner().GetPilot(), g.task(id+"/"+kind+"[1]").GetWinner().GetPilot()
		if first == second {
			t.Errorf("mode %s: both %s-bound tasks ran on %s", mode, kind, first)
		}
	}
}
