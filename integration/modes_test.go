package integration

import (
	"fmt"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// chainAndMerge makes files in two steps and joins them, so that tasks read
// what their own pilot has made, and what others have.
const chainAndMerge = `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  first:
    foreach: {n: "{00..11}"}
    shell: "echo {n} > part.{n}; head -c 20000 /dev/urandom >> part.{n}"
    outputs: ["part.{n}"]
  second:
    foreach: {n: "{00..11}"}
    inputs: ["part.{n}"]
    shell: "head -n 1 part.{n} > line.{n}"
    outputs: ["line.{n}"]
  merge: {inputs: ["line.{00..11}"], shell: "cat line.* > all", outputs: [all]}
outputs: [all]
`

func wantLines(t *testing.T, got string, n int) {
	t.Helper()
	want := ""
	for i := range n {
		want += fmt.Sprintf("%02d\n", i)
	}
	if got != want {
		t.Errorf("the workflow made %q, want %q", got, want)
	}
}

// A site at which the queue matches tasks runs a chain and a merge as a
// distributed one does; only where files come from differs.
func TestModesOfASite(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"centralized", "isolated"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, "siteA")
			g.must("site", "add", "siteA", "--mode", mode)
			for range 3 {
				g.startPilot("siteA")
			}
			for _, p := range g.pilots {
				p.awaitReady(t)
			}
			id := g.submitted("modes", chainAndMerge)
			g.done(id)
			wantLines(t, g.output(id, "all"), 12)
			observe(g, "the slots of all pilots, free again", func() (string, bool) {
				site := g.site("siteA")
				return fmt.Sprintf("%d of %d free, %d run", site.GetFreeSlots(), site.GetSlots(), site.GetRunning()),
					site.GetSlots() == 3 && site.GetFreeSlots() == 3 && site.GetRunning() == 0
			})
			site := g.site("siteA")
			sums := site.GetIntermediate()
			if reads := sums.GetLocalReads() + sums.GetPeerReads() + sums.GetSeReads(); reads != 24 {
				t.Errorf("%d reads of what tasks made, want 24: %v", reads, sums)
			}
			switch {
			case mode == "isolated" && sums.GetPeerReads() > 0:
				t.Errorf("pilots of an isolated site read from each other: %v", sums)
			case mode == "centralized" && sums.GetSeReads() > 0:
				t.Errorf("files in caches were read from the storage element: %v", sums)
			case sums.GetLocalReads() < 12:
				t.Errorf("tasks did not go to their files: %v", sums)
			}
			methods := site.GetRequestsByMethod()
			if methods["Sync"] > 0 || methods["Pull"] == 0 {
				t.Errorf("requests %v, want each pilot's own calls only", methods)
			}
			if site.GetSettings().GetMode() == pb.SiteMode_SITE_MODE_DISTRIBUTED {
				t.Errorf("mode %v", site.GetSettings().GetMode())
			}
			t.Logf("reads %v; requests %v", sums, methods)
		})
	}
}

// The mode of a site is changed again and again while its pilots work: what
// runs goes on, what waits is run by whoever has it, and every outcome counts
// once.
func TestModeSwitchOfALiveSite(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	for range 3 {
		g.startPilot("siteA")
	}
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	id := g.submitted("switch", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  first:
    foreach: {n: "{00..59}"}
    shell: "sleep 0.4; echo {n} > part.{n}"
    outputs: ["part.{n}"]
  second:
    foreach: {n: "{00..59}"}
    inputs: ["part.{n}"]
    shell: "sleep 0.2; cat part.{n} > line.{n}"
    outputs: ["line.{n}"]
  merge: {inputs: ["line.{00..59}"], shell: "cat line.* > all", outputs: [all]}
outputs: [all]
`)
	for i, mode := range []string{"centralized", "distributed", "isolated", "centralized", "isolated", "distributed"} {
		observe(g, "the site going on before it becomes "+mode, func() (uint64, bool) {
			tasks := g.site("siteA").GetTasks()
			return tasks, tasks >= uint64(15*(i+1))
		})
		g.must("site", "add", "siteA", "--mode", mode)
	}
	g.done(id)
	wantLines(t, g.output(id, "all"), 60)
	site := g.site("siteA")
	if site.GetTasks() != 121 || site.GetFailures() != 0 {
		t.Errorf("%d outcomes and %d failures were accepted, want those of 121 tasks", site.GetTasks(), site.GetFailures())
	}
	if site.GetDuplicates() > 0 {
		t.Errorf("%d attempts were made for nothing", site.GetDuplicates())
	}
	t.Logf("requests %v", site.GetRequestsByMethod())
}

// A pilot that is its own master is killed: what it ran, what it had before
// its time, and what only its cache had, others do again.
func TestKilledPilotWhereTheQueueMatches(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"centralized", "isolated"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, "siteA")
			g.must("site", "add", "siteA", "--mode", mode)
			for range 2 {
				g.startPilot("siteA")
			}
			for _, p := range g.pilots {
				p.awaitReady(t)
			}
			id := g.submitted("killed", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  first:
    foreach: {n: "{00..11}"}
    shell: "sleep 0.5; echo {n} > part.{n}"
    outputs: ["part.{n}"]
  merge: {inputs: ["part.{00..11}"], shell: "cat part.* > all", outputs: [all]}
outputs: [all]
`)
			observe(g, "some outcomes", func() (uint64, bool) {
				tasks := g.site("siteA").GetTasks()
				return tasks, tasks >= 4
			})
			g.pilots[0].kill()
			g.done(id)
			wantLines(t, g.output(id, "all"), 12)
			if state := g.pilot(g.pilots[0].id).GetState(); state != "dead" {
				t.Errorf("the killed pilot is %s", state)
			}
		})
	}
}
