package exec

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// pilotFolder, when set, makes the test binary a pilot that runs pilotScript and
// waits to be killed; with pilotUnmarked set it may not mark its payloads.
const (
	pilotFolder   = "EXEC_TEST_PILOT_FOLDER"
	pilotScript   = "EXEC_TEST_PILOT_SCRIPT"
	pilotUnmarked = "EXEC_TEST_PILOT_UNMARKED"
)

// The race detector keeps a process for a second at its end by default, which is most
// of what these tests would take. Launchers and payloads that are this program are told.
const (
	raceOptions = "GORACE"
	noPause     = "atexit_sleep_ms=0"
)

// spawnerFile names the small program that starts payloads, as `make build` makes it, to
// tests that this program starts.
const spawnerFile = "EXEC_TEST_SPAWNER"

// TestMain has payloads started by the small program, and checks for goroutines left behind.
func TestMain(m *testing.M) {
	spawnerEnvironment = append(spawnerEnvironment, raceOptions+"="+noPause)
	if name := os.Getenv(hoarder); name != "" {
		hoard(name)
	}
	if way := os.Getenv(connecter); way != "" {
		runConnecter(way)
	}
	if os.Getenv(ticket) == "" {
		fmt.Fprintln(os.Stderr, "no session keyring:", takeTicket())
	}
	folder, err := embedSpawner()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the program that starts payloads:", err)
		os.Exit(1)
	}
	if folder := os.Getenv(pilotFolder); folder != "" {
		runDoomedPilot(folder)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// embedSpawner takes the small program, and builds it first in the process that `go test`
// has started, in a folder for every account. This program as spawner, with the race
// detector, takes a tenth of a second of a processor for each start.
func embedSpawner() (folder string, err error) {
	if os.Getenv(spawnerFile) == "" {
		if folder, err = os.MkdirTemp("", "spawner-"); err != nil {
			return "", err
		}
		if err := os.Chmod(folder, 0o755); err != nil {
			return "", err
		}
		file := filepath.Join(folder, "spawner")
		build := osexec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "./spawner/static")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, output)
		}
		if err := os.Setenv(spawnerFile, file); err != nil {
			return "", err
		}
	}
	embeddedSpawner, err = os.ReadFile(os.Getenv(spawnerFile))
	return folder, err
}

// stand is a Runner with a cache to take inputs from and a door, a named pipe
// by which payloads tell the test that they have come to some point.
type stand struct {
	*Runner
	t      testing.TB
	cache  string
	door   string
	opened *os.File
	lines  *bufio.Reader
}

func newStand(t testing.TB, change func(*Config)) *stand {
	t.Helper()
	base := t.TempDir()
	s := &stand{t: t, cache: filepath.Join(base, "cache"), door: filepath.Join(base, "door")}
	if err := os.Mkdir(s.cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(s.door, 0o600); err != nil {
		t.Fatal(err)
	}
	door, err := os.OpenFile(s.door, os.O_RDWR, 0) // never at its end, however many payloads close it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { door.Close() })
	s.opened, s.lines = door, bufio.NewReader(door)
	cfg := Config{
		WorkDir: filepath.Join(base, "work"), LogDir: filepath.Join(base, "logs"), Site: "siteA",
		Guests:    Guests{Writable: []string{s.door}},
		KillGrace: 2 * time.Second,
		Watch:     Watch{First: 10 * time.Millisecond, Every: 10 * time.Millisecond, DiskEvery: 20 * time.Millisecond},
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	if s.Runner, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if left, _ := os.ReadDir(s.cfg.WorkDir); len(left) > 0 {
			t.Errorf("work folders left after Close: %v", left)
		}
	})
	return s
}

var attempts atomic.Uint64

// shell describes an attempt that runs a script, in which $DOOR is the door.
func (s *stand) shell(script string) Spec {
	id := task.NewID("w-abcdefghij", "work[07]")
	return Spec{
		Attempt: task.AttemptID{Task: id, Generation: 1, Lease: 42, Pilot: "p-abcdefgh", Counter: attempts.Add(1)},
		Number:  2,
		Task: task.Task{
			ID: id, Shell: script, Env: map[string]string{"DOOR": s.door},
			Resources: task.Resources{Cores: 1, Memory: task.GiB, Disk: task.GiB},
			Walltime:  time.Minute,
		},
	}
}

// Level tells what confines payloads, and why nothing more does.
func (s *stand) Level() (task.Confinement, string) { return s.level, s.because }

// folder is the work folder of an attempt that runs.
func (s *stand) folder(spec Spec) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.held[spec.Attempt.Suffix()]
}

func (s *stand) argv(words ...string) Spec {
	spec := s.shell("")
	spec.Task.Argv = words
	return spec
}

// cached puts a file into the cache.
func (s *stand) cached(name, content string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.cache, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// orphans lists what payloads have left to this process.
func (s *stand) orphans() []int {
	household.Lock()
	defer household.Unlock()
	return slices.DeleteFunc(s.family.orphans(), func(pid int) bool { return household.own[pid] })
}

func (s *stand) run(spec Spec) Result { return s.Run(context.Background(), spec, nil) }

// runOK fails the test unless the attempt succeeds.
func (s *stand) runOK(spec Spec) Result {
	s.t.Helper()
	result := s.run(spec)
	if !result.OK {
		s.t.Fatalf("attempt failed: %s: %s\nstderr: %s", result.Failure, result.Reason, result.Stderr)
	}
	return result
}

// runBad fails the test unless the payload fails for a reason with the words.
func (s *stand) runBad(spec Spec, words ...string) Result {
	s.t.Helper()
	result := s.run(spec)
	s.wantFailure(result, task.PayloadFailed, words...)
	return result
}

func (s *stand) wantFailure(result Result, kind task.FailureKind, words ...string) {
	s.t.Helper()
	if result.OK || result.Failure != kind {
		s.t.Fatalf("got ok=%v, %s: %q; want %s\nstderr: %s", result.OK, result.Failure, result.Reason, kind, result.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(result.Reason, word) {
			s.t.Errorf("reason %q does not contain %q", result.Reason, word)
		}
	}
}

// patience is how long a test waits for what should happen soon.
const patience = time.Minute

// heard waits for a line at the door.
func (s *stand) heard() string {
	s.t.Helper()
	if err := s.opened.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the payload said nothing: %v", err)
	}
	return strings.TrimSpace(line)
}

// heardPids waits for a line of process numbers.
func (s *stand) heardPids() []int {
	s.t.Helper()
	var pids []int
	for word := range strings.FieldsSeq(s.heard()) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			s.t.Fatalf("the payload wrote %q instead of a process number", word)
		}
		pids = append(pids, pid)
	}
	return pids
}

// byLandlock goes no higher than level Landlock, where the numbers of processes
// are those of the node.
func byLandlock(c *Config) { c.Sandbox = OnlyLandlock }

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// wantGone fails the test if one of the processes still exists in any form.
func (s *stand) wantGone(pids ...int) {
	s.t.Helper()
	for _, pid := range pids {
		if unix.Kill(pid, 0) == nil {
			s.t.Errorf("process %d survived", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func (s *stand) confined() (bool, string) {
	level, because := s.Level()
	return level > None, because
}
