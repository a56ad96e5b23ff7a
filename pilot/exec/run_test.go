package exec

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

func TestCommandForms(t *testing.T) {
	s := newStand(t, nil)
	script := s.cached("tools", "#!/bin/sh\necho tool $1\n", 0o555)
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"argv in PATH":       {s.argv("echo", "a b", "$HOME"), "a b $HOME\n"},
		"absolute":           {s.argv("/bin/echo", "x"), "x\n"},
		"shell":              {s.shell("echo one | tr a-z A-Z"), "ONE\n"},
		"in the work folder": {s.argv("./bin/tools.sh", "7"), "tool 7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Inputs = []StagedInput{{Name: "bin/tools.sh", Path: script, Exec: true}}
			result := s.runOK(c.spec)
			if string(result.Stdout) != c.want || result.ExitCode != 0 {
				t.Errorf("stdout %q, exit code %d; want %q, 0", result.Stdout, result.ExitCode, c.want)
			}
		})
	}
}

// TestFoldersThatSomebodyRemovedAreMadeAgain: what cleans up temporary folders of a node
// removes folders that nobody has used for days.
func TestFoldersThatSomebodyRemovedAreMadeAgain(t *testing.T) {
	var work, logs string
	s := newStand(t, func(c *Config) { work, logs = c.WorkDir, c.LogDir })
	s.runOK(s.shell("echo before")) // begins a batch
	if err := errors.Join(os.RemoveAll(work), os.RemoveAll(logs)); err != nil {
		t.Fatal(err)
	}
	for range perBatch + 1 {
		if result := s.runOK(s.shell("touch here && echo after")); string(result.Stdout) != "after\n" {
			t.Fatalf("stdout %q", result.Stdout)
		}
	}
	if entries, err := os.ReadDir(logs); err != nil || len(entries) == 0 {
		t.Errorf("%d logs are kept, %v", len(entries), err)
	}
}

func TestEnvironmentIsTheAllowList(t *testing.T) {
	t.Setenv("PILOTAGE_ACCESS", "/secret/access.json")
	t.Setenv("LANG", "")
	s := newStand(t, func(c *Config) { c.Path = "/usr/bin:/bin" })
	spec := s.argv("env")
	spec.Task.Env = map[string]string{"LC_ALL": "C", "TMPDIR": "/elsewhere"}
	spec.Task.Resources = task.Resources{Cores: 3, Memory: 200 * task.MiB}
	result := s.runOK(spec)
	got := strings.Split(strings.TrimSpace(string(result.Stdout)), "\n")
	slices.Sort(got)
	want := []string{
		"HOME=" + result.Folder + "/.private", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/usr/bin:/bin",
		"PILOTAGE_ATTEMPT=w-abcdefghij/work[07]/a2", "PILOTAGE_CORES=3", "PILOTAGE_MEMORY_BYTES=209715200",
		"PILOTAGE_PILOT=p-abcdefgh", "PILOTAGE_SITE=siteA", "PILOTAGE_TASK=w-abcdefghij/work[07]", "TMPDIR=/elsewhere",
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s.runOK(s.shell(`test "$PWD" = "$(dirname "$HOME")" && test -w "$HOME" && test -w "$TMPDIR"`))
}

func TestNoInputAndNoInheritedFiles(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], 0); err != nil { // as a shell would leave it open
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	s := newStand(t, nil)
	result := s.runOK(s.argv("ls", "-l", "/proc/self/fd"))
	lines := strings.Split(strings.TrimSpace(string(result.Stdout)), "\n")[1:]
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "0 -> /dev/null") {
		t.Errorf("want /dev/null, two pipes and the folder being listed; got\n%s", result.Stdout)
	}
}

func TestExitCodeSignalAndUsage(t *testing.T) {
	s := newStand(t, nil)
	result := s.runBad(s.shell("echo bad >&2; exit 7"), "exit code 7")
	if result.ExitCode != 7 || result.Signal != "" || string(result.Stderr) != "bad\n" {
		t.Errorf("got %d %q %q", result.ExitCode, result.Signal, result.Stderr)
	}
	result = s.runBad(s.shell("kill -SEGV $$"), "SIGSEGV")
	if result.ExitCode != -1 || result.Signal != "SIGSEGV" {
		t.Errorf("got %d %q", result.ExitCode, result.Signal)
	}
	s.runBad(s.shell("kill -KILL $$"), "SIGKILL", "not by the pilot")
	s.runBad(s.shell("kill -64 $$"), "killed by SIG64")

	var startedAt time.Time
	result = s.Run(context.Background(), s.shell("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"),
		func(at time.Time, process int) {
			startedAt = at
			if unix.Kill(process, 0) != nil {
				t.Errorf("the payload is said to descend from process %d, which is not there", process)
			}
		})
	if result.Usage.UserCPU <= 0 || result.Run <= 0 || result.Ended.Before(result.Started) {
		t.Errorf("usage %+v, run %s, %s to %s", result.Usage, result.Run, result.Started, result.Ended)
	}
	if !startedAt.Equal(result.Started) {
		t.Errorf("started called with %s, result says %s", startedAt, result.Started)
	}
}

