package exec

import (
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// policy says which files payloads may use. Landlock only grants, and a grant
// covers a whole tree; so a hidden folder is spared by granting its siblings
// one by one, and the folders above it are not granted themselves (their
// listing is denied, passing through them is not).
type policy struct {
	hidden       []string
	readable     []string
	writable     []string
	sharedMemory bool
}

// grant is a tree and the rights on it.
type grant struct {
	path   string
	rights uint64
}

// mostSiblings bounds the rules that one hidden folder costs: a folder with
// more entries is closed as a whole.
const mostSiblings = 256

// devices are those below /dev that programs use without meaning to read or
// write a file. Accelerators and fabrics still have their own permissions.
var devices = []string{
	"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts",
	"dri", "kfd", "infiniband", "nvidia*",
}

// systemFolders are those without which no program starts. Accounts of daemons
// have one of them as home folder, which then stays open.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys"}

func newPolicy(cfg Config) policy {
	// Of /dev only the listed devices are granted, not a rule for each terminal.
	closed := append([]string{"/tmp", "/var/tmp", "/dev", os.TempDir()}, homes()...)
	hidden := append([]string{cfg.WorkDir, cfg.LogDir}, cfg.Hidden...)
	for _, folder := range closed {
		if real, err := resolve(folder); err == nil && real != "/" {
			hidden = append(hidden, real)
		}
	}
	return policy{hidden: hidden, readable: cfg.Readable, writable: cfg.Writable, sharedMemory: cfg.SharedMemory}
}

// homes lists the folders of people: what lies there is readable for the
// pilot's user because that is somebody's account, not because payloads are
// meant to see it.
func homes() []string {
	folders := []string{"/home", "/root", "/run/user"}
	own := []string{os.Getenv("HOME")}
	if account, err := user.Current(); err == nil {
		own = append(own, account.HomeDir)
	}
	for _, home := range own {
		if filepath.IsAbs(home) && !isSystem(home) {
			folders = append(folders, home)
		}
	}
	return folders
}

func isSystem(folder string) bool {
	folder = filepath.Clean(folder)
	return slices.ContainsFunc(systemFolders, func(system string) bool {
		return folder == system || strings.HasPrefix(folder, system+"/")
	})
}

// grants lists what all payloads get. Explicitly readable and writable trees
// may lie inside hidden ones.
func (p policy) grants(log *slog.Logger) []grant {
	var list []grant
	add := func(root string, rights uint64) {
		p.spare(root, log, func(path string) { list = append(list, grant{path, rights}) })
	}
	add("/", rightsRead)
	for _, path := range p.readable {
		add(path, rightsRead)
	}
	for _, path := range p.writable {
		add(path, rightsAll)
	}
	for _, pattern := range devices {
		paths, err := filepath.Glob("/dev/" + pattern)
		if err != nil {
			panic(err) // the patterns are constants
		}
		for _, path := range paths {
			list = append(list, grant{path, rightsRead | rightsWriteFile})
		}
	}
	if p.sharedMemory {
		list = append(list, grant{"/dev/shm", rightsAll})
	}
	return list
}

// spare calls allow for the largest trees below root that hold nothing hidden.
// A root that is itself hidden, or lies in a hidden folder, was named on
// purpose and is allowed but for what is hidden inside.
func (p policy) spare(root string, log *slog.Logger, allow func(path string)) {
	if !p.holdsHidden(root) {
		allow(root)
		return
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	if root != "/" && len(entries) > mostSiblings {
		log.Warn("payloads cannot read a folder: too many entries beside a hidden one", "folder", root, "entries", len(entries))
		return
	}
	for _, entry := range entries {
		path := filepath.Join(root, entry.Name())
		if entry.Type()&os.ModeSymlink == 0 && !p.isHidden(path) {
			p.spare(path, log, allow)
		}
	}
}

func (p policy) isHidden(path string) bool {
	return slices.Contains(p.hidden, path)
}

// holdsHidden tells whether something hidden lies strictly below path.
func (p policy) holdsHidden(path string) bool {
	prefix := strings.TrimSuffix(path, "/") + "/"
	for _, hidden := range p.hidden {
		if strings.HasPrefix(hidden, prefix) {
			return true
		}
	}
	return false
}
