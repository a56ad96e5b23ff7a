package exec

import (
	"os"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// blind keeps the watchdog from looking: what stops a payload is the kernel.
func blind(c *Config) {
	c.Watch.First, c.Watch.Every = time.Hour, time.Hour
}

// TestSandboxBoundsProcessBombs that are faster than the watchdog, at each level
// that has walls, and lets the next attempt start.
func TestSandboxBoundsProcessBombs(t *testing.T) {
	const bomb = `for i in $(seq 400); do sleep 300 & all="$all $!"; done; kill $all` // forks may be slow: they sleep until all are there
	for mode, bounded := range map[SandboxMode]bool{Off: false, OnlyLandlock: true, Auto: true} {
		s := newStand(t, func(c *Config) {
			blind(c)
			c.Sandbox, c.Watch.Threads, c.Watch.Processes = mode, 100, 40
			if os.Geteuid() == 0 { // which the kernel does not bound
				c.PayloadUser = &Account{UID: 65534, GID: 65534}
				passThrough(t, c.WorkDir)
			}
		})
		if result := s.run(s.shell(bomb)); result.OK == bounded {
			t.Errorf("%s: the bomb ends with %d: %s", s.level, result.ExitCode, result.Stderr)
		}
		s.runOK(s.shell("for i in $(seq 10); do sleep 0.01 & done; wait"))
	}
}

// TestSandboxGivesItsOwnSharedMemory to each attempt: empty, bounded by its memory,
// and part of that.
func TestSandboxGivesItsOwnSharedMemory(t *testing.T) {
	s := newStand(t, blind)
	spec := func(script string) Spec {
		spec := s.shell(script)
		spec.Task.Resources.Memory = 50 * task.MiB
		return spec
	}
	s.runOK(spec(`[ -z "$(ls -A /dev/shm)" ] && echo x > /dev/shm/x && chmod 700 /dev/shm/x`))
	s.runOK(spec(`[ -z "$(ls -A /dev/shm)" ] && ! head -c 70M /dev/zero > /dev/shm/x`))
	s = newStand(t, nil)
	s.runBad(spec(`head -c 55M /dev/zero > /dev/shm/x; perl -e 'my $x = "x" x 30_000_000; sleep 300'`), "memory", "exceeded")
}
