package exec

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
	"github.com/pilotage-grid/pilotage/task"
)

// This program is a spawner when it is called so: before its own main, and before
// most of what its packages do at the start.
func init() { spawner.Called() }

// Account is a user of the node.
type Account = spawner.Account

// spawners are the pilot's ends of its spawners: as many as payloads run at once,
// and one more. It is safe for use by many goroutines.
type spawners struct {
	program spawnerProgram
	view    func(container string) spawner.View
	// noNetwork has them in empty network namespaces.
	noNetwork bool
	gate      *gate

	mutex  sync.Mutex
	idle   []*spawnerLink
	closed bool
}

// spawnerLink is the pilot's end of one spawner, used by one attempt at a time.
type spawnerLink struct {
	pid       int
	container string // that its payloads are in; "" is none
	socket    *net.UnixConn
	news      *bufio.Reader
	held      atomic.Int64 // bytes of System V memory and messages, as told last
	asked     atomic.Int64 // questions for it that have no answer yet
}

// spawnerEnvironment is that of launchers, and of the spawners that they start.
var spawnerEnvironment = []string{"GOMAXPROCS=1"}

const (
	spawnerPatience = 10 * time.Second // of the pilot with a spawner's answers
	mostIdle        = 64               // spawners
)

// take returns a spawner for a container, a new one where none is idle.
func (s *spawners) take(container string) (*spawnerLink, error) {
	s.mutex.Lock()
	for i := len(s.idle) - 1; i >= 0; i-- {
		if link := s.idle[i]; link.container == container {
			s.idle = slices.Delete(s.idle, i, i+1)
			s.mutex.Unlock()
			return link, nil
		}
	}
	s.mutex.Unlock()
	return s.start(container)
}

// give takes back a spawner that serves further attempts. The one that has been idle
// for longest goes where there are too many.
func (s *spawners) give(link *spawnerLink) {
	s.mutex.Lock()
	leaves := link
	if !s.closed {
		if s.idle, leaves = append(s.idle, link), nil; len(s.idle) > mostIdle {
			leaves, s.idle = s.idle[0], slices.Delete(s.idle, 0, 1)
		}
	}
	s.mutex.Unlock()
	if leaves != nil {
		leaves.kill()
	}
}

func (s *spawners) close() {
	s.mutex.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mutex.Unlock()
	for _, link := range idle {
		link.kill()
	}
	s.program.close()
}

// start starts a spawner for a container and waits until it is ready.
func (s *spawners) start(container string) (*spawnerLink, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket to a spawner: %w", err)
	}
	own := os.NewFile(uintptr(ends[0]), "spawner")
	connection, err := net.FileConn(own)
	_ = own.Close()
	if err != nil {
		unix.Close(ends[1])
		return nil, fmt.Errorf("socket to a spawner: %w", err)
	}
	link := &spawnerLink{container: container, socket: connection.(*net.UnixConn), news: bufio.NewReader(connection)}
	prepare := spawner.Prepare{View: s.view(container), Gated: s.gate.ruleset != nil, PlainTCP: s.gate.ports}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(ends[1])
		return nil, errors.Join(err, link.socket.Close())
	}
	defer null.Close()
	arguments := []string{spawner.LauncherName}
	if s.noNetwork {
		arguments = append(arguments, spawner.WithoutNetwork)
	}
	marking.Lock() // it is to carry no payload's mark
	launcher, err := syscall.ForkExec(s.program.path(), arguments, &syscall.ProcAttr{
		Dir: "/", Env: spawnerEnvironment, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), uintptr(ends[1])},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	marking.Unlock()
	unix.Close(ends[1])
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a spawner: %w", err), link.socket.Close())
	}
	failures := []error{sendOrder(link.socket, &spawner.Order{Prepare: &prepare}, s.gate.files())}
	// The launcher tells its number, the spawner that it is ready, in any order.
	for range 2 {
		news, err := link.hear() // at once when the other one has failed: nobody holds the socket
		if failures = append(failures, err); news.Pid != 0 {
			link.pid = news.Pid
			enlist(link.pid)
		}
	}
	waitForExit(launcher)
	_, _ = unix.Wait4(launcher, nil, 0, nil)
	if err := cmp.Or(failures...); err != nil { // what follows the first is its consequence
		link.kill()
		return nil, fmt.Errorf("start a spawner: %w", err)
	}
	return link, nil
}

// hear waits for the next answer; a fault is an error.
func (l *spawnerLink) hear() (spawner.News, error) {
	_ = l.socket.SetReadDeadline(time.Now().Add(spawnerPatience))
	news, err := l.listen()
	_ = l.socket.SetReadDeadline(time.Time{})
	return news, err
}

