package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
