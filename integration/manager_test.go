package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The gRPC client of examples/manager against a grid, with an access of role
// submit as a workflow manager has it.
func TestWorkflowManagersView(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB")
	g.addPilot("siteA")
	g.addPilot("siteB")
	manager := filepath.Join(t.TempDir(), "manager")
	if out, err := exec.Command("go", "build", "-race", "-ldflags", "-s -w", "-buildvcs=false", "-o", manager, "../examples/manager").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	out, err := exec.Command(manager, "--access", g.access("submit")).CombinedOutput()
	if err != nil {
		t.Fatalf("the example failed: %v\n%s", err, out)
	}
	wantText(t, "the example", string(out), "with 11 tasks", "WORKFLOW_STATE_DONE: 11 done", "pi.txt is at site", "\n3.1")
	out, err = exec.Command(manager, "--access", g.access("pilot-siteA")).CombinedOutput()
	if err == nil {
		t.Errorf("with a pilot's access the example ends well:\n%s", out)
	}
}
