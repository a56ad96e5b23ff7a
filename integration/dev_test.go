package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// `dev` alone: ready and through with a first task soon, gone without a trace
// on Ctrl-C, also while a payload runs.
func TestDevStartsSoonAndEndsCleanly(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	g := &grid{t: t, dir: t.TempDir(), binary: binary}
	began := time.Now()
	dev := g.start("dev", "dev")
	g.queue = dev
	t.Cleanup(g.stop)
	dev.await(t, "ready queue=")
	ready := time.Since(began)

	found, err := filepath.Glob(filepath.Join(temporary, "pilotage-dev-*", "run.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("run.json: %v, %v", found, err)
	}
	var run struct{ Queue, HTTP, Access string }
	if err := json.Unmarshal([]byte(readFile(t, found[0])), &run); err != nil {
		t.Fatal(err)
	}
	out := g.must("--access", run.Access, "submit", "--wait", "--", "/bin/echo", "hello")
	first := time.Since(began)
	wantText(t, "submit --wait", out, "DONE")
	t.Logf("dev was ready after %s; its first task was done after %s", ready.Round(time.Millisecond), first.Round(time.Millisecond))
	// 5 s is the aim for the plain binary on an idle machine; this one has the
	// race detector and shares its cores.
	if first > 40*time.Second {
		t.Errorf("the first task was done after %s", first)
	}
	long := nap(86399)
	g.must("--access", run.Access, "submit", "--parsable", "--name", "long", "--", "sleep", long)
	observe(g, "a payload of dev running", func() (bool, bool) { return true, processWith("sleep\x00" + long + "\x00") })
	dev.interrupt()
	if code := dev.ends(t, 30*time.Second); code != 0 {
		t.Errorf("dev ended with %d after Ctrl-C\n%s", code, dev.log)
	}
	if processWith("sleep\x00" + long + "\x00") {
		t.Error("a payload outlives dev")
	}
	if err := syscall.Kill(-dev.cmd.Process.Pid, 0); err != syscall.ESRCH {
		t.Errorf("dev's process group is not empty: %v", err)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("dev leaves %v behind, %v", left, err)
	}
}

// nap is an argument of sleep that no other run of these tests uses.
func nap(seconds int) string { return fmt.Sprintf("%d.%d", seconds, os.Getpid()) }

// processWith tells whether a process of this machine has such a command line.
func processWith(commandLine string) bool {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return false
	}
	for _, line := range lines {
		if text, err := os.ReadFile(line); err == nil && strings.Contains(string(text), commandLine) {
			return true
		}
	}
	return false
}
