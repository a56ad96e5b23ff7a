package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script writes a program that stands for a daemon.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProcessBecomesReadyAndEnds(t *testing.T) {
	t.Setenv("PILOTAGE_OUTPUT", "json") // what would change a daemon's behaviour stays here
	p, err := startProcess("daemon", filepath.Join(t.TempDir(), "log"), script(t, "test -z \"$PILOTAGE_OUTPUT\" || exit 3\necho ready x=1\nexec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.waitReady(context.Background()); err != nil {
		t.Error(err)
	}
	if _, _, err := p.usage(); err != nil {
		t.Error(err)
	}
	p.stop()
	if p.err == nil || !strings.Contains(p.err.Error(), "terminated") {
		t.Errorf("it ended with %v", p.err)
	}
}

func TestProcessThatFailsIsQuoted(t *testing.T) {
	p, err := startProcess("daemon", filepath.Join(t.TempDir(), "log"), script(t, "echo no such luck >&2; exit 7"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.waitReady(context.Background())
	if err == nil || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("the error is %v", err)
	}
	p.stop()
}

func TestUsageCountsCPU(t *testing.T) {
	before, resident, err := processUsage(os.Getpid())
	if err != nil || resident <= 0 {
		t.Fatalf("resident %d, %v", resident, err)
	}
	for began := ownCPU(t); ownCPU(t)-began < 100*time.Millisecond; {
	}
	after, _, err := processUsage(os.Getpid())
	if err != nil || after-before < 80*time.Millisecond {
		t.Errorf("CPU went from %s to %s, %v", before, after, err)
	}
}

func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func TestPlace(t *testing.T) {
	if name, err := fileSystemOf("/dev/shm"); err != nil || name != "tmpfs" {
		t.Errorf("/dev/shm is on %q, %v", name, err)
	}
	if _, err := fileSystemOf("/no/such/folder"); err == nil {
		t.Error("a folder that is not there has a file system")
	}
	if len(strings.Fields(load())) != 3 {
		t.Errorf("the load is %q", load())
	}
}
