package spawner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// ContainerWork is where a payload in a container finds its work folder.
const ContainerWork = "/pilotage"

// nodePlace is where the node's own root stays mounted, below an empty folder, so
// that work folders can be shown from it.
const nodePlace = "/.node"

// enterContainer makes a root file system of a folder, read-only, and enters it.
// The folder itself need not be writable nor have any place for mounts: the root is
// an empty folder in memory, to which all that lies in it is bound.
func (s *stage) enterContainer(v *View) error {
	if err := closeRoot(); err != nil {
		return err
	}
	image, err := unix.Open(v.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the container %s: %w", v.Root, err)
	}
	defer unix.Close(image)
	entries, err := os.ReadDir(v.Root)
	if err != nil {
		return fmt.Errorf("read the container %s: %w", v.Root, err)
	}
	if err := unix.Mount("none", v.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("make the container's root: %w", err)
	}
	own := []string{"proc", "dev", "sys", "tmp", "pilotage", ".node"}
	for _, entry := range entries {
		if slices.Contains(own, entry.Name()) {
			continue
		}
		if err := bindEntry(image, entry, filepath.Join(v.Root, entry.Name())); err != nil {
			return fmt.Errorf("bind /%s of the container: %w", entry.Name(), err)
		}
	}
	for _, name := range own {
		if err := os.Mkdir(filepath.Join(v.Root, name), 0o755); err != nil {
			return fmt.Errorf("make /%s in the container: %w", name, err)
		}
	}
	if err := mountProc(filepath.Join(v.Root, "proc")); err != nil {
		return err
	}
	for _, name := range []string{"/dev", "/sys"} {
		if err := bindTree(unix.AT_FDCWD, name, filepath.Join(v.Root, name)); err != nil {
			return fmt.Errorf("bind %s into the container: %w", name, err)
		}
	}
	return s.pivot(v.Root)
}

// bindEntry binds what lies in the top folder of a container.
func bindEntry(image int, entry os.DirEntry, at string) error {
	switch {
	case entry.IsDir():
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
	case entry.Type()&os.ModeSymlink != 0:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(image, entry.Name(), target)
		if err != nil {
			return err
		}
		return os.Symlink(string(target[:n]), at)
	case entry.Type().IsRegular():
		if err := os.WriteFile(at, nil, 0o444); err != nil {
			return err
		}
	default:
		return nil
	}
	return bindTree(image, entry.Name(), at)
}

// bindTree mounts a copy of a tree, read-only, at a place.
func bindTree(from int, path, at string) error {
	tree, err := unix.OpenTree(from, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, readOnly); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// pivot makes a mount the root; the node's own stays, hidden.
func (s *stage) pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."+nodePlace); err != nil {
		return fmt.Errorf("enter the container: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	inside, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	s.covers = append(s.covers, cover{path: "/", below: -1, inside: inside})
	if s.node, err = unix.Open(nodePlace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err := s.hide(nodePlace); err != nil {
		return fmt.Errorf("hide the node from the container: %w", err)
	}
	s.contained = true
	// Names of hosts are the node's, where the container has a file for them.
	for _, path := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			_ = s.show(path, path, false)
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// ofNode opens a path of the node from inside a container, whose own root does not
// count for links in it.
func (s *stage) ofNode(path string) (int, error) {
	return unix.Openat2(s.node, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}
