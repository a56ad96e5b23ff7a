package exec

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// fakeProcess writes what the kernel tells of a process whose control groups are
// mounted at a folder.
func fakeProcess(t *testing.T, mount, group string) string {
	t.Helper()
	process := t.TempDir()
	err := os.WriteFile(filepath.Join(process, "mountinfo"), fmt.Appendf(nil, "24 1 0:22 / /proc rw - proc proc rw\n31 24 0:26 / %s rw - cgroup2 none rw\n", mount), 0o600)
	err = errors.Join(err, os.WriteFile(filepath.Join(process, "cgroup"), []byte("4:memory:/elsewhere\n0::"+group+"\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return process
}

// TestCgroupsOfAFakeTree: what is read and written, where this kernel offers none.
func TestCgroupsOfAFakeTree(t *testing.T) {
	mount := t.TempDir()
	own := filepath.Join(mount, "job", "step")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := write(own, name, text); err != nil {
			t.Fatal(err)
		}
	}
	put("cgroup.controllers", "cpuset cpu io memory pids\n")
	put("cgroup.procs", "17\n4711\n")
	put("cgroup.subtree_control", "")
	put("cgroup.kill", "")
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	process := fakeProcess(t, mount, "/job/step")
	if got := ownCgroup(process); got != own {
		t.Fatalf("the own group is %q", got)
	}
	if os.Geteuid() == 0 && delegated(own) {
		t.Error("root takes a group for delegated that is not marked so")
	}
	if got := ownCgroup(fakeProcess(t, mount, "/job/step/"+leaf())); got != own {
		t.Errorf("the second time, the own group is %q", got)
	}
	groups := cgroups{folder: own, controllers: shareControllers(own, log)}
	text := func(path ...string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{own}, path...)...))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	if got := text("cgroup.subtree_control"); got != "+cpu +memory +pids" {
		t.Errorf("shared out are %q", got)
	}
	if got := text(leaf(), "cgroup.procs"); got != "4711" { // the kernel adds, a file keeps the last
		t.Errorf("moved are %q", got)
	}
	group, err := groups.make("payload-1", cgroupLimits{memory: 3 * task.MiB, processes: 7, cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer group.file.Close()
	for name, want := range map[string]string{"memory.max": "3145728", "memory.oom.group": "1", "pids.max": "7", "cpu.weight": "200"} {
		if got := text("payload-1", name); got != want {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
	for events, want := range map[string]bool{"low 0\noom 3\noom_kill 0\n": false, "low 0\noom 1\noom_kill 2\n": true} {
		if err := write(group.folder, "memory.events", events); err != nil || group.outOfMemory() != want {
			t.Errorf("%q: %v, %v", events, group.outOfMemory(), err)
		}
	}
	if err := write(group.folder, "cgroup.procs", "12\n13\n"); err != nil || fmt.Sprint(group.members()) != "[12 13]" {
		t.Errorf("members are %v, %v", group.members(), err)
	}
	// No process can start in it: it is none. All goes on without.
	if got := openCgroups(process, log); got.folder != "" {
		t.Errorf("%+v", got)
	}
	var none *cgroup
	none.kill()
	if none.members() != nil || none.outOfMemory() || none.remove() != nil {
		t.Error("none is some")
	}
}

// TestCgroupsOfTheKernel, as far as it offers them to this account: a payload starts
// in its own, at each level, and nothing of it is left.
func TestCgroupsOfTheKernel(t *testing.T) {
	folder := ownedCgroup(t)
	if folder == "" {
		t.Log("this account has no control group to divide")
		return
	}
	mount, name := filepath.Split(folder)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	groups := openCgroups(fakeProcess(t, strings.TrimSuffix(mount, "/"), "/"+name), log)
	if groups.folder != folder {
		t.Fatalf("%+v", groups)
	}
	for _, mode := range []SandboxMode{Off, OnlyLandlock, Auto} {
		s := newStand(t, func(c *Config) { c.Sandbox = mode })
		s.groups = groups
		spec := s.shell("cat /proc/self/cgroup; (setsid sleep 300 &) ; prlimit --pid $$ --locks=1:1; (setsid sleep 300 &); true")
		result := s.runOK(spec)
		if !strings.Contains(string(result.Stdout), "/payload-"+spec.Attempt.Suffix()+"\n") {
			t.Errorf("%s: the payload is in %s", s.level, result.Stdout)
		}
		if groups.kills != strings.Contains(strings.Join(s.Walls().Up, " "), "cgroup_kill") {
			t.Errorf("%v", s.Walls())
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, "payload-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// ownedCgroup makes a group that is marked as delegated, where root may; "" elsewhere.
func ownedCgroup(t *testing.T) string {
	t.Helper()
	for _, mount := range readMounts("/proc/self") {
		folder := filepath.Join(mount.place, "pilotage-test-"+strconv.Itoa(os.Getpid()))
		if mount.kind != "cgroup2" || os.Geteuid() != 0 || os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			for _, below := range []string{filepath.Join(folder, leaf()), folder} {
				processes, _ := os.ReadFile(filepath.Join(below, "cgroup.procs"))
				for _, pid := range numbers(processes) {
					_ = write(mount.place, "cgroup.procs", strconv.Itoa(pid))
				}
				if err := unix.Rmdir(below); err != nil && !errors.Is(err, unix.ENOENT) {
					t.Error(err)
				}
			}
		})
		if err := unix.Setxattr(folder, "trusted.delegate", []byte("1"), 0); err != nil {
			t.Log(err)
			return ""
		}
		return folder
	}
	return ""
}
