package spawner

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which the program is called.
const (
	LauncherName = "pilotage-launcher"
	Name         = "pilotage-spawner"
)

// WithoutNetwork is an argument of the launcher: the spawner gets an empty network.
const WithoutNetwork = "network=none"

// Socket is the descriptor by which launcher and spawner hear of the pilot.
const Socket = 3

// Called does what the program is called for under these names, and then ends it;
// it returns where it has another.
func Called() {
	switch os.Args[0] {
	case LauncherName:
		os.Exit(launch())
	case Name:
		os.Exit(spawn())
	}
}

// launch starts the spawner in its namespaces and tells its number.
func launch() int {
	attributes := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	if slices.Contains(os.Args, WithoutNetwork) {
		attributes.Cloneflags |= unix.CLONE_NEWNET
	}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Name}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Files: []uintptr{0, 1, 2, Socket}, Sys: attributes,
	})
	news := News{Pid: pid}
	if err != nil {
		news = News{Fault: "make namespaces: " + err.Error()}
	}
	if send(Socket, &news) != nil || err != nil {
		return 1
	}
	return 0
}

// spawner is the process. Its first thread makes mounts, forks payloads and reaps:
// what is denied to that thread is denied to them, and no other one has to wake.
type spawner struct {
	view stage
	self conditions

	payload *payload // the one that was started last, until its End
	// fresh tells that nothing that the next payload gets was another's.
	fresh bool
}

// payload is one attempt's, and what it has left in the namespace.
type payload struct {
	pid  int   // 0 when it has ended
	end  int   // a descriptor that can be read from when it has ended, then -1
	gone bool  // nobody is left
	used Used  // by all
	peak int64 // that a fork starts from
}

// spawn is the life of a spawner.
func spawn() int {
	runtime.LockOSThread()
	// No signal ends the init. They are caught and dropped: ignored ones would be
	// ignored by payloads, too.
	signal.Notify(make(chan os.Signal, 1))
	signal.Reset(unix.SIGCHLD) // wakes nobody
	unix.CloseOnExec(Socket)
	s := &spawner{}
	for {
		s.reapUntilOrdered()
		order, files, err := receive(Socket)
		if err != nil {
			return 0 // the pilot has gone, and this namespace goes
		}
		switch {
		case order.Prepare != nil:
			if err := s.prepare(order.Prepare); err != nil {
				s.tell(&News{Fault: err.Error()})
				return 1
			}
			s.tell(&News{Ready: true})
		case order.Start != nil:
			s.start(order.Start, files)
		case order.Tell:
			held := heldBySystemV()
			s.tell(&News{Held: &held})
		case order.End:
			s.end()
		}
	}
}

func (s *spawner) tell(news *News) {
	if send(Socket, news) != nil {
		os.Exit(0)
	}
}

// prepare makes what all payloads of this spawner see, and takes from the thread
// that forks them what they are not to have.
func (s *spawner) prepare(order *Prepare) error {
	if os.Getpid() != 1 {
		return errors.New("no PID namespace of its own")
	}
	// Nobody of the same account reads this process or its files in /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the spawner's memory: %w", err)
	}
	if err := JoinKeyring(); err != nil { // the pilot's stays as it is
		return err
	}
	if err := s.view.enter(&order.View); err != nil {
		return err
	}
	if err := denyPrivileges(); err != nil {
		return err
	}
	if order.Scopes != 0 {
		if err := Scope(order.Scopes); err != nil {
			return err
		}
	}
	if order.Limited {
		if err := limitPorts(order.Ports); err != nil {
			return err
		}
		if err := OnlyPlainTCP(); err != nil {
			return err
		}
	}
	s.self = conditionsOf(1)
	return s.refresh()
}

// refresh makes what each payload has of its own and no order says, ahead of need: it
// takes longer than all else of a start.
func (s *spawner) refresh() error {
	if s.fresh {
		return nil
	}
	if err := JoinKeyring(unix.KEY_SPEC_SESSION_KEYRING); err != nil { // that of the payload before
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("make an IPC namespace: %w", err)
	}
	s.fresh = true
	return nil
}

// denyPrivileges leaves the calling thread the capabilities that it needs for
// mounts, and sees to it that what it forks has none once its program runs: no
// program gains any by its file, and being root gives none.
func denyPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("deny new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	const noRoot, locked = 1 << 0, 1 << 1 // SECBIT_NOROOT and its lock
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|locked, 0, 0, 0); err != nil {
		return fmt.Errorf("take root's privileges from payloads: %w", err)
	}
	return nil
}

