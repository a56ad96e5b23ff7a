package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// errClosed is the cause with which Close cancels running attempts.
var errClosed = errors.New("the pilot is ending")

// walls are what confines payloads.
type walls struct {
	level   task.Confinement
	because string   // why nothing higher is in force, and what would bring it
	sandbox *sandbox // of level Landlock, else nil
	gate    gate
	policy  policy
	groups  cgroups
	account int // processes and threads that the account of payloads may have
}

// Runner runs payloads. It is safe for use by many goroutines.
type Runner struct {
	cfg Config
	walls
	family  *family
	logs    logKeeper
	null    *os.File // stdin of payloads
	guard   guard
	gpus    gpus
	folders *workFolders

	spawners    spawners
	reflinkOnce sync.Once
	reflink     bool

	free func(folder string) (task.Bytes, error) // space on its disk

	payloads atomic.Uint64 // that were started

	mutex   sync.Mutex
	closed  bool
	cancel  map[string]context.CancelCauseFunc // of running attempts, by work folder
	held    map[string]string                  // work folders not released, by attempt
	running sync.WaitGroup

	closing    sync.Once
	closeError error
}

// New prepares the folders and the process (see the package comment). What a
// pilot that was killed has left in the folders goes: nobody waits for it. The
// error names the folder that could not be used.
func New(cfg Config) (*Runner, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := prepareProcess(); err != nil {
		return nil, err
	}
	for _, folder := range []string{cfg.WorkDir, cfg.LogDir} {
		if err := removeLeftovers(folder); err != nil {
			cfg.Logger.Warn("something that an earlier pilot has left cannot be removed", "folder", folder, "error", err)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("stdin of payloads: %w", err)
	}
	r := &Runner{
		cfg: cfg, family: openFamily(), logs: logKeeper{folder: cfg.LogDir, keep: cfg.Logs.Keep, all: cfg.Logs.All}, null: null,
		guard: guard{series: newSeries(), null: null},
		gpus:  gpus{free: slices.Clone(cfg.GPUs)}, folders: newWorkFolders(cfg.WorkDir, cfg.PayloadUser),
		free: FreeDisk, cancel: map[string]context.CancelCauseFunc{}, held: map[string]string{},
	}
	r.policy = newPolicy(cfg)
	uid := r.cfg.payloadUID()
	account := threadsOf(uid)
	r.shareProcesses(roomForProcesses("/proc", uid, account), account)
	if cfg.Sandbox != Off {
		r.groups = openCgroups("/proc/self", cfg.Logger)
	}
	if err := r.raise(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// raise finds the highest level that the node can do, up to the one configured.
func (r *Runner) raise() error {
	err := r.build()
	if err == nil && r.cfg.Container != "" && r.level < Container {
		err = fmt.Errorf("--container %s: payloads cannot enter it: %s", r.cfg.Container, r.because)
	}
	if err == nil {
		err = r.cfg.Network.check(r.level, &r.gate)
	}
	if err == nil && r.level < Namespaces && r.cfg.PayloadUser != nil {
		err = mayEnter(r.cfg.PayloadUser, r.cfg.WorkDir)
	}
	return err
}

// mayEnter refuses a work folder that the payloads' account cannot reach: all would fail.
// In namespaces the way there is another one.
func mayEnter(account *Account, folder string) error {
	for ; folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		enter := os.FileMode(0o001)
		switch owner, _ := info.Sys().(*syscall.Stat_t); {
		case owner != nil && int(owner.Uid) == account.UID:
			enter = 0o100
		case owner != nil && int(owner.Gid) == account.GID:
			enter = 0o010
		}
		if info.Mode()&enter == 0 {
			return fmt.Errorf("payloads run as user %d, who cannot enter %s: choose another folder with --cache, or let that user pass (chmod o+x)", account.UID, folder)
		}
	}
	return nil
}

// build raises what walls it can.
func (r *Runner) build() error {
	if r.cfg.Sandbox == Off {
		r.because = "switched off by --sandbox off"
		return nil
	}
	var noNamespaces error
	landlock, noLandlock := newSandbox(r.cfg)
	r.gate.open = noLandlock
	if landlock != nil {
		var err error
		if r.gate, err = openGate(landlock.abi, &r.cfg); err != nil {
			landlock.close()
			return err
		}
	}
	if r.cfg.Sandbox == Auto {
		var link *spawnerLink
		r.spawners.program = openSpawnerProgram()
		r.spawners.noNetwork, r.spawners.gate = r.cfg.Network.None, &r.gate
		r.spawners.view = r.policy.view
		if link, noNamespaces = r.spawners.start(r.cfg.Container); noNamespaces == nil {
			r.spawners.give(link)
			if r.level = Namespaces; r.cfg.Container != "" {
				r.level = Container
			}
			if landlock != nil {
				landlock.close()
			}
			r.because = r.cfg.Network.open(&r.gate)
			return nil
		}
	}
	if r.because = "--sandbox landlock asks for no more"; noNamespaces != nil {
		r.because = "no namespaces: " + missing(noNamespaces)
	}
	if noLandlock != nil {
		r.because += "; no Landlock: " + noLandlock.Error()
		return nil
	}
	r.sandbox, r.level = landlock, Landlock
	r.guard.account = strconv.Itoa(r.cfg.payloadUID())
	if open := r.cfg.Network.open(&r.gate); open != "" {
		r.because += "; " + open
	}
	return r.gate.try()
}

// Walls tells what confines payloads, and why nothing more does.
func (r *Runner) Walls() task.Walls {
	walls := task.Walls{Confinement: r.level, Note: strings.ReplaceAll(r.because, "\n", "; ")}
	add := func(up bool, names ...string) {
		if up {
			walls.Up = append(walls.Up, names...)
		}
	}
	add(r.cfg.PayloadUser != nil, "account")
	add(r.cfg.Sandbox != Off, "privileges")
	add(r.level >= Landlock, "files")
	add(r.level >= Landlock && r.gate.scoped, "signals", "abstract_sockets")
	add(r.level >= Namespaces, "processes", "mounts", "ipc")
	add(r.level >= Namespaces && !r.cfg.SharedMemory, "shared_memory")
	add(r.level >= Landlock && r.ownsProcesses(), "process_limit")
	add(r.groups.kills, "cgroup_kill")
	for _, controller := range r.groups.controllers {
		add(true, "cgroup_"+controller)
	}
	add(r.level >= Container, "container")
	add(r.cfg.Network.None, "network")
	add(r.cfg.Network.Limited, "ports")
	add(r.level >= Landlock && r.cfg.Network.sparesPilotage(&r.gate), "pilotage_ports")
	if r.level >= Namespaces {
		for _, folder := range r.cfg.Images {
			add(true, task.ImagesWall(folder))
		}
	}
	return walls
}

// Try tells what would confine payloads.
func Try(cfg Config) (task.Walls, error) {
	cfg.trial = true
	r, err := New(cfg)
	if err != nil {
		return task.Walls{}, err
	}
	return r.Walls(), r.Close()
}

// Run runs one attempt and returns when the payload and all its descendants
// are gone. Cancelling ctx kills them: the failure is then KilledByUser, with
// the cause of ctx in the reason. started is called once the payload runs, on
// the calling goroutine; it may be nil. The work folder of the result stays
// until Release.
func (r *Runner) Run(ctx context.Context, spec Spec, started func(at time.Time, process int)) Result {
	result := Result{ExitCode: -1}
	run, err := r.admit(ctx, spec)
	if err != nil {
		result.failWith(err)
		return result
	}
	defer r.leave(run)
	result.Folder = run.folder
	if err := run.stage(); err != nil {
		result.failWith(err)
		return result
	}
	if run.ctx.Err() != nil {
		result.fail(run.cancelled())
		return result
	}
	run.execute(&result, started)
	run.inspect(&result)
	return result
}

// admit enters an attempt and its folder into the books.
func (r *Runner) admit(ctx context.Context, spec Spec) (*attempt, error) {
	name := spec.Attempt.Suffix()
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return nil, fmt.Errorf("attempt %q cannot name a folder", name)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if _, held := r.held[name]; held {
		return nil, fmt.Errorf("attempt %s runs already or its folder was not released", spec.Attempt)
	}
	folder, err := r.folders.reserve(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.cancel[folder], r.held[name] = cancel, folder
	r.running.Add(1)
	return &attempt{
		runner: r, ctx: ctx, spec: spec, name: name, folder: folder,
		log: r.cfg.Logger.With("task", spec.Task.ID, "attempt", name),
	}, nil
}

func (r *Runner) leave(run *attempt) {
	r.mutex.Lock()
	r.cancel[run.folder](nil)
	delete(r.cancel, run.folder)
	r.mutex.Unlock()
	r.running.Done()
}

// Release removes a work folder. Releasing a folder that is gone is no error;
// a path that is not a work folder's is refused.
func (r *Runner) Release(folder string) error {
	batch, attempt := filepath.Split(folder)
	if filepath.Dir(filepath.Clean(batch)) != r.cfg.WorkDir {
		return fmt.Errorf("release %q: not a work folder of %s", folder, r.cfg.WorkDir)
	}
	r.mutex.Lock()
	held := r.held[attempt] == folder
	_, running := r.cancel[folder]
	r.mutex.Unlock()
	switch {
	case running:
		return fmt.Errorf("release %q: its payload still runs", folder)
	case !held:
		return nil
	}
	if err := r.folders.remove(folder); err != nil {
		return fmt.Errorf("release the work folder: %w", err)
	}
	r.mutex.Lock()
	delete(r.held, attempt)
	r.mutex.Unlock()
	return nil
}

// Close kills what still runs, waits for its Run calls to return, and removes
// the work folders. Later calls of Run fail; later calls of Close return what
// the first one did.
func (r *Runner) Close() error {
	r.closing.Do(func() { r.closeError = r.close() })
	return r.closeError
}

func (r *Runner) close() error {
	r.mutex.Lock()
	r.closed = true
	for _, cancel := range r.cancel {
		cancel(errClosed)
	}
	r.mutex.Unlock()
	r.running.Wait()
	r.guard.dismiss()

	var failures []error
	for _, folder := range r.held {
		failures = append(failures, r.folders.remove(folder))
	}
	r.folders.close()
	r.spawners.close()
	r.gate.close()
	if r.sandbox != nil {
		r.sandbox.close()
	}
	return errors.Join(append(failures, r.null.Close(), r.family.close())...)
}

// cancelled says why the attempt's context ended.
func (a *attempt) cancelled() (task.FailureKind, string) {
	cause := context.Cause(a.ctx)
	switch {
	case errors.Is(cause, errClosed):
		return task.PilotFailed, errClosed.Error()
	case cause == nil || errors.Is(cause, context.Canceled):
		return task.KilledByUser, "cancelled"
	default:
		return task.KilledByUser, "cancelled: " + cause.Error()
	}
}
