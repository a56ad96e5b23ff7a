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
	"syscall"
	"testing"
	"time"

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
	"without mark":  "prlimit --locks=0 setsid sh -c 'echo $$ > $DOOR; exec sleep 300' &",
	"other mark":    "prlimit --locks=100000000000000000 setsid sh -c 'echo $$ > $DOOR; exec sleep 300' &",
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
	gate := filepath.Join(s.folder(spec), "gate")
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
			s := newStand(t, byLandlock)
			s.leaveBehind(script)
			if left := s.orphans(); len(left) > 0 {
				t.Errorf("orphans left: %v", left)
			}
		})
	}
}

func TestDaemonsOfRunningPayloadsAreSpared(t *testing.T) {
	s := newStand(t, byLandlock)
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
	s := newStand(t, byLandlock)
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
	s := newStand(t, byLandlock)
	if err := s.family.close(); err != nil {
		t.Fatal(err)
	}
	s.family.adopted = nil
	s.leaveBehind(ways["double fork"])
}

func TestDescendantsAgreeWithAWalkOverAllProcesses(t *testing.T) {
	s := newStand(t, byLandlock)
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

// runDoomedPilot is the other half of TestKillOfThePilot.
func runDoomedPilot(folder string) {
	if os.Getenv(pilotUnmarked) != "" {
		if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 1000, Max: 1000}); err != nil {
			panic(err)
		}
	}
	runner, err := New(Config{
		WorkDir: filepath.Join(folder, "work"), LogDir: filepath.Join(folder, "logs"), Site: "siteA",
		Guests: Guests{Writable: []string{filepath.Join(folder, "door")}, Sandbox: OnlyLandlock},
	})
	if err != nil {
		panic(err)
	}
	s := &stand{Runner: runner, door: filepath.Join(folder, "door")}
	result := s.run(s.shell(os.Getenv(pilotScript) + "\necho $$ > $DOOR; exec sleep 300"))
	panic("the payload ended first: " + result.Reason)
}

// No process of a payload outlives its pilot, however the pilot ends and
// whatever the payload does to its processes.
func TestKillOfThePilotKillsAllOfThePayload(t *testing.T) {
	for name, script := range ways {
		t.Run(name, func(t *testing.T) { killPilot(t, script, true) })
	}
}

func TestKillOfThePilotWherePayloadsCannotBeMarked(t *testing.T) {
	killPilot(t, ways["double fork"], false)
}

// mostAfterlife is how long something of a payload may outlive its pilot.
const mostAfterlife = 10 * time.Second

// killPilot kills a pilot, with its process group, while a payload runs that has
// left processes behind, and waits for the ends of all of them and the guard's.
func killPilot(t *testing.T, script string, marked bool) {
	// The orphans of the dead pilot come to this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	door := filepath.Join(folder, "door")
	if err := unix.Mkfifo(door, 0o600); err != nil {
		t.Fatal(err)
	}
	pilot := osexec.Command("/proc/self/exe", "-test.run=^$")
	pilot.Env = append(os.Environ(), pilotFolder+"="+folder, pilotScript+"="+script)
	if !marked {
		pilot.Env = append(pilot.Env, pilotUnmarked+"=1")
	}
	pilot.Stderr, pilot.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	if err := pilot.Start(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(door, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	lines := bufio.NewReader(reader)
	watched := map[int]int{} // descriptor of each process
	watch := func(pid int) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
		watched[pid] = fd
	}
	for range 2 { // the payload and what it leaves behind
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(line) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			watch(pid)
		}
	}
	for _, pid := range childrenOf(pilot.Process.Pid) { // the guard, too
		if watched[pid] == 0 {
			watch(pid)
		}
	}
	if len(watched) < 3 {
		t.Fatalf("only %d processes are watched", len(watched))
	}
	if err := unix.Kill(-pilot.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = pilot.Wait()
	deadline := time.Now().Add(mostAfterlife)
	for pid, fd := range watched {
		ends := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		ended, err := 0, error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			ended, err = unix.Poll(ends, int(max(0, time.Until(deadline)).Milliseconds()))
		}
		if ended != 1 {
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			t.Errorf("process %d lives on: %q %v", pid, text, err)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		unix.Close(fd)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// Whatever ends a guard, the next payload has another one, and none is left
// when the pilot has ended.
func TestGuardIsReplacedAndDismissed(t *testing.T) {
	s := newStand(t, byLandlock)
	s.runOK(s.shell("true"))
	first := s.guard.pid
	if shown, err := os.ReadFile("/proc/" + strconv.Itoa(first) + "/cmdline"); err != nil || len(shown) > 80 || !strings.Contains(string(shown), "pilotage-guard") {
		t.Errorf("a list of processes shows the guard as %q %v", shown, err)
	}
	s.runOK(s.shell("true"))
	if s.guard.pid != first {
		t.Error("each payload has a guard of its own")
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForExit(first)
	s.runOK(s.shell("true"))
	second := s.guard.pid
	if second == first || !alive(second) {
		t.Errorf("guard %d has no successor: %d", first, second)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantGone(first, second)
}
