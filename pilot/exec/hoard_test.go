package exec

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// hoarder, when set, makes the test binary a payload that hides what it takes.
const hoarder = "EXEC_TEST_HOARD"

// hoarded is more than the tasks of this file may have.
const hoarded = 120 * task.MiB

// hoards are ways to take memory, disk and processes where a sum of resident sizes
// and a walk over the work folder show nothing.
var hoards = map[string]struct {
	script string
	level  task.Confinement // the lowest at which it is noticed
	root   bool             // a payload of root can do it
	reason string           // of the end
}{
	"memfd":                        {"exec $SELF", Landlock, true, "memory"},
	"memfd of a thread":            {"exec $SELF", Landlock, true, "memory"},
	"memory without first thread":  {"exec $SELF", Landlock, true, "memory"},
	"System V memory":              {"exec $SELF", Namespaces, true, "memory"},
	"System V memory in a nest":    {"exec unshare -Ur --ipc env EXEC_TEST_HOARD='System V memory' $SELF", Namespaces, false, "memory"},
	"files in memory":              {"exec unshare -Urm sh -c 'mount -t tmpfs none $HOME && head -c 120M /dev/zero > $HOME/x && sleep 300'", Namespaces, false, "memory"},
	"files in memory without size": {"exec unshare -Urm sh -c 'mount -t ramfs none $HOME && sleep 300'", Namespaces, false, "mounts a ramfs"},
	"a file without a name":        {"exec 9> x; rm x; head -c 120M /dev/zero >&9; sleep 300", Landlock, true, "of it open files that were removed"},
	"processes":                    {"for i in $(seq 30); do sleep 300 & done; wait", Landlock, true, " processes, where a task that requests 1 core may have 20"},
	"processes that have ended":    {"exec perl -e 'for (1..30) { fork or exit } sleep 300'", Landlock, true, " processes, where a task that requests 1 core may have 20"},
}

// TestSandboxCountsWhatPayloadsHide: the task fails, and says for what.
func TestSandboxCountsWhatPayloadsHide(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []SandboxMode{OnlyLandlock, Auto} {
		s := newStand(t, func(c *Config) {
			c.Sandbox, c.Readable, c.Watch.Processes = mode, []string{filepath.Dir(self)}, 20
		})
		level, _ := s.Level()
		for name, hoard := range hoards {
			if level < hoard.level || os.Geteuid() == 0 && !hoard.root {
				continue
			}
			t.Run(level.String()+"/"+name, func(t *testing.T) {
				spec := s.shell(hoard.script)
				spec.Task.Env["SELF"], spec.Task.Env[hoarder], spec.Task.Env[raceOptions] = self, name, noPause
				spec.Task.Resources.Memory, spec.Task.Resources.Disk = hoarded*2/3, hoarded*2/3
				spec.Task.Walltime = 20 * time.Second
				result := s.runBad(spec, hoard.reason)
				if hoard.reason == "memory" && result.Usage.MaxMemory < hoarded*3/4 {
					t.Errorf("%s were measured", result.Usage.MaxMemory)
				}
				if err := s.Release(result.Folder); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFilesOfTheFirstThreadCount: also where the kernel's list begins with another thread,
// as 100 is sorted before 99. In a namespace of their own, processes soon have such numbers.
func TestFilesOfTheFirstThreadCount(t *testing.T) {
	const inside, first = "EXEC_TEST_INSIDE", 99
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(inside) == "" {
		again := osexec.Command("unshare", "-Urpf", "--mount-proc", "sh", "-c",
			`until true & [ $! -ge $LAST ]; do :; done; `+hoarder+`="memfd of a thread" $SELF & exec $SELF -test.run="^$TEST\$"`)
		again.Env = append(os.Environ(), inside+"=1", "SELF="+self, "TEST="+t.Name(), fmt.Sprint("LAST=", first-1), raceOptions+"="+noPause)
		if output, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	for began := time.Now(); heldBy(t.Context(), []int{first}, os.Geteuid()).memory < hoarded; <-time.After(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("what the first thread holds is not seen")
		}
	}
	threads, err := os.ReadDir(procFolder(first) + "/task")
	if err != nil || threads[0].Name() == strconv.Itoa(first) {
		t.Error("another thread was to be listed before the first one: ", threads, err)
	}
}

// The main goroutine of a payload that ends its first thread has that thread.
func init() {
	if os.Getenv(hoarder) != "" {
		runtime.LockOSThread()
	}
}

// hoard is such a payload.
func hoard(name string) {
	ways := map[string]func() error{
		"memfd": hoardFile,
		"memfd of a thread": func() error {
			runtime.LockOSThread()
			if err := unix.Unshare(unix.CLONE_FILES); err != nil {
				return err
			}
			return hoardFile()
		},
		"memory without first thread": func() error {
			err := hoardPages()
			_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // see init
			return err
		},
		"System V memory": func() error {
			id, err := unix.SysvShmGet(0, int(hoarded), unix.IPC_CREAT|0o600)
			if err != nil {
				return err
			}
			pages, err := unix.SysvShmAttach(id, 0, 0)
			if err != nil {
				return err
			}
			touch(pages)
			return unix.SysvShmDetach(pages)
		},
	}
	if err := ways[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for { // until it is ended, without timers: they need a thread that has all files
		_ = unix.Pause()
	}
}

func hoardFile() error {
	fd, err := unix.MemfdCreate("hoard", 0)
	if err != nil {
		return err
	}
	return unix.Fallocate(fd, 0, 0, int64(hoarded))
}

func hoardPages() error {
	pages, err := unix.Mmap(-1, 0, int(hoarded), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	touch(pages)
	return err
}

func touch(pages []byte) {
	for i := 0; i < len(pages); i += os.Getpagesize() {
		pages[i] = 1
	}
}