func TestCannotStart(t *testing.T) {
	s := newStand(t, nil)
	plain := s.cached("plain", "no program\n", 0o444)
	text := s.cached("text", "no #! line\n", 0o555)
	lost := s.cached("lost", "#!/no/such/interpreter\n", 0o555)
	for name, c := range map[string]struct {
		command string
		words   []string
	}{
		"unknown":        {"no-such-program", []string{`"no-such-program"`, "not in the PATH"}},
		"missing":        {"./missing", []string{"./missing", "does not exist"}},
		"not executable": {"./plain", []string{"./plain", "not executable"}},
		"no program":     {"./text", []string{"./text", "#! line"}},
		"no interpreter": {"./lost", []string{"./lost", "interpreter"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.argv(c.command)
			spec.Inputs = []StagedInput{
				{Name: "plain", Path: plain}, {Name: "text", Path: text, Exec: true}, {Name: "lost", Path: lost, Exec: true},
			}
			result := s.runBad(spec, c.words...)
			if result.ExitCode != -1 || !result.Started.IsZero() {
				t.Errorf("exit code %d, started %s: it never started", result.ExitCode, result.Started)
			}
			if strings.Contains(result.Reason, "/usr/bin") {
				t.Errorf("a user is told of the node's folders: %s", result.Reason)
			}
		})
	}
	spec := s.shell("true")
	spec.Inputs = []StagedInput{{Name: "gone", Path: filepath.Join(s.cache, "gone")}}
	s.wantFailure(s.run(spec), task.PilotFailed, "gone")
	spec = s.shell("true")
	spec.Inputs = []StagedInput{{Name: "../out", Path: plain}}
	s.runBad(spec, "../out")
}

func TestEightAtOnce(t *testing.T) {
	s := newStand(t, nil)
	input := s.cached("shared", "shared\n", 0o444)
	var all sync.WaitGroup
	for i := range 8 {
		spec := s.shell("cat in > out; (setsid sh -c 'sleep 300' &); echo $PILOTAGE_TASK > nonce")
		spec.Inputs = []StagedInput{{Name: "in", Path: input}}
		spec.Task.Outputs = []task.Output{{LFN: "o", Name: "out"}, {LFN: "n", Name: "nonce"}}
		all.Go(func() {
			for range 3 {
				spec.Attempt.Counter = attempts.Add(1)
				result := s.run(spec)
				if !result.OK || len(result.Outputs) != 2 || result.Outputs[0].Size != 7 {
					t.Errorf("payload %d: %s, outputs %+v", i, result.Reason, result.Outputs)
				}
				if err := s.Release(result.Folder); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := s.orphans(); len(left) > 0 {
		t.Errorf("orphans left: %v", left)
	}
}

func TestFoldersBelongToTheCallerUntilRelease(t *testing.T) {
	s := newStand(t, nil)
	spec := s.shell("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b a")
	result := s.runOK(spec)
	again := s.run(spec)
	s.wantFailure(again, task.PilotFailed, "not released")
	if err := s.Release(result.Folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(result.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the work folder is still there: %v", err)
	}
	if err := s.Release(result.Folder); err != nil {
		t.Errorf("second release: %v", err)
	}
	for _, foreign := range []string{"/etc", s.cfg.WorkDir, s.cfg.WorkDir + "/a", s.cfg.WorkDir + "/a/b/c", ""} {
		if s.Release(foreign) == nil {
			t.Errorf("release of %q was allowed", foreign)
		}
	}
}

func TestWorkFoldersComeClean(t *testing.T) {
	s := newStand(t, nil)
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "keep"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := s.shell(`test "$(find . | sort | tr '\n' ' ')" = ". ./.private " && test "$(stat -c %a . .private | tr '\n' ' ')" = "700 700 "`)
	for _, mess := range []string{
		"true", "echo x > f; mkdir -p d/e; echo x > .private/f; mkdir -p .private/d; echo x > .private/d/f; chmod 000 .private/d",
		"chmod 755 .", "chmod 500 .private", "rmdir .private", "rmdir .private; ln -s " + elsewhere + " .private",
		"rmdir .private; echo > .private", "mkdir .private/.private",
	} {
		if err := s.Release(s.runOK(s.shell(mess)).Folder); err != nil {
			t.Errorf("after %q: %v", mess, err)
		}
		spec.Attempt.Counter = attempts.Add(1)
		if result := s.run(spec); !result.OK {
			t.Errorf("after %q the next folder is not as new: %s", mess, result.Reason)
		} else if err := s.Release(result.Folder); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "keep")); err != nil {
		t.Errorf("a folder behind a link was emptied: %v", err)
	}
}

func TestLogsAreCappedAndKept(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Logs.Stream, c.Logs.Keep = 1000, 72*task.KiB })
	spec := s.shell("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; echo quiet >&2")
	result := s.runOK(spec)
	if len(result.Stdout) > task.LogTail || !strings.HasSuffix(string(result.Stdout), "\nline 29999\n") {
		t.Errorf("tail has %d bytes and ends in %q", len(result.Stdout), result.Stdout[len(result.Stdout)-20:])
	}
	kept := s.readLog(spec, Stdout)
	if !strings.HasPrefix(kept, "line 0\n") || !strings.HasSuffix(kept, "\nline 29999\n") ||
		!strings.Contains(kept, "[pilot: ") || len(kept) > 1000+task.LogTail+200 {
		t.Errorf("kept log of %d bytes: %.60q", len(kept), kept)
	}
	if got := s.readLog(spec, Stderr); got != "quiet\n" {
		t.Errorf("stderr kept: %q", got)
	}
	silent := s.argv("true")
	s.runOK(silent)
	if _, err := s.OpenLog(silent.Attempt, Stdout); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a silent payload has a log: %v", err)
	}
	var newer []Spec
	for range 3 {
		newer = append(newer, s.argv("echo", "newer"))
		s.runOK(newer[len(newer)-1])
	}
	if _, err := s.OpenLog(spec.Attempt, Stdout); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the large log is still there: %v", err)
	}
	for _, spec := range newer {
		if got := s.readLog(spec, Stdout); got != "newer\n" {
			t.Errorf("the log of a newer attempt: %q", got)
		}
	}
	// Which of an attempt's two streams ends first is the machine's: the short one may
	// have stayed.
	files, err := os.ReadDir(s.cfg.LogDir)
	if err != nil || len(files) > 3+1 {
		t.Errorf("%d log files: %v", len(files), err)
	}
}

