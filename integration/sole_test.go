package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// What no storage element has outlives the pilot that made it: one that leaves
// hands it to another, one that was killed has left it for the next pilot in
// its folder. Either way its maker runs once.
func TestSoleCopiesOutliveTheirPilot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*grid){"handed over": handedOver, "recovered": recovered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newGrid(t, "siteA"))
		})
	}
}

// spoilStorage has the site's storage element refuse what a workflow makes,
// until it is mended.
func (g *grid) spoilStorage(workflow string) (mend func()) {
	path := filepath.Join(g.dir, "storage", "siteA", workflow)
	writeFile(g.t, path, "a file where its folder should be")
	return func() {
		if err := os.Remove(path); err != nil {
			g.t.Fatal(err)
		}
	}
}

// makes submits a workflow whose first task makes an output while the storage
// element refuses it, and waits until the queue knows it.
func (g *grid) makes(name, rest string) (id, ledger string, mend func()) {
	ledger, release := filepath.Join(g.outside(), name), filepath.Join(g.outside(), name+"-release")
	id = g.submitted(name, `
tasks:
  make: {shell: "until test -e `+release+`; do sleep 0.1; done; echo made >> `+ledger+`; echo kept > kept", outputs: [kept]}
`+rest)
	mend = g.spoilStorage(id)
	writeFile(g.t, release, "")
	g.inState(id+"/make", pb.TaskState_TASK_STATE_DONE)
	return id, ledger, mend
}

func (g *grid) inState(task string, state pb.TaskState) {
	g.t.Helper()
	observe(g, task+" "+state.String(), func() (bool, bool) { return true, g.task(task).GetState() == state })
}

// ranOnce checks the ledger that the maker has written to.
func ranOnce(t *testing.T, ledger string) {
	t.Helper()
	if ran := strings.Count(readFile(t, ledger), "made\n"); ran != 1 {
		t.Errorf("the maker ran %d times", ran)
	}
}

func handedOver(g *grid) {
	t := g.t
	leaves := g.addPilot("siteA", "--grace", "10s")
	id, ledger, mend := g.makes("handed", `
  use:  {inputs: [kept], require: '"late" in pilot.features', shell: "cat kept > used", outputs: [used]}
outputs: [used]
`)
	stays := g.addPilot("siteA")
	leaves.terminate(t, 40*time.Second)
	if !strings.Contains(stays.log.String(), "a file was taken over") {
		t.Errorf("the pilot that stays has taken nothing over\n%s", leaves.log)
	}
	late := g.addPilot("siteA", "--feature", "late")
	g.inState(id+"/use", pb.TaskState_TASK_STATE_DONE)
	if at := g.task(id + "/use").GetAttempts()[0].GetOutcome().GetAttempt().GetPilot(); at != late.id {
		t.Errorf("it ran at %s", at)
	}
	mend()
	g.done(id)
	if got := g.output(id, "used"); got != "kept\n" {
		t.Errorf("the output is %q", got)
	}
	ranOnce(t, ledger)
}

func recovered(g *grid) {
	t := g.t
	first := g.addPilot("siteA")
	id, ledger, mend := g.makes("recovered", "outputs: [kept]\n")
	first.kill()
	mend()
	g.addPilot("siteA", "--cache", first.dir)
	g.done(id)
	if got := g.output(id, "kept"); got != "kept\n" {
		t.Errorf("the output is %q", got)
	}
	ranOnce(t, ledger)
}
