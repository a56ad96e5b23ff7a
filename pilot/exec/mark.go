package exec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
)

// mark tells the descendants of one payload from those of another, also after
// setsid, a double fork, a change of folder and of environment, and as
// zombies. It is the limit of file locks, which the kernel hands down to every
// child and has not looked at for twenty years.
type mark struct {
	limit   uint64 // 0 when this process may not set the limit
	own     int    // session of this process, in which no payload's descendant can be
	session int    // of the payload; 0 before the fork
	label   string // of the attempt, in the environment
}

// series begins the marks of all payloads of one Runner: nine digits, drawn at
// random, so that no other Runner of the node has them. As many digits follow.
type series uint64

// perSeries is how many marks a series has.
const perSeries = 1_000_000_000

func newSeries() series { return series(perSeries/10 + rand.Uint64N(perSeries*9/10)) }

// fits tells whether this process may set the limit to numbers so high.
func (s series) fits() bool {
	marking.Lock()
	defer marking.Unlock()
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_LOCKS, &limit) == nil && uint64(s+1)*perSeries <= limit.Max &&
		unix.Setrlimit(unix.RLIMIT_LOCKS, &limit) == nil
}

// mark returns that of the Runner's n-th payload.
func (s series) mark(n uint64, label string) mark {
	m := mark{label: label}
	if own, err := unix.Getsid(0); err == nil {
		m.own = own
	}
	if s.fits() {
		m.limit = uint64(s)*perSeries + n%perSeries
	}
	return m
}

// marking guards the limit of this process, which a child takes over at the
// moment of the fork: the one way to mark it before it can fork itself.
var marking sync.Mutex

// fork starts a program that carries the mark.
func (m *mark) fork(program string, arguments []string, attributes *syscall.ProcAttr, processes int) (int, error) {
	marking.Lock()
	defer marking.Unlock()
	var before unix.Rlimit
	if m.limit != 0 && unix.Getrlimit(unix.RLIMIT_LOCKS, &before) == nil {
		marked := unix.Rlimit{Cur: m.limit, Max: before.Max}
		if unix.Setrlimit(unix.RLIMIT_LOCKS, &marked) != nil {
			m.limit = 0 // forbidden by a container: the other signs remain
		} else {
			// Raising the soft limit up to the hard one is always allowed.
			defer func() { _ = unix.Setrlimit(unix.RLIMIT_LOCKS, &before) }()
		}
	}
	pid, err := spawner.ForkLimited(program, arguments, attributes, processes)
	if err != nil {
		return 0, err
	}
	m.session = pid
	if m.limit != 0 { // and the payload cannot take it off
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: m.limit, Max: m.limit}, nil)
	}
	return pid, nil
}

// owns tells whether a process descends from the marked payload.
func (m mark) owns(pid int) bool {
	session, err := unix.Getsid(pid)
	switch {
	case err != nil || session == m.own:
		return false
	case session == m.session:
		return true
	}
	if m.limit != 0 {
		var limit unix.Rlimit
		return unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) == nil &&
			(limit.Cur == m.limit || limit.Max == m.limit)
	}
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(environment, []byte("\x00PILOTAGE_ATTEMPT="+m.label+"\x00"))
}

// members lists the payload's living descendants, those that were orphaned
// included, and reaps the orphans that ended. The payload is not in the list.
func (p *process) members() []int {
	if p.spawner != nil { // the payload included
		return p.family.below([]int{p.spawner.pid})
	}
	owned, reaped := p.adopted()
	for reaped { // its children came to this process when it ended, maybe after the look
		owned, reaped = p.adopted()
	}
	select {
	case <-p.exited: // the dead have no children: spare the look
	default:
		owned = append(owned, p.family.below([]int{p.pid})...)
	}
	if len(owned) > 0 {
		owned = append(owned, p.family.below(owned)...)
	}
	for _, pid := range p.group.members() { // nobody gets out of it
		if pid != p.pid && !slices.Contains(owned, pid) {
			owned = append(owned, pid)
		}
	}
	return owned
}

// household is what this process has started, whichever Runner did: a child that
// is nobody's in it is what a payload has left that hides whose it is.
var household = struct {
	sync.Mutex
	payloads map[*process]bool
	own      map[int]bool // guards and spawners
}{payloads: map[*process]bool{}, own: map[int]bool{}}

func enlist(pid int) {
	household.Lock()
	defer household.Unlock()
	household.own[pid] = true
}

func dismiss(pid int) {
	household.Lock()
	defer household.Unlock()
	delete(household.own, pid)
}

// sweep ends an orphan that no living payload owns, and reaps it. It tells whether
// the orphan has yet to end.
func (p *process) sweep(pid int) (ending bool) {
	household.Lock()
	defer household.Unlock()
	session, err := unix.Getsid(pid)
	if err != nil || session == p.owner.own || household.own[pid] {
		return false
	}
	for payload := range household.payloads {
		if payload.pid == pid || payload.owner.owns(pid) {
			return false
		}
	}
	if p.sweeps {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return p.sweeps && err == nil && reaped == 0
}

// adopted lists the payload's living orphans, and tells whether it has reaped
// one that had ended.
func (p *process) adopted() (owned []int, reapedOne bool) {
	for _, pid := range p.family.orphans() {
		if pid == p.pid || !p.owner.owns(pid) {
			if p.sweep(pid) {
				owned = append(owned, pid)
			}
			continue
		}
		var used unix.Rusage
		reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, &used)
		switch {
		case reaped == pid:
			p.count(&used)
			reapedOne = true
		case errors.Is(err, unix.ECHILD): // a child of another thread's exec, or gone
		default:
			owned = append(owned, pid)
		}
	}
	return owned, reapedOne
}
