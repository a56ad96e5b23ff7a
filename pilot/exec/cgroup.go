package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// cgroups are control groups (version 2) for payloads, one each, where a batch system
// or systemd has delegated the pilot's own to its account: the kernel then keeps the
// limits that the watchdog only samples, and ends all of a payload in one act.
// Elsewhere there are none, and all is as without.
type cgroups struct {
	folder      string   // in which those of payloads are made; "" where there are none
	controllers []string // of cpu, memory and pids, those that limit payloads
	kills       bool     // cgroup.kill is there (Linux 5.14)
}

// openCgroups finds the pilot's own group by what the kernel tells of a process, and
// looks whether payloads can have groups below it.
func openCgroups(process string, log *slog.Logger) cgroups {
	own := ownCgroup(process)
	if own == "" || !delegated(own) {
		return cgroups{}
	}
	groups := cgroups{folder: own, controllers: shareControllers(own, log)}
	_, err := os.Stat(filepath.Join(own, "cgroup.kill"))
	groups.kills = err == nil
	if err := groups.try(); err != nil {
		log.Debug("payloads get no control groups", "folder", own, "error", err)
		return cgroups{}
	}
	return groups
}

// ownCgroup is the folder of the group of a process, "" where there is none of
// version 2.
func ownCgroup(process string) string {
	for _, group := range groupsOf(process) {
		if group.mount.kind == "cgroup2" {
			folder := group.folder()
			if filepath.Base(folder) == leaf() { // it has opened them before
				folder = filepath.Dir(folder)
			}
			return folder
		}
	}
	return ""
}

// placedGroup is a control group and the mount at which it is seen.
type placedGroup struct {
	mount mount
	path  string // below it
}

func (g placedGroup) folder() string { return filepath.Join(g.mount.place, g.path) }

// groupsOf lists the groups, of either version, that count the processes of a process.
func groupsOf(process string) (groups []placedGroup) {
	text, err := os.ReadFile(process + "/cgroup")
	if err != nil {
		return nil
	}
	mounts := readMounts(process)
	for line := range strings.Lines(string(text)) {
		of := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(of) < 3 {
			continue
		}
		for _, m := range mounts {
			second := of[0] == "0" && m.kind == "cgroup2"
			first := m.kind == "cgroup" && slices.Contains(strings.Split(of[1], ","), "pids") && slices.Contains(strings.Split(m.options, ","), "pids")
			if first || second {
				groups = append(groups, placedGroup{m, filepath.Join("/", of[2])})
			}
		}
	}
	return groups
}

// leaf is the group in which a pilot is itself, beside those of its payloads.
func leaf() string { return "pilot-" + strconv.Itoa(os.Getpid()) }

// delegated tells whether a group is the account's to divide. Root may write to all
// of them: for it systemd's mark decides.
func delegated(folder string) bool {
	if unix.Access(folder, unix.W_OK) != nil || unix.Access(filepath.Join(folder, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	if os.Geteuid() != 0 {
		return true
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(folder, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// shareControllers has the groups below a group get controllers. That takes a group
// without processes, so those in it, the pilot first, move to a group of their own.
func shareControllers(folder string, log *slog.Logger) (shared []string) {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	for _, controller := range strings.Fields(string(text)) {
		if slices.Contains([]string{"cpu", "memory", "pids"}, controller) {
			shared = append(shared, controller)
		}
	}
	if len(shared) == 0 {
		return nil
	}
	own := filepath.Join(folder, leaf())
	err = os.Mkdir(own, 0o755)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	processes, readErr := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	for _, pid := range numbers(processes) {
		err = errors.Join(err, write(own, "cgroup.procs", strconv.Itoa(pid)))
	}
	err = errors.Join(err, readErr, write(folder, "cgroup.subtree_control", "+"+strings.Join(shared, " +")))
	if err != nil {
		log.Debug("the pilot's control group cannot be divided", "folder", folder, "error", err)
		return nil
	}
	return shared
}

func write(folder, name, value string) error {
	return os.WriteFile(filepath.Join(folder, name), []byte(value), 0o644)
}

func (c *cgroups) has(controller string) bool { return slices.Contains(c.controllers, controller) }

// try has a process start in a group.
func (c *cgroups) try() error {
	group, err := c.make("try-"+strconv.Itoa(os.Getpid()), cgroupLimits{memory: task.GiB, processes: 100, cores: 1})
	if err != nil {
		return err
	}
	marking.Lock() // it is to carry no payload's mark
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", ":"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.file.Fd())},
	})
	marking.Unlock()
	if err == nil {
		waitForExit(pid)
		_, err = unix.Wait4(pid, nil, 0, nil)
	}
	return errors.Join(err, group.remove())
}

// cgroup is that of one payload. The methods may be called on nil, which is none.
type cgroup struct {
	folder string
	file   *os.File
	kills  bool
}

type cgroupLimits struct {
	memory           task.Bytes // 0: none
	processes, cores int
}

// make makes a group with limits.
func (c *cgroups) make(name string, limits cgroupLimits) (*cgroup, error) {
	if c.folder == "" {
		return nil, nil
	}
	g := &cgroup{folder: filepath.Join(c.folder, name), kills: c.kills}
	err := os.Mkdir(g.folder, 0o755)
	if err == nil && limits.memory > 0 && c.has("memory") {
		err = errors.Join(write(g.folder, "memory.max", strconv.FormatInt(int64(limits.memory), 10)), write(g.folder, "memory.oom.group", "1"))
	}
	if err == nil && c.has("pids") {
		err = write(g.folder, "pids.max", strconv.Itoa(limits.processes))
	}
	if err == nil && c.has("cpu") {
		err = write(g.folder, "cpu.weight", strconv.Itoa(min(100*limits.cores, 10_000)))
	}
	if err == nil {
		g.file, err = os.Open(g.folder)
	}
	if err != nil {
		_ = unix.Rmdir(g.folder)
		return nil, fmt.Errorf("control group of a payload: %w", err)
	}
	return g, nil
}

// makeGroup gives the attempt a control group, where payloads have some.
func (a *attempt) makeGroup() (err error) {
	a.group, err = a.runner.groups.make("payload-"+a.name, cgroupLimits{
		memory: a.memoryLimit(), processes: a.runner.cfg.Watch.Threads * a.cores(), cores: a.cores(),
	})
	return err
}

// members are the processes in the group.
func (g *cgroup) members() []int {
	if g == nil {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(g.folder, "cgroup.procs"))
	return numbers(text)
}

// kill ends all processes in the group at once, where the kernel can.
func (g *cgroup) kill() {
	if g != nil && g.kills {
		_ = write(g.folder, "cgroup.kill", "1")
	}
}

// outOfMemory tells whether the kernel has ended the payload for its memory.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	text, _ := os.ReadFile(filepath.Join(g.folder, "memory.events"))
	for line := range strings.Lines(string(text)) {
		if kills, is := strings.CutPrefix(line, "oom_kill "); is {
			return strings.TrimSpace(kills) != "0"
		}
	}
	return false
}

// remove removes the group of a payload that has ended. One in which something is
// stuck stays.
func (g *cgroup) remove() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.file.Close(), unix.Rmdir(g.folder))
}
