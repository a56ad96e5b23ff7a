package spawner

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
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
	attributes := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}
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
		Dir: "/", Env: []string{"GOMAXPROCS=2"}, Files: []uintptr{0, 1, 2, Socket}, Sys: attributes,
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

// spawner is the process. Its first thread alone makes mounts and forks payloads:
// what is denied to that thread is denied to them.
type spawner struct {
	view stage
	self conditions

	sending sync.Mutex
	// reaping, while a payload is in the namespace, gets everybody's sums when
	// nobody is left.
	reaping chan Used
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
		order, files, err := receive(Socket)
		if err != nil {
			return 0 // the pilot has gone, and this namespace goes
		}
		switch {
		case order.Prepare != nil:
			if err := s.prepare(order.Prepare, files); err != nil {
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
	s.sending.Lock()
	err := send(Socket, news)
	s.sending.Unlock()
	if err != nil {
		os.Exit(0)
	}
}

// prepare makes what all payloads of this spawner see, and takes from the thread
// that forks them what they are not to have.
func (s *spawner) prepare(order *Prepare, files []int) error {
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
	if order.Gated {
		if len(files) != 1 {
			return errors.New("the ruleset of what payloads reach has not come")
		}
		defer unix.Close(files[0])
		if err := Restrict(files[0]); err != nil {
			return err
		}
	}
	if order.PlainTCP {
		if err := OnlyPlainTCP(); err != nil {
			return err
		}
	}
	s.self = conditionsOf(1)
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
	pid, err := s.fork(order, files)
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
	s.tell(&News{Started: began.UnixNano()})
	s.reaping = make(chan Used, 1)
	go s.reap(pid, s.reaping)
}

// busyRetries bounds the wait for a program file that is still open for writing in
// a process between fork and exec, 5 ms each.
const busyRetries = 20

func (s *spawner) fork(order *Start, files []int) (int, error) {
	if s.reaping != nil { // the payload before was alone at its end
		<-s.reaping
		s.reaping = nil
	}
	if err := JoinKeyring(unix.KEY_SPEC_SESSION_KEYRING); err != nil { // that of the payload before
		return 0, noErrno{err}
	}
	folder, err := s.view.open(order)
	if err != nil {
		return 0, fmt.Errorf("close the node to the payload: %w", noErrno{err})
	}
	program := order.find(folder)
	attributes := &syscall.ProcAttr{
		Dir: folder, Env: order.Environment,
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWIPC},
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
	for try := 0; ; try++ {
		pid, err := ForkLimited(program, order.Arguments, attributes, order.Processes)
		if !errors.Is(err, syscall.ETXTBSY) || try == busyRetries {
			return pid, err
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

// reap waits for everybody in the namespace until nobody is left, and tells the
// payload's end when it comes.
func (s *spawner) reap(payload int, done chan<- Used) {
	var sum Used
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own) // what a fork starts from
	exited := false
	for {
		options := 0
		if exited && sum.At == 0 {
			options = unix.WNOHANG // is anybody left?
		}
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, options, &used)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		nobody := err != nil
		if pid > 0 {
			sum.User += time.Duration(used.Utime.Nano())
			sum.System += time.Duration(used.Stime.Nano())
		}
		if pid == payload {
			exited = true
			sum.Status = int(status)
			if used.Maxrss > own.Maxrss {
				sum.Peak = used.Maxrss
			}
			continue
		}
		if exited && sum.At == 0 && pid <= 0 {
			sum.At = time.Now().UnixNano()
			told := sum
			s.tell(&News{Exited: &told, Alone: nobody, Spoiled: nobody && s.spoiled()})
		}
		if nobody {
			s.view.leave() // nobody else uses it until this is done
			done <- sum
			return
		}
	}
}

// end kills what is left in the namespace. That is one act of the kernel: nobody
// gets away by forking.
func (s *spawner) end() {
	news := News{Ended: &Used{}}
	if s.reaping != nil {
		_ = unix.Kill(-1, unix.SIGKILL)
		sum := <-s.reaping
		s.reaping, news.Ended = nil, &sum
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
