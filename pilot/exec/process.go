package exec

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// process is a payload from its fork to its burial.
type process struct {
	pid    int // also its session and process group
	family *family
	group  *cgroup
	owner  mark
	began  time.Time

	exited chan struct{} // closed when it has ended; it is a zombie until bury
	ended  time.Time     // valid once exited is closed
	cpu    task.Usage    // of what was reaped
	sweeps bool          // ends what no payload owns, too

	// Of a payload in namespaces, which has no pid here:
	spawner  *spawnerLink
	spawners *spawners
	status   unix.WaitStatus // valid once exited is closed
	lost     bool            // the spawner has died
	alone    bool            // it has left nobody
	spoiled  bool            // the spawner serves no further attempt

	peak task.Bytes // largest resident size of one process, 0 when not known
}

// first is the number of the process from which all of the payload's descend.
func (p *process) first() int {
	if p.spawner != nil {
		return p.spawner.pid
	}
	return p.pid
}

// birth is what a payload is started with.
type birth struct {
	program     string
	search      []string // folders in which a container may have it
	arguments   []string
	environment []string
	folder      string
	files       []uintptr // stdin, stdout, stderr
	account     *Account  // nil: the pilot's
}

// start forks the payload on a thread of its own, which carries the
// restrictions and lives as long as the payload: the kernel sends the parent
// death signal when that thread ends.
func (a *attempt) start(born birth) (*process, error) {
	if a.runner.level >= Namespaces {
		return a.startInNamespaces(born)
	}
	restrict, done, err := a.runner.restriction(a.folder)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := a.runner.guard.stand(a.spec.Attempt.Pilot); err != nil {
		a.log.Warn("should this pilot be killed, processes of its payloads may outlive it", "error", err)
	}
	p := &process{family: a.runner.family, group: a.group, owner: a.runner.guard.series.mark(a.runner.payloads.Add(1), a.label()), exited: make(chan struct{})}
	p.sweeps = a.runner.level == Landlock
	forked := make(chan error, 1)
	onOwnThread(func() {
		if err := restrict(); err != nil {
			forked <- err
			return
		}
		household.Lock() // nobody sweeps before it is known whose it is
		pid, err := fork(born, &p.owner, a.group, a.processLimit())
		p.pid, p.began = pid, time.Now()
		household.payloads[p] = true
		household.Unlock()
		forked <- err
		if err != nil {
			return
		}
		waitForExit(pid)
		p.ended = time.Now()
		close(p.exited)
	})
	if err := <-forked; err != nil {
		p.forget()
		return nil, err
	}
	return p, nil
}

// restriction prepares what the payload's thread does to itself before it
// forks. done is called once the payload runs.
func (r *Runner) restriction(folder string) (restrict func() error, done func(), err error) {
	switch {
	case r.sandbox != nil:
		ruleset, err := r.sandbox.ruleset(folder)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return r.confine(ruleset) }, func() { unix.Close(ruleset) }, nil
	case r.cfg.Sandbox != Off:
		return r.denyPrivileges, func() {}, nil
	default:
		return func() error { return nil }, func() {}, nil
	}
}

// busyRetries bounds the wait for a program file that is still open for
// writing in a process between fork and exec, 5 ms each.
const busyRetries = 20

func fork(born birth, owner *mark, group *cgroup, processes int) (int, error) {
	attributes := &syscall.ProcAttr{
		Dir: born.folder, Env: born.environment, Files: born.files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if group != nil {
		attributes.Sys.UseCgroupFD, attributes.Sys.CgroupFD = true, int(group.file.Fd())
	}
	if born.account != nil {
		attributes.Sys.Credential = born.account.Credential()
	}
	for try := 0; ; try++ {
		pid, err := owner.fork(born.program, born.arguments, attributes, processes)
		if err == nil {
			return pid, nil
		}
		if errors.Is(err, syscall.ETXTBSY) && try < busyRetries {
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // nobody tells when the writer has closed the file
			continue
		}
		return 0, explainStart(born.program, err)
	}
}

// explainStart tells what the payload's author can do about a failed start. A
// node that is short of memory or processes is the pilot's failure.
func explainStart(program string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("start the payload %s: the node is out of processes, memory or files: %w", program, err)
	case errors.Is(err, syscall.ENOENT):
		hint = "it does not exist, or the interpreter in its #! line does not"
	case errors.Is(err, syscall.EACCES):
		hint = "it is not executable (declare the input executable: true), or lies where payloads may not read"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "it is neither a program for this machine nor a script with a #! line"
	case errors.Is(err, syscall.E2BIG):
		hint = "arguments and environment are too long"
	default:
		hint = "see the error"
	}
	return payloadErrorf("cannot start %s: %s (%v)", program, hint, err)
}

