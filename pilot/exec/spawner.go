package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// A spawner is a process of this program that starts payloads inside namespaces:
// the init of a PID namespace, in which one payload at a time runs. It is made
// ahead of need and serves one attempt after another; between two of them it ends
// whatever is left in its namespace. It dies with the pilot, and with it all that
// its payload has started: its socket ends.
//
// The pilot cannot make it directly: a process that hides its memory may not write
// the user map of a child. So the program starts once as launcher, which starts the
// spawner and ends; the pilot, as reaper of orphans, becomes the spawner's parent.
const (
	launcherName = "pilotage-launcher"
	spawnerName  = "pilotage-spawner"
	// spawnerSocket is the descriptor by which both hear of the pilot.
	spawnerSocket = 3
)

// The program is a spawner when it is called so: before its own main, and before
// most of what its packages do at the start.
func init() {
	switch os.Args[0] {
	case launcherName:
		os.Exit(launch())
	case spawnerName:
		os.Exit(spawn())
	}
}

// spawnOrder is what the pilot sends a spawner: a payload to start, with its three
// files, a question, or the end of all.
type spawnOrder struct {
	Start *spawnStart `json:",omitempty"`
	Tell  bool        `json:",omitempty"` // what all hold in System V memory and messages
	End   bool        `json:",omitempty"` // of all that is left
}

type spawnStart struct {
	Program     string
	Arguments   []string
	Environment []string
	View        view
	User        *Account `json:",omitempty"`
	Scoped      uint64   // Landlock's scopes
	Privileges  bool     // are denied
}

// spawnNews is what a spawner answers, in this order: Started or Fault to a
// start, Exited when the payload has, Ended to an end; between them Held.
type spawnNews struct {
	Fault   string       `json:",omitempty"`
	Errno   int          `json:",omitempty"` // of Fault where the payload's program is its cause
	Pid     int          `json:",omitempty"` // launcher: of the spawner
	Ready   bool         `json:",omitempty"`
	Started time.Time    `json:",omitzero"`
	Held    *task.Bytes  `json:",omitempty"`
	Exited  *spawnExited `json:",omitempty"`
	Ended   *spawnExited `json:",omitempty"` // with everybody's times
	Spoiled bool         `json:",omitempty"` // with Ended: it serves no further attempt
}

type spawnExited struct {
	At           time.Time
	Status       int
	User, System time.Duration
	Peak         int64 // KiB, 0 when not known
}

// launch starts the spawner in its namespaces and tells its number.
func launch() int {
	socket := os.NewFile(spawnerSocket, "socket")
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC)
	attributes := &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{spawnerName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=64MiB"}, Files: []uintptr{0, 1, 2, socket.Fd()}, Sys: attributes,
	})
	news := spawnNews{Pid: pid}
	if err != nil {
		news = spawnNews{Fault: "make namespaces: " + err.Error()}
	}
	if json.NewEncoder(socket).Encode(news) != nil || err != nil {
		return 1
	}
	return 0
}

// spawn is the life of a spawner.
func spawn() int {
	// No signal ends the init. They are caught and dropped: ignored ones would be
	// ignored by payloads, too.
	signal.Notify(make(chan os.Signal, 1))
	socket := os.NewFile(spawnerSocket, "socket")
	unix.CloseOnExec(spawnerSocket)
	connection, err := net.FileConn(socket)
	if err != nil {
		return 1
	}
	_ = socket.Close()
	s := &spawner{pilot: connection.(*net.UnixConn), self: conditionsOf(1)}
	if err := s.prepare(); err != nil {
		s.tell(spawnNews{Fault: err.Error()})
		return 1
	}
	s.tell(spawnNews{Ready: true})
	for {
		order, files, err := receiveOrder(s.pilot)
		if err != nil {
			return 0 // the pilot has gone, and this namespace goes
		}
		switch {
		case order.Start != nil:
			s.start(order.Start, files)
		case order.Tell:
			held := heldBySystemV()
			s.tell(spawnNews{Held: &held})
		case order.End:
			s.end()
		}
	}
}

type spawner struct {
	pilot *net.UnixConn
	self  conditions

	reaped chan spawnExited // everybody's sums, once nobody is left
}

func (s *spawner) tell(news spawnNews) {
	if json.NewEncoder(s.pilot).Encode(news) != nil {
		os.Exit(0)
	}
}

// prepare makes what all payloads of this spawner see.
func (s *spawner) prepare() error {
	if os.Getpid() != 1 {
		return errors.New("no PID namespace of its own")
	}
	// Nobody of the same account reads this process or its files in /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the spawner's memory: %w", err)
	}
	return closeRoot()
}

