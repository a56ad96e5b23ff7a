package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

func TestWalltime(t *testing.T) {
	s := newStand(t, byLandlock)
	spec := s.shell("echo $$ > $DOOR; echo partial; sleep 300")
	spec.Task.Walltime = 2 * time.Second // for a shell to start and to speak on a busy machine
	result := s.runBad(spec, "walltime 2s exceeded")
	if result.Signal != "SIGTERM" || string(result.Stdout) != "partial\n" || result.Run < spec.Task.Walltime {
		t.Errorf("signal %q, stdout %q, run %s", result.Signal, result.Stdout, result.Run)
	}
	s.wantGone(s.heardPids()...)
}

func TestMemoryIsSummedOverDescendants(t *testing.T) {
	s := newStand(t, byLandlock)
	hog := `x=$(head -c 30000000 /dev/zero | tr '\0' a); echo $$ > $DOOR; sleep 300`
	spec := s.shell("sh -c \"$HOG\" & setsid sh -c \"$HOG\" & wait")
	spec.Task.Env["HOG"] = hog
	spec.Task.Resources.Memory = 40 * task.MiB // each of the two stays below
	result := s.runBad(spec, "memory", "MiB exceeded 48MiB, which is 1.2 x the request of 40MiB")
	if result.Usage.MaxMemory < 48*task.MiB {
		t.Errorf("largest memory %s", result.Usage.MaxMemory)
	}
	spec = s.shell("sh -c \"$HOG\" & echo $! > $DOOR; wait")
	spec.Task.Env["HOG"] = strings.Replace(hog, "echo", "sleep 2; echo", 1) + " & exit" // somebody has looked by then
	spec.Task.Resources.Memory = 200 * task.MiB
	// What grows by less than an eighth is not measured anew.
	if result = s.runOK(spec); result.Usage.MaxMemory < 22*task.MiB || result.Usage.MaxMemory > 200*task.MiB {
		t.Errorf("largest memory %s, a shell held 30 MB", result.Usage.MaxMemory)
	}
}

// A look that has to wait costs nothing, and puts the next one off by nothing.
func TestALookThatWaitsCostsNothing(t *testing.T) {
	s := newStand(t, nil)
	group := t.TempDir()
	slow := filepath.Join(group, "cgroup.procs")
	if err := unix.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		<-time.After(300 * time.Millisecond)
		written <- os.WriteFile(slow, nil, 0o600)
	}()
	w := newWatch(&attempt{runner: s.Runner, spec: s.shell(""), ctx: t.Context()})
	began := time.Now()
	why, cost := w.sample(&process{family: s.family, group: &cgroup{folder: group}, exited: make(chan struct{})})
	if took := time.Since(began); why != nil || cost <= 0 || cost > took/3 {
		t.Errorf("it found %v, took %s, and counts as %s", why, took, cost)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A payload that finds the disk full, which somebody else has filled, has not failed.
func TestAFullDiskIsThePilotsFault(t *testing.T) {
	s := newStand(t, byLandlock)
	for _, c := range []struct {
		script string
		free   task.Bytes
		want   task.FailureKind
	}{{"exit 9", 100 * task.KiB, task.PilotFailed}, {"exit 9", 100 * task.MiB, task.PayloadFailed}, {"head -c 3000000 /dev/zero > big; exit 9", 0, task.PayloadFailed}} {
		s.free = func(string) (task.Bytes, error) { return c.free, nil }
		spec := s.shell(c.script)
		spec.Task.Resources.Disk = 2 * task.MiB
		if result := s.run(spec); result.Failure != c.want {
			t.Errorf("%s with %s free: %s, %s; want %s", c.script, c.free, result.Failure, result.Reason, c.want)
		}
	}
}

func TestDisk(t *testing.T) {
	s := newStand(t, byLandlock)
	input := s.cached("input", string(make([]byte, 4<<20)), 0o444)
	for name, script := range map[string]string{
		"while it runs": "mkdir d; head -c 3000000 /dev/zero > d/big; sleep 300",
		"at the end":    "head -c 3000000 /dev/zero > $TMPDIR/big",
		"empty files":   "seq 2000 | xargs touch; sleep 300",
		"empty folders": "seq 2000 | xargs mkdir; sleep 300",
		"behind many":   "mkdir a; seq 900 | sed s,^,a/, | xargs touch; head -c 3000000 /dev/zero > z; sleep 300",
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.shell(script)
			spec.Inputs = []StagedInput{{Name: "in", Path: input}}
			spec.Task.Resources.Disk = 2 * task.MiB
			s.runBad(spec, "disk 2.", "MiB exceeded 2.4MiB, which is 1.2 x the request of 2MiB") // 3 MB or a bit less: it may look while the payload writes
		})
	}
	for name, script := range map[string]string{
		"logs of one that runs": "head -c 3000000 /dev/zero; sleep 300",
		"logs at the end":       "head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2",
		"logs and files":        "head -c 2000000 /dev/zero > big; head -c 1000000 /dev/zero >&2; sleep 300",
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.shell(script)
			spec.Task.Resources.Disk = 2 * task.MiB
			s.runBad(spec, "disk ", "of it stdout and stderr) exceeded 2.4MiB, which is 1.2 x the request of 2MiB")
			var kept int64
			for _, stream := range []Stream{Stdout, Stderr} {
				if info, err := os.Stat(s.logs.path(spec.Attempt.Suffix(), stream)); err == nil {
					kept += info.Size()
				}
			}
			if most := int64(2*(5*task.MiB/2) + 2*task.LogTail); kept > most {
				t.Errorf("%d bytes of logs are kept, want %d at most", kept, most)
			}
		})
	}
	spec := s.shell("head -c 1000000 /dev/zero > a; ln a b; ln a c; cp in copy")
	spec.Inputs = []StagedInput{{Name: "in", Path: input}}
	spec.Task.Resources.Disk = 5 * task.MiB
	s.runOK(spec) // inputs are free, hard links count once
}