func TestDroppedLogsLeaveTheNode(t *testing.T) {
	s := newStand(t, nil)
	talker, other := s.shell("echo out; echo err >&2"), s.argv("echo", "other")
	s.runOK(talker)
	s.runOK(other)
	s.DropLogs(talker.Attempt)
	s.DropLogs(talker.Attempt)
	s.DropLogs(s.argv("true").Attempt)
	files, err := os.ReadDir(s.cfg.LogDir)
	if err != nil || len(files) != 1 || s.readLog(other, Stdout) != "other\n" {
		t.Errorf("left: %v, %v", files, err)
	}
}

// TestLogsOfANodeAreCappedInAll: the oldest go, whichever pilot's they are, but none
// of a payload that still runs.
func TestLogsOfANodeAreCappedInAll(t *testing.T) {
	var first *stand
	const files = 5
	keep := func(c *Config) { c.Logs.Keep = files * leastLog }
	first = newStand(t, keep)
	second := newStand(t, func(c *Config) {
		keep(c)
		c.Logs.All = func() []string { return []string{first.cfg.LogDir, c.LogDir, "/nonexistent"} }
	})
	if err := os.WriteFile(filepath.Join(first.cfg.LogDir, "notes"), make([]byte, 2*files*leastLog), 0o400); err != nil {
		t.Fatal(err) // somebody's, which does not count
	}
	running := first.shell("echo early; echo > $DOOR; exec sleep 300")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Result, 1)
	go func() { ended <- first.Run(ctx, running, nil) }()
	first.heard()
	var old []Spec
	for range 3 {
		spec := first.argv("echo", "old")
		first.runOK(spec)
		// Some file systems tell times to some milliseconds only.
		at := time.Now().Add(time.Duration(len(old)-10) * time.Minute)
		if err := os.Chtimes(first.logs.path(spec.Attempt.Suffix(), Stdout), at, at); err != nil {
			t.Fatal(err)
		}
		old = append(old, spec)
	}
	for range files - 2 {
		second.runOK(second.argv("echo", "new"))
	}
	for i, spec := range old {
		file, err := first.OpenLog(spec.Attempt, Stdout)
		if err == nil {
			_ = file.Close()
		}
		if gone := errors.Is(err, fs.ErrNotExist); gone != (i < 2) {
			t.Errorf("the log of old attempt %d: %v", i, err)
		}
	}
	if got := first.readLog(running, Stdout); got != "early\n" {
		t.Errorf("of the attempt that runs: %q", got)
	}
	cancel()
	<-ended
}

func TestLeftoversOfAKilledPilotGo(t *testing.T) {
	var cfg Config
	attempt := newStand(t, func(c *Config) { cfg = *c }).shell("").Attempt.Suffix()
	foreign := []string{filepath.Join(cfg.LogDir, "notes.stdout"), filepath.Join(cfg.WorkDir, "thesis")}
	for _, file := range append([]string{
		filepath.Join(cfg.LogDir, attempt+".stdout"), filepath.Join(cfg.LogDir, attempt+".stderr"),
		filepath.Join(cfg.WorkDir, batchName+"3", attempt, "closed", "output"),
	}, foreign...) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(cfg.WorkDir, batchName+"3", attempt, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	next, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	var left []string
	for _, folder := range []string{cfg.LogDir, cfg.WorkDir} {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			left = append(left, filepath.Join(folder, entry.Name()))
		}
	}
	if !slices.Equal(left, foreign) {
		t.Errorf("left: %v, want what is not the pilot's: %v", left, foreign)
	}
	for _, file := range foreign {
		_ = os.Remove(file)
	}
}

func (s *stand) readLog(spec Spec, stream Stream) string {
	s.t.Helper()
	file, err := s.OpenLog(spec.Attempt, stream)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
