package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// SandboxMode says how payloads are restricted.
type SandboxMode uint8

const (
	// Auto restricts payloads by the highest level that the node can do, and
	// always denies them new privileges.
	Auto SandboxMode = iota
	// Off restricts nothing.
	Off
	// OnlyLandlock goes no higher than level Landlock.
	OnlyLandlock
)

// The levels under short names.
const (
	None       = task.ConfinementNone
	Landlock   = task.ConfinementLandlock
	Namespaces = task.ConfinementNamespaces
	Container  = task.ConfinementContainer
)

// Config says where and how payloads run. Only WorkDir and LogDir are needed.
type Config struct {
	WorkDir string // one sub-folder per attempt is made here
	LogDir  string // stdout and stderr files are kept here
	Site    task.Site
	Cores   int // of the pilot, among which it shares the processes that it may have; default those of the node
	Guests
	// PayloadUser, if set, is the account of payloads of a pilot that root has
	// started; nil: the pilot's own.
	PayloadUser *Account

	Path string // PATH of payloads; default: the pilot's own, else system folders
	Lang string // LANG of payloads; default: the pilot's own, else C.UTF-8

	Logs      Logs
	KillGrace time.Duration // between SIGTERM and SIGKILL; default 5 s
	Watch     Watch

	Logger *slog.Logger // default slog.Default()

	trial bool // no payload comes
}

// Guests says what payloads may do and see. Confined ones see the system's folders,
// their inputs and what is listed here, never what is Hidden.
type Guests struct {
	Sandbox SandboxMode
	// Container, if set, is the folder of the root file system in which payloads
	// run.
	Container string
	// Images are the folders in which images may lie that tasks name as their
	// container; default /cvmfs/. A single "none" is none.
	Images  []string
	Network Network
	// TrustPayloads gives payloads hard links to cached inputs, which they can
	// write to: for sites where one user's payloads run.
	TrustPayloads bool

	Hidden   []string // files and folders that payloads must never read
	Readable []string // further files and folders that payloads may read
	Writable []string // further files and folders that payloads may write
	// SharedMemory gives payloads the node's /dev/shm, which everybody on the node
	// shares and nobody cleans. Else they have their own in namespaces, and none
	// below.
	SharedMemory bool
	GPUs         []string // devices that payloads are given, one each, as CUDA and ROCm name them
}

// Logs bounds what payloads print.
type Logs struct {
	Keep   task.Bytes      // of log files of the whole node: beyond it, the oldest of ended payloads are removed; default 1 GiB
	All    func() []string // log folders of all pilots of the node, with or without its own; nil: there is no other
	Stream task.Bytes      // of stdout and of stderr kept in a file, less where the task may use less disk; default 64 MiB
}

// Watch says how a running payload is watched.
type Watch struct {
	First     time.Duration // look at memory after the start; default 100 ms, so that short payloads cost none
	Every     time.Duration // between later looks, at first; grows to four times that; default 250 ms
	DiskEvery time.Duration // between measurements of the work folder and of open files; default 1 s
	Excess    float64       // memory and disk allowed, as a multiple of the request; default 1.2
	Processes int           // allowed for each core of the task; default 256: a build of a large program has some 20
	Threads   int           // likewise; default 4,096, less where the node has less: programs that do not ask what is theirs start some for each core of the node
}

const (
	systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	systemLang = "C.UTF-8"
)

func (c Config) withDefaults() (Config, error) {
	if c.WorkDir == "" || c.LogDir == "" {
		return c, errors.New("payload runner: WorkDir and LogDir must be set")
	}
	for _, folder := range []*string{&c.WorkDir, &c.LogDir} {
		if err := os.MkdirAll(*folder, 0o700); err != nil {
			return c, fmt.Errorf("make the payload folder: %w", err)
		}
		resolved, err := resolve(*folder)
		if err != nil {
			return c, err
		}
		*folder = resolved
	}
	if c.Container != "" {
		resolved, err := resolve(c.Container)
		if err != nil {
			return c, err
		}
		if info, err := os.Stat(resolved); err != nil || !info.IsDir() || resolved == "/" {
			return c, fmt.Errorf("--container %s: give the folder of an unpacked image", c.Container)
		}
		c.Container = resolved
	}
	if err := c.resolveImages(); err != nil {
		return c, err
	}
	if c.PayloadUser != nil { // to pass through, not to list
		if err := os.Chmod(c.WorkDir, 0o711); err != nil {
			return c, fmt.Errorf("open the payload folder to its account: %w", err)
		}
	}
	for _, list := range []*[]string{&c.Hidden, &c.Readable, &c.Writable} {
		resolved := make([]string, len(*list))
		for i, path := range *list {
			var err error
			if resolved[i], err = resolve(path); err != nil {
				return c, err
			}
			if resolved[i] == "/" {
				return c, fmt.Errorf("payload runner: %q is the root folder: name the folders that are meant", path)
			}
		}
		*list = resolved
	}
	orDefault(&c.Path, os.Getenv("PATH"), systemPath)
	orDefault(&c.Lang, os.Getenv("LANG"), systemLang)
	orDefault(&c.Logs.Keep, task.GiB)
	orDefault(&c.Logs.Stream, 64*task.MiB)
	orDefault(&c.KillGrace, 5*time.Second)
	orDefault(&c.Watch.First, 100*time.Millisecond)
	orDefault(&c.Watch.Every, 250*time.Millisecond)
	orDefault(&c.Watch.DiskEvery, time.Second)
	orDefault(&c.Watch.Excess, 1.2)
	orDefault(&c.Cores, runtime.NumCPU())
	orDefault(&c.Logger, slog.Default())
	return c, nil
}

// resolveImages makes of each folder a prefix of what lies in it.
func (c *Config) resolveImages() error {
	given := c.Images
	switch {
	case len(given) == 0:
		given = []string{"/cvmfs"}
	case len(given) == 1 && given[0] == "none":
		given = nil
	}
	c.Images = nil
	for _, folder := range given {
		if !filepath.IsAbs(folder) || filepath.Clean(folder) == "/" {
			return fmt.Errorf("--images %s: give absolute paths of folders, or none", folder)
		}
		c.Images = append(c.Images, filepath.Clean(folder)+"/")
	}
	return nil
}

// orDefault sets an unset value to the first set choice.
func orDefault[T comparable](value *T, choices ...T) {
	var unset T
	for _, choice := range choices {
		if *value != unset {
			return
		}
		*value = choice
	}
}

// resolve makes a path absolute and free of symbolic links as far as it
// exists: Landlock rules and the list of hidden folders are about real places.
func resolve(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", path, err)
	}
	existing, rest := absolute, ""
	for {
		real, err := filepath.EvalSymlinks(existing)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || existing == "/" {
			return "", fmt.Errorf("resolve %q: %w", path, err)
		}
		rest = filepath.Join(filepath.Base(existing), rest)
		existing = filepath.Dir(existing)
	}
}