func TestCancel(t *testing.T) {
	s := newStand(t, byLandlock)
	for name, c := range map[string]struct {
		script string
		signal string
	}{
		"plain":            {"echo $$ > $DOOR; sleep 300", "SIGTERM"},
		"cleans up":        {"trap 'echo bye; exit 0' TERM; echo $$ > $DOOR; while :; do sleep 0.02; done", ""},
		"ignores SIGTERM":  {"trap '' TERM; (trap '' TERM; setsid sleep 300) & echo $$ $! > $DOOR; sleep 300; sleep 300", "SIGKILL"},
		"stopped":          {"echo $$ > $DOOR; kill -STOP $$; sleep 300", "SIGTERM"},
		"child cleans up":  {"sh -c \"trap 'echo bye; exit' TERM; echo \\$\\$ > $DOOR; while :; do sleep 0.02; done\" & wait", "SIGTERM"},
		"with descendants": {"sh -c 'sleep 300' & echo $$ $! > $DOOR; wait", "SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			s.cfg.KillGrace = 30 * time.Second // nobody who heeds SIGTERM is killed
			if c.signal == "SIGKILL" {
				s.cfg.KillGrace = 200 * time.Millisecond
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan Result)
			go func() { ended <- s.Run(ctx, s.shell(c.script), nil) }()
			pids := s.heardPids()
			cancel(errors.New("wish of alice"))
			result := <-ended
			s.wantFailure(result, task.KilledByUser, "cancelled: wish of alice")
			if result.Signal != c.signal {
				t.Errorf("signal %q, want %q", result.Signal, c.signal)
			}
			if bye := string(result.Stdout) == "bye\n"; bye != strings.Contains(name, "cleans up") {
				t.Errorf("stdout %q", result.Stdout)
			}
			s.wantGone(pids...)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result := s.Run(ctx, s.shell("true"), func(time.Time, int) { t.Error("started although cancelled before") })
	s.wantFailure(result, task.KilledByUser, "cancelled")
}

func TestCloseEndsWhatRuns(t *testing.T) {
	s := newStand(t, byLandlock)
	ended := make(chan Result)
	go func() { ended <- s.run(s.shell("(setsid sleep 300 &); echo $$ > $DOOR; sleep 300")) }()
	pids := s.heardPids()
	go func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.wantFailure(<-ended, task.PilotFailed, "the pilot is ending")
	s.wantGone(pids...)
	s.wantFailure(s.run(s.shell("true")), task.PilotFailed, "the pilot is ending")
}

func TestBoundedForkBombIsKilled(t *testing.T) {
	s := newStand(t, byLandlock)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A tree of 4 x 4 x 4 processes, every third of them in a session of its
	// own, which all fork on until they are killed.
	spec := s.shell(`bomb() {
			[ $1 -eq 0 ] && { echo $$ > $DOOR; while :; do sleep 0.05; done; }
			for i in 1 2 3 4; do bomb $(($1-1)) & done
			setsid sh -c 'while :; do sleep 0.05; done' &
			exit
		}
		bomb 3 & wait; sleep 300`)
	ended := make(chan Result)
	go func() { ended <- s.Run(ctx, spec, nil) }()
	s.heard()
	cancel()
	s.wantFailure(<-ended, task.KilledByUser)
	if left := s.orphans(); len(left) > 0 {
		t.Errorf("%d processes left: %v", len(left), left)
	}
}

func TestNodeShortageIsNotThePayloadsFault(t *testing.T) {
	err := explainStart("/bin/true", unix.EAGAIN)
	var result Result
	result.failWith(err)
	if result.Failure != task.PilotFailed {
		t.Errorf("failure %s", result.Failure)
	}
}