// start forks the payload on a thread that has entered its view.
func (s *spawner) start(order *spawnStart, files []int) {
	forked := make(chan spawnNews, 1)
	onOwnThread(func() {
		pid, err := s.fork(order, files)
		news := spawnNews{Started: time.Now()}
		var errno syscall.Errno
		if err != nil {
			news = spawnNews{Fault: err.Error()}
			if errors.As(err, &errno) {
				news.Errno = int(errno)
			}
			forked <- news
			return
		}
		news.Pid = pid
		forked <- news
	})
	news := <-forked
	for _, file := range files {
		unix.Close(file)
	}
	s.tell(news)
	if news.Pid != 0 {
		s.reaped = make(chan spawnExited, 1)
		go s.reap(news.Pid, s.reaped)
	}
}

func (s *spawner) fork(order *spawnStart, files []int) (int, error) {
	if err := order.View.enter(); err != nil {
		return 0, fmt.Errorf("close the node to the payload: %w", noErrno{err})
	}
	attributes := &syscall.ProcAttr{Dir: order.View.Work, Env: order.Environment, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, file := range files {
		attributes.Files = append(attributes.Files, uintptr(file))
	}
	if err := order.restrict(); err != nil {
		return 0, noErrno{err}
	}
	if order.User != nil {
		attributes.Sys.Credential = order.User.credential()
	}
	for try := 0; ; try++ {
		pid, err := syscall.ForkExec(order.Program, order.Arguments, attributes)
		if !errors.Is(err, syscall.ETXTBSY) || try == busyRetries {
			return pid, err
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // nobody tells when the writer has closed the file
	}
}

// noErrno hides the cause: it is not the payload's program.
type noErrno struct{ error }

// restrict takes from the calling thread what a payload is not to have.
func (o *spawnStart) restrict() error {
	if !o.Privileges {
		return nil
	}
	if o.Scoped != 0 {
		if err := scope(o.Scoped); err != nil {
			return err
		}
	}
	if o.User != nil { // the change of the account takes the capabilities
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return denyPrivileges()
}

// reap waits for everybody in the namespace until nobody is left, and tells the
// payload's end when it comes.
func (s *spawner) reap(payload int, done chan<- spawnExited) {
	var sum spawnExited
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own) // what a fork starts from
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &used)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			done <- sum
			return
		}
		sum.User += time.Duration(used.Utime.Nano())
		sum.System += time.Duration(used.Stime.Nano())
		if pid != payload {
			continue
		}
		sum.At, sum.Status = time.Now(), int(status)
		if used.Maxrss > own.Maxrss {
			sum.Peak = used.Maxrss
		}
		exited := sum
		s.tell(spawnNews{Exited: &exited})
	}
}

// end kills what is left in the namespace. That is one act of the kernel: nobody
// gets away by forking.
func (s *spawner) end() {
	news := spawnNews{Ended: &spawnExited{}}
	if s.reaped != nil {
		_ = unix.Kill(-1, unix.SIGKILL)
		sum := <-s.reaped
		s.reaped, news.Ended = nil, &sum
	}
	news.Spoiled = conditionsOf(1) != s.self
	s.tell(news)
}

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

// sendOrder and receiveOrder carry one order with its files. An order is one
// line after its length: descriptors come with the first byte.
func sendOrder(to *net.UnixConn, order spawnOrder, files []int) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	head := fmt.Appendf(nil, "%12d", len(body))
	if _, _, err := to.WriteMsgUnix(head, unix.UnixRights(files...), nil); err != nil {
		return err
	}
	_, err = to.Write(body)
	return err
}

func receiveOrder(from *net.UnixConn) (order spawnOrder, files []int, err error) {
	head, control := make([]byte, 12), make([]byte, unix.CmsgSpace(3*4))
	n, m, _, _, err := from.ReadMsgUnix(head, control)
	if err != nil || n != len(head) {
		return order, nil, errors.Join(err, net.ErrClosed)
	}
	if messages, err := unix.ParseSocketControlMessage(control[:m]); err == nil && len(messages) > 0 {
		files, _ = unix.ParseUnixRights(&messages[0])
	}
	for _, file := range files {
		unix.CloseOnExec(file)
	}
	size, err := strconv.Atoi(string(trimSpace(head)))
	if err != nil {
		return order, files, err
	}
	body := make([]byte, size)
	for read := 0; read < size; {
		n, err := from.Read(body[read:])
		if err != nil {
			return order, files, err
		}
		read += n
	}
	return order, files, json.Unmarshal(body, &order)
}

func trimSpace(text []byte) []byte {
	for len(text) > 0 && text[0] == ' ' {
		text = text[1:]
	}
	return text
}