// waitForExit returns when the process is a zombie and leaves it one: until
// it is buried its number cannot name another process or group.
func waitForExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// bury kills what the ended payload left behind and reaps all of it. It
// returns the payload's own status and everybody's CPU time; survivors is the
// number of processes that even SIGKILL did not end in time (stuck in the
// kernel, e.g. on a dead network file system).
func (p *process) bury(patience time.Duration) (status unix.WaitStatus, usage task.Usage, survivors int) {
	if p.spawner != nil {
		survivors = p.buryInNamespaces(patience)
		return p.status, p.cpu, survivors
	}
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left := p.members()
		survivors = len(left)
		if survivors == 0 || time.Now().After(deadline) {
			break
		}
		p.kill(unix.SIGKILL, left)
		time.Sleep(pause) //nolint:forbidigo // ends of grandchildren are not told to anybody
	}
	var used unix.Rusage
	for {
		_, err := unix.Wait4(p.pid, &status, 0, &used)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.count(&used)
	p.notePeak(&used)
	p.forget()
	return status, p.cpu, survivors
}

// forget takes a payload out of the household.
func (p *process) forget() {
	household.Lock()
	defer household.Unlock()
	delete(household.payloads, p)
}

func (p *process) count(used *unix.Rusage) {
	p.cpu.UserCPU += time.Duration(used.Utime.Nano())
	p.cpu.SystemCPU += time.Duration(used.Stime.Nano())
}

// notePeak uses the kernel's figure where it can be told from the pilot's own,
// which a forked process starts from.
func (p *process) notePeak(used *unix.Rusage) {
	var pilot unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &pilot) == nil && used.Maxrss > pilot.Maxrss {
		p.peak = task.Bytes(used.Maxrss) * task.KiB
	}
}

// stop ends the payload: SIGTERM, a while to clean up, SIGKILL. Descendants
// that outlive the payload have the rest of that while; bury ends them.
func (p *process) stop(grace time.Duration) {
	deadline := time.Now().Add(grace)
	members := p.members()
	p.kill(unix.SIGTERM, members)
	p.kill(unix.SIGCONT, members) // a stopped process takes SIGTERM only then
	patience := time.NewTimer(grace)
	defer patience.Stop()
	for {
		select {
		case <-p.exited:
			for pause := time.Millisecond; len(p.members()) > 0 && time.Now().Before(deadline); pause = min(2*pause, 50*time.Millisecond) {
				time.Sleep(pause) //nolint:forbidigo // ends of grandchildren are not told to anybody
			}
			return
		case <-patience.C:
			p.kill(unix.SIGKILL, p.members())
			patience.Reset(50 * time.Millisecond) // again: it may have forked meanwhile
		}
	}
}

// kill signals the payload's process group and those members outside it.
func (p *process) kill(signal unix.Signal, members []int) {
	if signal == unix.SIGKILL {
		p.group.kill()
	}
	if p.spawner == nil {
		_ = unix.Kill(-p.pid, signal) // fails only when nobody is left
	}
	for _, pid := range members {
		if group, err := unix.Getpgid(pid); err != nil || group != p.pid {
			_ = unix.Kill(pid, signal)
		}
	}
}

// exitOf translates a wait status.
func exitOf(status unix.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		if name := unix.SignalName(status.Signal()); name != "" {
			return -1, name
		}
		return -1, fmt.Sprintf("SIG%d", status.Signal()) // of real time
	}
	return status.ExitStatus(), ""
}

// files turns the streams' ends into what fork wants.
func files(stdin *os.File, stdout, stderr *stream) []uintptr {
	return []uintptr{stdin.Fd(), uintptr(stdout.writer), uintptr(stderr.writer)}
}
