package workernode

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNodeFigures(t *testing.T) {
	if memory, err := systemMemory(); err != nil || memory < 64*task.MiB {
		t.Errorf("memory %s, %v", memory, err)
	}
	if free, err := exec.FreeDisk(t.TempDir()); err != nil || free <= 0 {
		t.Errorf("free disk %s, %v", free, err)
	}
	if _, err := exec.FreeDisk("/no/such/folder"); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("free disk of nowhere: %v", err)
	}
	if load, cpus := loadPerCPU(), nodeCPUs(); load < 0 || cpus < 1 {
		t.Errorf("load %v, %d CPUs", load, cpus)
	}
	if speed := coreSpeed(); speed < 0 || speed > 100 {
		t.Errorf("cores of %v GHz", speed)
	}
	if free, err := systemMemory(); err != nil || freeMemory() <= 0 || freeMemory() > free {
		t.Errorf("%s of %s of memory are free, %v", freeMemory(), free, err)
	}
}
