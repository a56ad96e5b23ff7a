package exec

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// fakeProc writes a tree as the kernel's: a node, and a pilot in control groups of both
// versions.
func fakeProc(t *testing.T, files map[string]string) (proc string) {
	t.Helper()
	proc = t.TempDir()
	groups := filepath.Join(proc, "groups")
	files["self/cgroup"] = "8:pids,misc:/batch/job\n3:cpu:/elsewhere\n0::/slice/job\n"
	files["self/mountinfo"] = fmt.Sprintf("24 1 0:22 / /proc rw - proc proc rw\n31 24 0:26 / %s/v2 rw shared:9 - cgroup2 none rw\n32 24 0:27 / %s/pids rw - cgroup cgroup rw,pids,misc\n33 24 0:28 / %s/cpu rw - cgroup cgroup rw,cpu\n", groups, groups, groups)
	for name, text := range files {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// TestProcessesOfAFakeNode: the limit of a payload follows what the node allows, so that
// one that starts all it can leaves half of the room to the pilot and to others.
func TestProcessesOfAFakeNode(t *testing.T) {
	node := func(pidMax, threadsMax, running int) map[string]string {
		return map[string]string{
			"sys/kernel/pid_max": fmt.Sprintln(pidMax), "sys/kernel/threads-max": fmt.Sprintln(threadsMax), "loadavg": fmt.Sprintf("0.1 0.2 0.3 2/%d 4711\n", running),
		}
	}
	with := func(files map[string]string, pairs ...string) map[string]string {
		for i := 0; i < len(pairs); i += 2 {
			files[pairs[i]] = pairs[i+1] + "\n"
		}
		return files
	}
	const cores = 4
	cpus := runtime.NumCPU()
	large := 4 << 20
	for name, c := range map[string]struct {
		files map[string]string
		room  processRoom
	}{
		"a large node":                {node(large, large, 1000), processRoom{large - 1000, 1<<31 - 1}},
		"few numbers of processes":    {node(3000, large, 1000), processRoom{2000, 1<<31 - 1}},
		"few threads":                 {node(large, 5000, 1000), processRoom{4000, 1<<31 - 1}},
		"version 1":                   {with(node(large, large, 1000), "groups/pids/batch/job/pids.max", "2000", "groups/pids/batch/job/pids.current", "400"), processRoom{large - 1000, 1600}},
		"above it":                    {with(node(large, large, 1000), "groups/pids/batch/job/pids.max", "max", "groups/pids/batch/pids.max", "900"), processRoom{large - 1000, 900}},
		"version 2":                   {with(node(large, large, 1000), "groups/v2/slice/job/pids.max", "1200", "groups/v2/slice/pids.max", "max"), processRoom{large - 1000, 1200}},
		"another group":               {with(node(large, large, 1000), "groups/v2/slice/other/pids.max", "5", "groups/cpu/elsewhere/pids.max", "5"), processRoom{large - 1000, 1<<31 - 1}},
		"more than there may be":      {node(3000, large, 5000), processRoom{0, 1<<31 - 1}},
		"a kernel that tells nothing": {map[string]string{}, processRoom{1<<31 - 1, 1<<31 - 1}},
	} {
		room := roomForProcesses(fakeProc(t, c.files), 0, 0) // root, whom no limit of an account binds
		if room != c.room {
			t.Errorf("%s: %+v, want %+v", name, room, c.room)
		}
		r := &Runner{cfg: Config{Cores: cores, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
		r.shareProcesses(room, 77)
		watch := r.cfg.Watch
		if watch.Threads > leastThreads && (watch.Threads*cpus > room.node/2 || watch.Threads*cores > room.own/2) {
			t.Errorf("%s: %d threads for each core are more than half of %+v", name, watch.Threads, room)
		}
		if half := min(room.node, room.own) / 2; r.account-77 > max(leastThreads, half) || watch.Processes > watch.Threads || watch.Threads < leastThreads {
			t.Errorf("%s: %+v, and %d of the account", name, watch, r.account)
		}
		if name == "a large node" && (watch.Threads != mostThreads || watch.Processes != mostProcesses) {
			t.Errorf("%s: %+v", name, watch)
		}
	}
	given := Watch{Threads: 100, Processes: 40}
	r := &Runner{cfg: Config{Cores: cores, Watch: given}}
	if r.shareProcesses(processRoom{10, 10}, 0); r.cfg.Watch != given {
		t.Errorf("what is given is changed: %+v", r.cfg.Watch)
	}
}
