package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// view is what a payload sees of the node in a mount namespace of its own: all of
// it read-only, hidden places empty, and what is opened at its place.
type view struct {
	Work   string // its work folder, writable
	Hidden []string
	Read   []string // inside hidden places
	Write  []string
	// HiddenInside lie in what Read and Write open.
	HiddenInside []string
	Inputs       []boundInput
}

// boundInput is a cached file that is shown, read-only, in place of a file in the
// work folder.
type boundInput struct{ Cached, Place string }

// closeRoot makes the calling process's mount namespace read-only, for all that
// come after it, with a /proc of its PID namespace.
func closeRoot() error {
	// What the node mounts later (autofs, /cvmfs) comes in; nothing goes out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the node's mounts: %w", err)
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("make the node's files read-only (needs Linux 5.12): %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount an own /proc: %w", err)
	}
	return nil
}

// opened is a place that stays open: a copy of a mount that is put back.
type opened struct {
	fd     int
	target string
	folder bool
}

// enter puts the calling thread into a mount and an IPC namespace of its own and
// makes the view in it.
func (v *view) enter() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("own namespaces: %w", err)
	}
	given, err := v.open(v.Read, v.Write)
	defer closeAll(given)
	if err != nil {
		return err
	}
	own, err := v.openOwn()
	defer closeAll(own)
	if err != nil {
		return err
	}
	covers, err := coverAll(v.Hidden)
	if err == nil {
		err = putAll(given)
	}
	var inside []int
	if err == nil { // what is hidden inside a place that is open
		inside, err = coverAll(v.HiddenInside)
		covers = append(covers, inside...)
	}
	if err == nil {
		err = putAll(own)
	}
	for _, cover := range covers {
		closed := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if failed := unix.MountSetattr(cover, "", unix.AT_EMPTY_PATH, closed); err == nil && failed != nil {
			err = fmt.Errorf("close a hidden place: %w", failed)
		}
		unix.Close(cover)
	}
	return err
}

// open takes copies of the mounts of places that stay open; those that are not
// there are left out.
func (v *view) open(read, write []string) (open []opened, err error) {
	for i, path := range slices.Concat(read, write) {
		one, err := openMount(path, path, i >= len(read))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return open, fmt.Errorf("open %s: %w", path, err)
		}
		open = append(open, one)
	}
	return open, nil
}

// openOwn takes the work folder and the inputs that are bound into it.
func (v *view) openOwn() ([]opened, error) {
	work, err := openMount(v.Work, v.Work, true)
	if err != nil {
		return nil, fmt.Errorf("open the work folder: %w", err)
	}
	own := []opened{work}
	for _, input := range v.Inputs {
		one, err := openMount(input.Cached, filepath.Join(v.Work, input.Place), false)
		if err != nil {
			return own, fmt.Errorf("open input %s: %w", input.Place, err)
		}
		own = append(own, one)
	}
	return own, nil
}

func closeAll(open []opened) {
	for _, one := range open {
		unix.Close(one.fd)
	}
}

func putAll(open []opened) error {
	for _, one := range open {
		if err := one.put(); err != nil {
			return fmt.Errorf("open %s: %w", one.target, err)
		}
	}
	return nil
}

// coverAll hides places, and returns the folders that it has put over them: they
// are closed when what stays open inside has its place.
func coverAll(hidden []string) (covers []int, err error) {
	for _, path := range hidden {
		folder, err := cover(path)
		if err != nil {
			return covers, fmt.Errorf("hide %s: %w", path, err)
		}
		if !folder {
			continue
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return covers, fmt.Errorf("hide %s: %w", path, err)
		}
		covers = append(covers, fd)
	}
	return covers, nil
}

func openMount(path, target string, writable bool) (opened, error) {
	one := opened{fd: -1, target: target}
	info, err := os.Lstat(path)
	if err != nil {
		return one, err
	}
	one.folder = info.IsDir()
	one.fd, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil || !writable {
		return one, err
	}
	attributes := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(one.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attributes); err != nil {
		unix.Close(one.fd)
		return one, fmt.Errorf("make it writable: %w", err)
	}
	return one, nil
}

// put mounts it at its place, which is made where it is hidden now.
func (o opened) put() error {
	if _, err := os.Lstat(o.target); err != nil {
		if err := os.MkdirAll(filepath.Dir(o.target), 0o755); err != nil {
			return err
		}
		if o.folder {
			err = os.Mkdir(o.target, 0o755)
		} else {
			err = os.WriteFile(o.target, nil, 0o444)
		}
		if err != nil {
			return err
		}
	}
	return unix.MoveMount(o.fd, "", unix.AT_FDCWD, o.target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// cover hides a folder below an empty one, a file below none, and tells which it
// was. A link leads to what is hidden itself, or to nothing.
func cover(path string) (folder bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return true, unix.Mount("none", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m")
	case info.Mode()&os.ModeSymlink != 0:
		return false, nil
	default:
		return false, unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
	}
}

// socketFolders hold the sockets of the node's services: munge, the bus of a
// login, container engines.
var socketFolders = []string{"/run"}

// view is what the policy leaves of the node to one attempt.
func (p policy) view(folder string) view {
	v := view{Work: folder, Write: p.writable}
	if p.sharedMemory {
		v.Write = slices.Concat(p.writable, []string{"/dev/shm"})
	}
	hidden := slices.Concat(p.hidden, socketFolders, []string{"/dev/shm"})
	for _, path := range hidden {
		if path != "/dev" && !under(path, hidden) && !slices.Contains(v.Hidden, path) {
			v.Hidden = append(v.Hidden, path)
		}
	}
	read := p.readable
	if names, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		read = slices.Concat(read, []string{filepath.Dir(names)}) // often below /run
	}
	for _, path := range read {
		if slices.Contains(v.Hidden, path) || under(path, v.Hidden) {
			v.Read = append(v.Read, path)
		}
	}
	for _, path := range hidden {
		if under(path, v.Read) || under(path, v.Write) {
			v.HiddenInside = append(v.HiddenInside, path)
		}
	}
	return v
}

// under tells whether a path lies below one of the folders.
func under(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path != folder && strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
	})
}
