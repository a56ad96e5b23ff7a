package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a shell script that stands for a daemon.
func start(t *testing.T, text string) *daemon.Process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := daemon.Start("daemon", filepath.Join(t.TempDir(), "log"), path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessBecomesReadyAndEnds(t *testing.T) {
	t.Setenv("PILOTAGE_OUTPUT", "json") // what would change a daemon's behaviour stays here
	p := start(t, "test -z \"$PILOTAGE_OUTPUT\" || exit 3\necho ready x=1 y=a:2\nexec sleep 60")
	said, err := p.Ready(t.Context(), time.Minute)
	if err != nil || said["x"] != "1" || said["y"] != "a:2" {
		t.Errorf("it said %v, %v", said, err)
	}
	p.Stop(time.Minute)
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "terminated") {
		t.Errorf("it ended with %v", p.Err())
	}
}

func TestProcessThatDoesNotEndIsKilled(t *testing.T) {
	p := start(t, "trap '' TERM\necho ready x=1\nwhile :; do sleep 0.01; done")
	if _, err := p.Ready(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	p.Stop(time.Millisecond)
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "killed") {
		t.Errorf("it ended with %v", p.Err())
	}
}

func TestProcessThatFailsIsQuoted(t *testing.T) {
	p := start(t, "echo no such luck >&2; exit 7")
	_, err := p.Ready(t.Context(), time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("the error is %v", err)
	}
	p.Kill()
}