// start forks a payload.
func (s *spawner) start(order *Start, files []int) {
	p, err := s.fork(order, files)
	began := time.Now()
	for _, file := range files {
		unix.Close(file)
	}
	if err != nil {
		s.view.leave()
		news := &News{Fault: err.Error()}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			news.Errno = int(errno)
		}
		s.tell(news)
		return
	}
	s.payload = p
	s.tell(&News{Started: began.UnixNano()})
}

// busyRetries bounds the wait for a program file that is still open for writing in
// a process between fork and exec, 5 ms each.
const busyRetries = 20

func (s *spawner) fork(order *Start, files []int) (*payload, error) {
	if err := s.refresh(); err != nil {
		return nil, noErrno{err}
	}
	folder, err := s.view.open(order)
	if err != nil {
		return nil, fmt.Errorf("close the node to the payload: %w", noErrno{err})
	}
	program := order.find(folder)
	p := &payload{}
	attributes := &syscall.ProcAttr{
		Dir: folder, Env: order.Environment,
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &p.end},
	}
	if last := len(files) - 1; order.Grouped && last >= 0 {
		attributes.Sys.UseCgroupFD, attributes.Sys.CgroupFD = true, files[last]
		files = files[:last]
	}
	for _, file := range files {
		attributes.Files = append(attributes.Files, uintptr(file))
	}
	if order.Account != nil {
		attributes.Sys.Credential = order.Account.Credential()
	}
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
	p.peak = own.Maxrss
	for try := 0; ; try++ {
		p.pid, err = ForkLimited(program, order.Arguments, attributes, order.Processes)
		if !errors.Is(err, syscall.ETXTBSY) || try == busyRetries {
			return p, err
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // nobody tells when the writer has closed the file
	}
}

// find looks for the program in the container.
func (o *Start) find(work string) string {
	for _, folder := range o.Search {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(work, folder)
		}
		path := filepath.Join(folder, o.Program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return o.Program
}

// noErrno hides the cause: it is not the payload's program.
type noErrno struct{ error }

// reapUntilOrdered reaps who ends in the namespace until an order is there.
func (s *spawner) reapUntilOrdered() {
	for s.payload != nil && !s.payload.gone {
		events := []unix.PollFd{{Fd: Socket, Events: unix.POLLIN}, {Fd: int32(s.payload.end), Events: unix.POLLIN}}
		_, err := unix.Poll(events, -1) // SIGCHLD of others interrupts it, or the next order finds them
		s.reap(unix.WNOHANG)
		if err == nil && events[0].Revents != 0 {
			return
		}
	}
}

// reap sums what those used who have ended, and tells the payload's end when it comes.
func (s *spawner) reap(options int) {
	p := s.payload
	for !p.gone {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, options, &used)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if pid > 0 {
			p.add(pid, status, &used)
			continue
		}
		p.gone = err != nil
		if p.pid == 0 && p.used.At == 0 {
			p.used.At = time.Now().UnixNano()
			s.tell(&News{Exited: &p.used, Alone: p.gone, Spoiled: p.gone && s.spoiled()})
		}
		if !p.gone {
			return
		}
	}
	s.fresh = false
	s.view.leave()
	_ = s.refresh() // else the next start tries again, and tells
}

// add counts what somebody used who has ended.
func (p *payload) add(pid int, status unix.WaitStatus, used *unix.Rusage) {
	p.used.User += time.Duration(used.Utime.Nano())
	p.used.System += time.Duration(used.Stime.Nano())
	if pid != p.pid {
		return
	}
	unix.Close(p.end)
	p.pid, p.end, p.used.Status = 0, -1, int(status)
	if used.Maxrss > p.peak {
		p.used.Peak = used.Maxrss
	}
}

// end kills what is left in the namespace. That is one act of the kernel: nobody
// gets away by forking.
func (s *spawner) end() {
	news := News{Ended: &Used{}}
	if p := s.payload; p != nil {
		if !p.gone {
			_ = unix.Kill(-1, unix.SIGKILL)
			s.reap(0)
		}
		s.payload, news.Ended = nil, &p.used
	}
	news.Spoiled = s.spoiled()
	s.tell(&news)
}

// spoiled tells whether a payload has changed the spawner.
func (s *spawner) spoiled() bool { return conditionsOf(1) != s.self }

// conditions are what processes of the same account can change of one another
// without tracing it.
type conditions struct {
	limits   [16]unix.Rlimit
	nice     int
	affinity unix.CPUSet
}

func conditionsOf(pid int) (c conditions) {
	for i := range c.limits {
		_ = unix.Prlimit(pid, i, nil, &c.limits[i])
	}
	c.nice, _ = unix.Getpriority(unix.PRIO_PROCESS, pid)
	_ = unix.SchedGetaffinity(pid, &c.affinity)
	return c
}
