package exec

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// guard is a process that outlives the pilot by some seconds, however the pilot
// ends, and kills what runs of its payloads: the kernel kills only those that
// the pilot itself has forked, not their descendants. It is a shell that waits
// at a pipe: a process of the pilot's own program would cost tens of megabytes.
// It is safe for use by many goroutines.
type guard struct {
	series  series
	account string // of payloads with walls, which may have taken off their marks; or ""
	null    *os.File

	mutex sync.Mutex
	pid   int // 0 before the first payload
	pipe  int // its other end tells of the pilot's end
}

//go:embed guard.sh
var guardScript string

// stand starts the guard unless it stands already. It is called with every
// payload: whatever ends a guard, the next payload has another one.
func (g *guard) stand(pilot task.PilotID) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.pid != 0 {
		if ended, _ := unix.Wait4(g.pid, nil, unix.WNOHANG, nil); ended == 0 {
			return nil
		}
		dismiss(g.pid)
		g.pid = 0
		unix.Close(g.pipe)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("pipe to the guard of payloads: %w", err)
	}
	defer unix.Close(ends[0])
	sign := ""
	if !g.series.fits() {
		sign = pilotVariable + "=" + string(pilot)
	}
	pid, err := g.start(ends[0], sign)
	if err != nil {
		unix.Close(ends[1])
		return fmt.Errorf("start the guard of payloads: %w", err)
	}
	g.pid, g.pipe = pid, ends[1]
	enlist(pid)
	return nil
}

// start forks the shell. It reads its script from a pipe, so that a list of
// processes names the guard and does not show all that it does.
func (g *guard) start(end int, sign string) (int, error) {
	script, writer, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer script.Close()
	_, err = writer.WriteString(guardScript) // much less than a pipe holds
	if err = errors.Join(err, writer.Close()); err != nil {
		return 0, err
	}
	null := g.null.Fd()
	marking.Lock() // it is to carry no payload's mark
	defer marking.Unlock()
	return syscall.ForkExec("/bin/sh", []string{"sh", "-c", ". /proc/self/fd/3", "pilotage-guard", strconv.FormatUint(uint64(g.series), 10), sign, g.account},
		&syscall.ProcAttr{
			Dir: "/", Env: []string{"PATH=" + systemPath}, Files: []uintptr{uintptr(end), null, null, script.Fd()},
			Sys: &syscall.SysProcAttr{Setsid: true}, // what ends the pilot's session or group spares it
		})
}

// dismiss ends the guard: no payload is left.
func (g *guard) dismiss() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.pid == 0 {
		return
	}
	_ = unix.Kill(g.pid, unix.SIGKILL)
	waitForExit(g.pid)
	_, _ = unix.Wait4(g.pid, nil, 0, nil)
	dismiss(g.pid)
	g.pid = 0
	unix.Close(g.pipe)
}
