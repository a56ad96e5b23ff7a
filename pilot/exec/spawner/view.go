package spawner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// View is what payloads see of the node in the mount namespace of their spawner:
// all of it read-only, hidden places empty, and what is opened at its place.
type View struct {
	// Root is the folder of a container: of the node, payloads then see only what
	// Read and Write name. "" is the node's own root.
	Root   string
	Hidden []string
	Read   []string // inside hidden places
	Write  []string
	// HiddenInside lie in what Read and Write open.
	HiddenInside []string
}

// stage is a view that is made. A payload cannot change it, so it serves one after
// another; only the work folder comes and goes.
type stage struct {
	covers  []cover
	pending []place  // that were not there
	mounted []string // of the attempt, in order

	contained bool // the root is a container's
	node      int  // the node's root, from inside a container
}

// cover is an empty folder over a hidden one.
type cover struct {
	path string
	// below is the hidden folder, inside the empty one, writable: only the
	// spawner has these descriptors.
	below, inside int
}

// place is hidden or opened.
type place struct {
	path     string
	hidden   bool
	writable bool
}

// enter makes the view in the calling process's own mount namespace.
func (s *stage) enter(v *View) error {
	root := closeRoot
	if v.Root != "" {
		root = func() error { return s.enterContainer(v) }
	}
	if err := root(); err != nil {
		return err
	}
	for _, path := range v.Hidden {
		s.pending = append(s.pending, place{path: path, hidden: true})
	}
	for _, path := range v.Read {
		s.pending = append(s.pending, place{path: path})
	}
	for _, path := range v.Write {
		s.pending = append(s.pending, place{path: path, writable: true})
	}
	for _, path := range v.HiddenInside {
		s.pending = append(s.pending, place{path: path, hidden: true})
	}
	return s.settle()
}

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
	return mountProc("/proc")
}

// mountProc mounts the /proc of the PID namespace. Payloads may write to it: making user
// namespaces takes that.
func mountProc(at string) error {
	if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount an own /proc: %w", err)
	}
	return nil
}

// settle hides and opens what is there by now.
func (s *stage) settle() error {
	var pending []place
	for _, p := range s.pending {
		var err error
		if p.hidden {
			err = s.hide(p.path)
		} else {
			err = s.show(p.path, p.path, p.writable)
		}
		switch {
		case errors.Is(err, os.ErrNotExist), p.hidden && errors.Is(err, os.ErrPermission):
			pending = append(pending, p)
		case err != nil && p.hidden:
			return fmt.Errorf("hide %s: %w", p.path, err)
		case err != nil:
			return fmt.Errorf("open %s: %w", p.path, err)
		}
	}
	s.pending = pending
	return nil
}

// hide puts an empty folder over a folder, and nothing over a file. A link leads to
// what is hidden itself, or to nothing.
func (s *stage) hide(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return nil
	case !info.IsDir():
		return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
	}
	c := cover{path: path}
	if c.below, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.Mount("none", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	if c.inside, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
		return err
	}
	s.covers = append(s.covers, c)
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// covering returns the innermost cover over a path, and the path below it.
func (s *stage) covering(path string) (found *cover, rest string) {
	for i := range s.covers {
		c := &s.covers[i]
		if below, is := strings.CutPrefix(path, strings.TrimSuffix(c.path, "/")+"/"); is && (found == nil || len(c.path) > len(found.path)) {
			found, rest = c, below
		}
	}
	return found, rest
}

// show mounts what lies at a path of the node, maybe below a cover, at a place.
func (s *stage) show(path, at string, writable bool) error {
	from, rest := unix.AT_FDCWD, path
	if s.contained {
		fd, err := s.ofNode(path)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		from, rest = fd, ""
	} else if c, below := s.covering(path); c != nil {
		from, rest = c.below, below
	}
	var status unix.Stat_t
	if err := unix.Fstatat(from, rest, &status, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	tree, err := unix.OpenTree(from, rest, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if writable {
		open := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, open); err != nil {
			return fmt.Errorf("make it writable: %w", err)
		}
	}
	if _, err := os.Lstat(at); err != nil { // what is hidden has no place for it yet
		c, below := s.covering(at)
		if c == nil {
			return fmt.Errorf("no place for %s: %w", at, err)
		}
		if err := c.makePlace(below, status.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
			return fmt.Errorf("make its place: %w", err)
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// makePlace makes an empty folder or file in a cover, to mount something at.
func (c *cover) makePlace(path string, folder bool) error {
	for i, letter := range path {
		if letter == '/' {
			if err := unix.Mkdirat(c.inside, path[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	if folder {
		if err := unix.Mkdirat(c.inside, path, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	}
	file, err := unix.Openat(c.inside, path, unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC, 0o444)
	if err == nil {
		unix.Close(file)
	}
	return err
}

// open shows an attempt's work folder and inputs, and tells where the former is.
func (s *stage) open(order *Start) (folder string, err error) {
	if len(s.pending) > 0 {
		if err := s.settle(); err != nil {
			return "", err
		}
	}
	folder = order.Work
	if s.contained {
		folder = ContainerWork
	}
	if err := s.mount(order.Work, folder, true); err != nil {
		return "", fmt.Errorf("open the work folder: %w", err)
	}
	if s.contained {
		if err := s.mount(filepath.Join(order.Work, order.Private), "/tmp", true); err != nil {
			return "", fmt.Errorf("open /tmp: %w", err)
		}
	}
	if order.SharedMemory > 0 {
		if err := s.mountSharedMemory(order.SharedMemory); err != nil {
			return "", fmt.Errorf("mount its own /dev/shm: %w", err)
		}
	}
	for _, input := range order.Inputs {
		if err := s.show(input.Cached, filepath.Join(folder, input.Place), false); err != nil {
			return "", fmt.Errorf("open input %s: %w", input.Place, err)
		}
	}
	return folder, nil
}

// mountSharedMemory gives the attempt a /dev/shm of its own, where the node has one.
func (s *stage) mountSharedMemory(size int64) error {
	const place = "/dev/shm"
	err := unix.Mount("none", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", size))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.mounted = append(s.mounted, place)
	}
	return err
}

// mount shows something until the attempt's end.
func (s *stage) mount(path, at string, writable bool) error {
	err := s.show(path, at, writable)
	if err == nil {
		s.mounted = append(s.mounted, at)
	}
	return err
}

// leave takes an attempt's work folder away again.
func (s *stage) leave() {
	for _, path := range s.mounted {
		_ = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if c, below := s.covering(path); c != nil && !s.contained {
			_ = unix.Unlinkat(c.inside, below, unix.AT_REMOVEDIR)
			_ = unix.Unlinkat(c.inside, filepath.Dir(below), unix.AT_REMOVEDIR) // of its batch; fails where that is more
		}
	}
	s.mounted = s.mounted[:0]
}
