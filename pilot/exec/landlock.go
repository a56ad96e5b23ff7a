package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
)

// Landlock rights in groups. Rights on files may be granted on files and
// folders, the others on folders only.
const (
	rightsReadFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsWriteFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rightsRead      = rightsReadFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsChange    = unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER
	rightsDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	rightsAll     = rightsRead | rightsWriteFile | rightsChange
)

// refreshAfter is how long an allow-list lives. Folders made later beside a
// hidden one (a new file in a home folder) become readable with the next.
const refreshAfter = time.Minute

// sandbox makes Landlock domains, one per attempt. The C library's way of
// applying a domain to all threads would lock the pilot in, too; so the system
// calls are made here, on the one thread that forks the payload.
type sandbox struct {
	abi     int
	handled uint64 // rights that the kernel knows and that are denied unless granted
	policy  policy
	log     *slog.Logger

	mutex sync.Mutex
	built time.Time
	trees []tree
}

// tree is a file or folder with everything below it, held by descriptor.
type tree struct {
	fd     int
	rights uint64
}

// newSandbox finds out what the kernel can do and proves it on a thread that
// is thrown away. The error is the reason why payloads cannot be confined.
func newSandbox(cfg Config) (*sandbox, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS:
		return nil, errors.New("the kernel is older than Linux 5.13 or built without Landlock, or a container's seccomp profile forbids it")
	case errno == unix.EOPNOTSUPP:
		return nil, errors.New("the kernel was started without Landlock: its boot option lsm= has to list landlock")
	case errno != 0:
		return nil, fmt.Errorf("asking the kernel for Landlock: %w", errno)
	}
	s := &sandbox{
		abi: int(abi), handled: rightsAll | rightsDevices, policy: newPolicy(cfg), log: cfg.Logger,
	}
	if s.abi < 3 {
		s.handled &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if s.abi < 2 {
		s.handled &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if err := s.try(cfg.LogDir, cfg.WorkDir); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// try confines a thread as for a payload and looks whether a hidden folder is
// closed to it and its own one open.
func (s *sandbox) try(hidden, own string) error {
	ruleset, err := s.ruleset(own)
	if err != nil {
		return err
	}
	defer unix.Close(ruleset)
	outcome := make(chan error, 1)
	onOwnThread(func() {
		if err := confine(ruleset); err != nil {
			outcome <- err
			return
		}
		if fd, err := unix.Open(hidden, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			unix.Close(fd)
			outcome <- errors.New("the kernel accepts Landlock rules but does not enforce them")
			return
		}
		fd, err := unix.Open(own, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		outcome <- err
	})
	return <-outcome
}

// ruleset makes the rules of one attempt: the common trees and its own
// folder. The caller closes the descriptor.
func (s *sandbox) ruleset(folder string) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.built.IsZero() || time.Since(s.built) > refreshAfter {
		s.rebuild()
	}
	ruleset, err := spawner.MakeRuleset(&unix.LandlockRulesetAttr{Access_fs: s.handled})
	if err != nil {
		return -1, err
	}
	for _, tree := range s.trees {
		if err := s.grant(ruleset, tree); err != nil {
			unix.Close(ruleset)
			return -1, err
		}
	}
	own, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = s.grant(ruleset, tree{own, rightsAll})
		unix.Close(own)
	}
	if err != nil {
		unix.Close(ruleset)
		return -1, fmt.Errorf("open %s to its payload: %w", folder, err)
	}
	return ruleset, nil
}

func (s *sandbox) grant(ruleset int, tree tree) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: tree.rights & s.handled, Parent_fd: int32(tree.fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("add a Landlock rule: %w", errno)
	}
	return nil
}

// rebuild opens the trees of the policy anew. What cannot be opened is not
// granted: the payload then gets the same error as if it were hidden. What is
// left out for its size is said the first time.
func (s *sandbox) rebuild() {
	s.closeTrees()
	log := s.log
	if !s.built.IsZero() {
		log = slog.New(slog.DiscardHandler)
	}
	for _, grant := range s.policy.grants(log) {
		fd, err := unix.Open(grant.path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var status unix.Stat_t
		if unix.Fstat(fd, &status) != nil {
			unix.Close(fd)
			continue
		}
		if status.Mode&unix.S_IFMT != unix.S_IFDIR {
			grant.rights &= rightsReadFile | rightsWriteFile
		}
		s.trees = append(s.trees, tree{fd, grant.rights})
	}
	s.built = time.Now()
}

func (s *sandbox) closeTrees() {
	for _, tree := range s.trees {
		unix.Close(tree.fd)
	}
	s.trees = nil
}

func (s *sandbox) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closeTrees()
}

// denyPrivileges makes the calling thread and what it forks unable to gain
// privileges by exec, and takes away those that a pilot run by root has: with
// them a payload could read the pilot's memory in spite of everything.
func denyPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("deny new privileges: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// denyPrivileges does so to the thread of a payload, and takes the pilot's session
// keyring from it. One that gets another account
// loses its capabilities with the change, for which it needs them.
func (r *Runner) denyPrivileges() error {
	if err := spawner.JoinKeyring(); err != nil {
		return err
	}
	if r.cfg.PayloadUser == nil {
		return denyPrivileges()
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("deny new privileges: %w", err)
	}
	return nil
}

// confine puts the thread of a payload into the domain of a ruleset and through the
// gate, in this order: the kernel copies the rules of the domain that there is.
func (r *Runner) confine(ruleset int) error {
	if err := r.denyPrivileges(); err != nil {
		return err
	}
	if err := spawner.Restrict(ruleset); err != nil {
		return err
	}
	return r.gate.enter()
}

// confine puts the calling thread for ever into the domain of a ruleset.
func confine(ruleset int) error {
	if err := denyPrivileges(); err != nil {
		return err
	}
	return spawner.Restrict(ruleset)
}

// onOwnThread runs work on a thread of its own that ends with it, so that
// nothing done to the thread outlives work. It never uses the first thread of
// the process: /proc/PID stands for that one, it never ends, and orphans are
// listed as its children.
func onOwnThread(work func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			work() // not unlocked: the runtime ends the thread
			return
		}
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread() // cannot be the first thread, which is held
			close(elsewhere)
			work()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}
