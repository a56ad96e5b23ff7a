package exec

import (
	"bufio"
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ways to leave a process behind: each script writes the numbers of its
// descendants to the door and ends.
var ways = map[string]string{
	"background":    "sleep 300 & echo $! > $DOOR",
	"setsid":        "setsid sh -c 'echo $$ > $DOOR; exec sleep 300' &",
	"double fork":   "(setsid sh -c '(setsid sh -c \"echo \\$\\$ > $DOOR; exec sleep 300\" &)' &)",
	"bare":          "(cd / && env -i D=$DOOR setsid sh -c 'echo $$ > $D; exec sleep 300' >/dev/null 2>&1 </dev/null &)",
	"deaf":          "(trap '' HUP TERM INT; setsid sh -c 'echo $$ > $DOOR; exec sleep 300' &)",
	"stopped":       "(setsid sh -c 'echo $$ > $DOOR; kill -STOP $$; exec sleep 300' &)",
	"with children": "(setsid sh -c 'sleep 300 & sleep 300 & echo $$ $! > $DOOR; wait' &)",
}

// leaveBehind runs a script to its end, which comes only after its descendants
// have spoken, and fails the test if one of these is left.
func (s *stand) leaveBehind(script string) {
	s.t.Helper()
	spec := s.shell("mkfifo gate; " + script + "\nread end < gate")
	ended := make(chan Result)
	go func() { ended <- s.run(spec) }()
	pids := s.heardPids()
	gate := filepath.Join(s.cfg.WorkDir, spec.Attempt.Suffix(), "gate")
	if err := os.WriteFile(gate, []byte("end\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if result := <-ended; !result.OK {
		s.t.Errorf("%s: %s", result.Reason, result.Stderr)
	}
	s.wantGone(pids...)
}

func TestNoSurvivorAfterTheEnd(t *testing.T) {
	for name, script := range ways {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, nil)
			s.leaveBehind(script)
			if left := s.family.orphans(); len(left) > 0 {
				t.Errorf("orphans left: %v", left)
			}
		})
	}
}

func TestDaemonsOfRunningPayloadsAreSpared(t *testing.T) {
	s := newStand(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan Result)
	go func() {
		ended <- s.Run(ctx, s.shell("(env -i D=$DOOR setsid sh -c 'echo $$ > $D; exec sleep 300' &); sleep 300"), nil)
	}()
	daemon := s.heardPids()[0]
	for range 3 {
		s.runOK(s.shell("(setsid sleep 300 &); true"))
	}
	if !alive(daemon) {
		t.Error("the end of one payload killed a process of another one")
	}
	cancel()
	<-ended
	s.wantGone(daemon)
}

func TestOtherChildrenOfThePilotAreSpared(t *testing.T) {
	s := newStand(t, nil)
	other := osexec.Command("sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	s.runOK(s.shell("(setsid sleep 300 &); true"))
	if !alive(other.Process.Pid) {
		t.Error("a process that is no payload was killed")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}

func TestKernelsWithoutListsOfChildren(t *testing.T) {
	s := newStand(t, nil)
	if err := s.family.close(); err != nil {
		t.Fatal(err)
	}
	s.family.adopted = nil
	s.leaveBehind(ways["double fork"])
}

func TestDescendantsAgreeWithAWalkOverAllProcesses(t *testing.T) {
	s := newStand(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan Result)
	go func() {
		ended <- s.Run(ctx, s.shell("for i in 1 2 3; do sh -c 'sleep 300; true' & done; (sleep 300 &); sleep 300 & echo $$ > $DOOR; wait"), nil)
	}()
	pid := s.heardPids()[0]
	below := func(f *family) []int {
		pids := f.below([]int{pid})
		slices.Sort(pids)
		return pids
	}
	quick, slow := below(s.family), below(&family{})
	for again := below(s.family); !slices.Equal(quick, again); again = below(s.family) {
		quick, slow = again, below(&family{}) // somebody forked meanwhile
	}
	if len(quick) < 4 || !slices.Equal(quick, slow) {
		t.Errorf("lists of children give %v, all processes give %v", quick, slow)
	}
	cancel()
	<-ended
}

// runDoomedPilot is the other half of TestKillOfThePilotKillsThePayload.
func runDoomedPilot(folder string) {
	runner, err := New(Config{
		WorkDir: filepath.Join(folder, "work"), LogDir: filepath.Join(folder, "logs"), Site: "siteA",
		Writable: []string{filepath.Join(folder, "door")},
	})
	if err != nil {
		panic(err)
	}
	s := &stand{Runner: runner, door: filepath.Join(folder, "door")}
	result := s.run(s.shell("echo $$ > $DOOR; exec sleep 300"))
	panic("the payload ended first: " + result.Reason)
}

func TestKillOfThePilotKillsThePayload(t *testing.T) {
	// The orphan of the dead pilot comes to this process, which awaits it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	door := filepath.Join(folder, "door")
	if err := unix.Mkfifo(door, 0o600); err != nil {
		t.Fatal(err)
	}
	pilot := osexec.Command("/proc/self/exe", "-test.run=^$")
	pilot.Env = append(os.Environ(), pilotFolder+"="+folder)
	pilot.Stderr = os.Stderr
	if err := pilot.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pilot.Wait() }()
	reader, err := os.OpenFile(door, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	payload, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(payload) {
		t.Fatalf("payload %q: %v", line, err)
	}
	if err := pilot.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		_, err = unix.Wait4(payload, &status, 0, nil)
		// ECHILD: the payload is not ours yet, its parent still exits.
		if err == nil || errors.Is(err, unix.ECHILD) && !alive(payload) {
			break
		}
	}
	if err == nil && status.Signal() != unix.SIGKILL {
		t.Errorf("payload ended with status %#x, want SIGKILL", status)
	}
}