func (l *spawnerLink) listen() (spawner.News, error) {
	news, err := spawner.ReadNews(l.news)
	for ; err == nil && news.Held != nil; news, err = spawner.ReadNews(l.news) {
		l.held.Store(*news.Held)
		l.asked.Add(-1)
	}
	if err == nil && news.Fault != "" {
		err = errors.New(news.Fault)
	}
	return news, err
}

// askHeld has the spawner tell anew what its payload holds; the answer is there
// the next time.
func (l *spawnerLink) askHeld() task.Bytes {
	l.asked.Add(1)
	if sendOrder(l.socket, &spawner.Order{Tell: true}, nil) != nil {
		return 0
	}
	return task.Bytes(l.held.Load())
}

// sendOrder sends an order with its files.
func sendOrder(to *net.UnixConn, order *spawner.Order, files []int) error {
	frame := order.Frame()
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	n, _, err := to.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = to.Write(frame[n:])
	}
	return err
}

// kill ends a spawner and whatever is in its namespace.
func (l *spawnerLink) kill() {
	_ = l.socket.Close()
	if l.pid == 0 {
		return
	}
	_ = unix.Kill(l.pid, unix.SIGKILL)
	waitForExit(l.pid)
	_, _ = unix.Wait4(l.pid, nil, 0, nil)
	dismiss(l.pid)
}

// startInNamespaces has a spawner start the payload.
func (a *attempt) startInNamespaces(born birth) (*process, error) {
	r := a.runner
	link, err := r.spawners.take(a.container)
	if err != nil {
		return nil, err
	}
	link.held.Store(0)
	order := &spawner.Start{
		Program: born.program, Arguments: born.arguments, Environment: born.environment,
		Search: born.search, Work: a.folder, Private: privateFolder, Inputs: a.bound, Account: r.cfg.PayloadUser,
		Processes: a.processLimit(), Grouped: a.group != nil,
	}
	if !r.cfg.SharedMemory {
		order.SharedMemory = cmp.Or(int64(a.memoryLimit()), int64(task.DefaultMemory))
	}
	files := make([]int, len(born.files))
	for i, file := range born.files {
		files[i] = int(file)
	}
	if a.group != nil {
		files = append(files, int(a.group.file.Fd()))
	}
	err = sendOrder(link.socket, &spawner.Order{Start: order}, files)
	var news spawner.News
	if err == nil {
		news, err = link.hear()
	}
	if err != nil {
		if news.Fault == "" {
			link.kill()
			return nil, fmt.Errorf("start the payload %s: %w", born.program, err)
		}
		r.spawners.give(link)
		if news.Errno != 0 {
			return nil, explainStart(born.program, syscall.Errno(news.Errno))
		}
		return nil, fmt.Errorf("start the payload %s: %w", born.program, err)
	}
	p := &process{family: r.family, group: a.group, spawner: link, spawners: &r.spawners, began: time.Unix(0, news.Started), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		news, err := link.listen()
		if err != nil || news.Exited == nil { // the spawner has died, and everybody in its namespace
			p.lost, p.ended, p.status = true, time.Now(), unix.WaitStatus(unix.SIGKILL)
			return
		}
		p.take(news.Exited)
		p.ended, p.status = time.Unix(0, news.Exited.At), unix.WaitStatus(news.Exited.Status)
		p.alone, p.spoiled = news.Alone, news.Spoiled
	}()
	return p, nil
}

func (p *process) take(used *spawner.Used) {
	p.cpu.UserCPU, p.cpu.SystemCPU = used.User, used.System
	p.peak = max(p.peak, task.Bytes(used.Peak)*task.KiB)
}

// buryInNamespaces ends what is left in the namespace.
func (p *process) buryInNamespaces(patience time.Duration) (survivors int) {
	ended := p.alone && p.spawner.asked.Load() == 0 // an answer that is still to come is this payload's
	if !ended && !p.lost && sendOrder(p.spawner.socket, &spawner.Order{End: true}, nil) == nil {
		_ = p.spawner.socket.SetReadDeadline(time.Now().Add(patience))
		news, err := p.spawner.listen()
		_ = p.spawner.socket.SetReadDeadline(time.Time{})
		if ended = err == nil && news.Ended != nil; ended {
			p.take(news.Ended)
			p.spoiled = news.Spoiled
		} else {
			survivors = len(p.members())
		}
	}
	switch {
	case ended && !p.spoiled:
		p.spawners.give(p.spawner)
	case survivors == 0:
		p.spawner.kill()
	default:
		_ = unix.Kill(p.spawner.pid, unix.SIGKILL) // ends when the kernel lets go of them
		_ = p.spawner.socket.Close()
	}
	return survivors
}
