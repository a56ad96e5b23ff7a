package workernode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// workerNode is what a pilot has of its node: a folder on the disk, processes, and an
// HTTPS server.
type workerNode struct {
	config *Config
	pilot  agent.Enrollment
	data   net.Listener
	walls  task.Walls
	// temporary tells that the folder is this pilot's alone and goes with it.
	temporary bool

	claim   *os.File // on the node's disk
	own     *os.File // the lock of the folder, where the cache is elsewhere
	cache   *disk.Cache
	storage *storage.Client
	runner  *exec.Runner
	records *recorded
}

// Run is a pilot on its worker node, from registration to farewell. It returns nil after
// an orderly end: lifetime over, drained, or ctx cancelled (as by SIGTERM).
func Run(ctx context.Context, config Config) error {
	n := &workerNode{config: &config}
	return n.run(ctx, n.check)
}

// Check registers as a visitor, which counts nowhere and cannot be master,
// looks at everything that work needs, and leaves again.
func Check(ctx context.Context, config Config) (findings []agent.Finding, err error) {
	config.OnlyChecks = true
	n := &workerNode{config: &config}
	err = n.run(ctx, func(ctx context.Context) []agent.Finding {
		findings = n.check(ctx)
		return findings
	})
	return findings, err
}

// run prepares the node, has a pilot work on it, and gives everything up.
func (n *workerNode) run(ctx context.Context, check func(context.Context) []agent.Finding) error {
	if err := n.config.Complete(os.Getenv, time.Now()); err != nil {
		return err
	}
	defer func() {
		if err := n.close(); err != nil {
			cmp.Or(n.pilot.Log, n.config.Log).Warn("the pilot leaves something behind", "error", err)
		}
	}()
	at, err := n.prepare()
	if err != nil {
		return err
	}
	pilot, err := agent.Enroll(ctx, n.config.Config, at)
	if err != nil {
		return err
	}
	parts, err := n.equip(pilot.Enrollment())
	if err != nil {
		return pilot.TakeBack(ctx, err)
	}
	parts.Check = check
	if !n.config.OnlyChecks {
		defer n.removeState()
		if err := n.writeState(); err != nil {
			n.pilot.Log.Warn("cannot write the pilot's state file", "error", err)
		}
	}
	return pilot.Work(ctx, parts)
}

// prepare opens what the registration names, and all else whose place is known.
func (n *workerNode) prepare() (at agent.Place, err error) {
	if err := hideFromPayloads(); err != nil {
		return at, err
	}
	if err := n.measureDisk(); err != nil {
		return at, err
	}
	if n.walls, err = n.confinement(); err != nil {
		return at, err
	}
	if err := n.openCache(n.config.Log); err != nil {
		return at, err
	}
	address, err := node.AdvertiseAddress(n.config.Access.Queue[0], n.config.Advertise)
	if err != nil {
		return at, err
	}
	ports, err := node.ParsePortRange(n.config.PortRange)
	if err != nil {
		return at, err
	}
	if n.data, err = listenData(address, ports); err != nil {
		return at, err
	}
	return agent.Place{DataURL: n.dataURL(), Walls: n.walls}, nil
}

// dataURL is where other pilots fetch files.
func (n *workerNode) dataURL() string { return "https://" + n.data.Addr().String() }

// listenData opens a port of the range for the data server.
func listenData(address netip.Addr, ports node.PortRange) (listener net.Listener, err error) {
	err = ports.Listen(func(port uint16) (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, port).String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the data port on %s, ports %s: %w", address, ports, err)
	}
	return listener, nil
}

// claimsFolder is where the pilots of this account on this node tell each other what
// they have.
func claimsFolder() string {
	return filepath.Join(filepath.Dir(DefaultFolder(os.Getenv, "x")), "claims")
}

// measureDisk divides this pilot's share of the disk between cache and work folders,
// before the registration names the latter.
func (n *workerNode) measureDisk() error {
	folder, err := baseFolder(n.config.Folder)
	if err != nil {
		return err
	}
	if n.config.SharedCache != "" {
		if n.config.SharedCache, err = filepath.Abs(n.config.SharedCache); err != nil {
			return err
		}
	}
	claim := diskClaim{Cores: n.config.Resources.Cores, Folder: folder, Pool: n.config.SharedCache}
	if claim.Pool != "" {
		claim.PoolBytes = n.config.Capacity
	}
	n.claim, err = claimDisk(claimsFolder(), claim, exec.FreeDisk, func(share task.Bytes, shared bool, pool task.Bytes) (task.Bytes, error) {
		own := n.config.Capacity // of the share: the cache, where it is this pilot's alone
		switch {
		case claim.Pool != "":
			n.config.Capacity, own = pool, 0
		case own == 0:
			if own, err = disk.DefaultCapacity(folder, share); err != nil {
				return 0, err
			}
			n.config.Capacity = own
		}
		defaults := n.config.Resources.Disk == 0
		if defaults {
			n.config.Resources.Disk = max(0, share-own)
		}
		if shared && defaults {
			n.config.Log.Warn("other pilots have claimed the disk of this node: tasks may find it full; give each pilot --disk and --cache-size", "folder", folder)
		}
		return n.config.Resources.Disk + own, nil
	})
	return err
}

// openCache opens the cache, and makes the pilot's folder its own where that is not the
// cache's, as soon as their places are known: before the registration if they may be
// another pilot's.
func (n *workerNode) openCache(log *slog.Logger) (err error) {
	shared := n.config.SharedCache != ""
	if folder := cmp.Or(n.config.SharedCache, n.config.Folder); n.cache == nil && folder != "" {
		n.cache, err = disk.Open(disk.Config{
			Dir: folder, Shared: shared, Capacity: n.config.Capacity, Log: log,
			Evicted: func(keys []task.FileKey) { n.pilot.Evicted(keys) },
			Brought: func(files []disk.Entry) { n.pilot.Brought(files) },
		})
	}
	if err == nil && shared && n.own == nil && n.config.Folder != "" {
		n.own, err = disk.Lock(n.config.Folder)
	}
	return err
}

// confinement says what confines payloads, or why nothing does. The queue is
// told at registration, when the pilot's folder has no name yet.
func (n *workerNode) confinement() (task.Walls, error) {
	var none task.Walls
	base, err := baseFolder(n.config.Folder)
	if err != nil {
		return none, err
	}
	folder, err := os.MkdirTemp(base, "check-")
	if err != nil {
		return none, fmt.Errorf("a folder to try the sandbox in: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	runnerConfig, err := n.execConfig(folder, nil, n.config.Log)
	if err != nil {
		return none, err
	}
	if runnerConfig.PayloadUser != nil { // its work folders lie below
		if err := errors.Join(os.Chmod(base, 0o711), os.Chmod(folder, 0o711)); err != nil {
			return none, fmt.Errorf("the pilot's folder: %w", err)
		}
	}
	return exec.Try(runnerConfig)
}

// execConfig is for payloads below a folder; ports are this pilot's, once it listens.
func (n *workerNode) execConfig(folder string, ports []string, log *slog.Logger) (exec.Config, error) {
	config := exec.Config{
		WorkDir: filepath.Join(folder, "work"), LogDir: filepath.Join(folder, "logs"), Site: n.config.Access.Site, Cores: n.config.Resources.Cores,
		Guests: n.config.Guests, Logger: log,
		Logs: exec.Logs{All: func() []string { return logFolders(claimsFolder()) }},
	}
	config.Hidden = append([]string{filepath.Join(folder, "cache"), n.config.Records}, config.Hidden...)
	if n.config.SharedCache != "" {
		config.Hidden = append(config.Hidden, filepath.Join(n.config.SharedCache, "cache"))
	}
	listens, err := node.ParsePortRange(n.config.PortRange)
	if err != nil {
		return config, err
	}
	config.Network.Pilotage = ownPorts(n.config.Access.Queue, ports, node.DefaultPorts, listens)
	config.PayloadUser, err = PayloadAccount(n.config.PayloadUser)
	return config, err
}

// scrubRate is how fast a pilot looks for rotted files, in bytes a second: a
// cache of 20 GiB in 43 minutes, a tenth of what one old disk gives.
const scrubRate = 8 * task.MiB

// equip opens cache, work and log folders of a registered pilot and what works on them.
func (n *workerNode) equip(pilot agent.Enrollment) (parts agent.Parts, err error) {
	n.pilot = pilot
	listens := tcpPorts(pilot.Addresses, n.data.Addr())
	if n.config.Folder == "" {
		n.config.Folder = DefaultFolder(os.Getenv, string(pilot.Pilot))
		n.temporary = true
	}
	if err := os.MkdirAll(n.config.Folder, 0o700); err != nil {
		return parts, fmt.Errorf("the pilot's folder: %w", err)
	}
	if err := n.openCache(pilot.Log); err != nil {
		return parts, err
	}
	if err := os.MkdirAll(n.config.Records, 0o700); err != nil { // so that it can be hidden
		pilot.Log.Warn("what runs on this node is not recorded", "error", err)
	}
	if ports := outside(listens, n.config.PortRange); len(ports) > 0 {
		pilot.Log.Warn("no port is free where pilots listen: payloads of other pilots can connect to this one's", "range", n.config.PortRange, "ports", ports)
	}
	runnerConfig, err := n.execConfig(n.config.Folder, listens, pilot.Log)
	if err != nil {
		return parts, err
	}
	if runnerConfig.PayloadUser != nil { // its work folders lie below
		if err := os.Chmod(n.config.Folder, 0o711); err != nil {
			return parts, fmt.Errorf("the pilot's folder: %w", err)
		}
	}
	if n.runner, err = exec.New(runnerConfig); err != nil {
		return parts, err
	}
	// The queue has checked that file:// copies lie in their sites' storage.
	n.storage = storage.NewClient(storage.Options{
		FileRoots: []string{"/"}, Secrets: func() task.StorageSecrets { return pilot.Settings().Secrets },
	})
	if n.temporary {
		removeDeadFolders(filepath.Dir(n.config.Folder), pilot.Log)
	}
	client := peer.NewClient(peer.ClientConfig{Own: pilot.Own, Verifier: pilot.Verifier, Site: pilot.Site, Clock: time.Now, DataURL: n.dataURL()})
	server := peer.NewServer(peer.ServerConfig{Cache: n.cache, Own: pilot.Own, Verifier: pilot.Verifier, Site: pilot.Site, Clock: time.Now, Log: pilot.Log})
	n.records = &recorded{Payloads: n.runner, folder: n.config.Records, log: pilot.Log, about: NodeRecord{
		Site: pilot.Site, Node: n.config.Host, Pilot: pilot.Pilot, BatchJob: n.config.BatchJob,
	}}
	return agent.Parts{
		Cache: n.cache, Payloads: n.records, Uploads: n, Observe: n.observe,
		Fetcher: fetch.New(fetch.Config{
			Cache: n.cache, Peers: client, Storage: n.storage, Locator: pilot.Locator, Homes: pilot.Homes, Self: pilot.Peer, Site: pilot.Site,
			Settings: pilot.Settings, Cached: pilot.Cached, BadCopy: pilot.BadCopy, Log: pilot.Log,
		}),
		Serve: func(ctx context.Context) error { return server.Run(ctx, n.data) },
		Scrub: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return n.cache.Scrub(ctx, scrubRate) })
			group.Go(func() error { return n.cache.Follow(ctx) })
			return group.Wait()
		},
	}, nil
}

// observe tells how things are at the node by now, and why no work can be taken.
func (n *workerNode) observe() (now matcher.Conditions, stop string) {
	now = matcher.Conditions{Load: loadPerCPU(), FreeMemory: freeMemory(), Now: time.Now()}
	free, err := exec.FreeDisk(n.config.Folder)
	if err == nil && free < minimumDisk {
		stop = fmt.Sprintf("only %s are free on the disk of %s", free, n.config.Folder)
	}
	now.FreeDisk = free
	return now, stop
}

// close gives everything up.
func (n *workerNode) close() error {
	var failures []error
	if n.runner != nil {
		failures = append(failures, n.runner.Close(), n.records.Close())
	}
	if n.cache != nil {
		failures = append(failures, n.cache.Close())
	}
	if n.storage != nil {
		n.storage.Close()
	}
	if n.data != nil {
		if err := n.data.Close(); !errors.Is(err, net.ErrClosed) {
			failures = append(failures, err)
		}
	}
	if n.own != nil {
		failures = append(failures, n.own.Close())
	}
	if n.temporary {
		failures = append(failures, exec.RemoveTree(n.config.Folder))
	}
	if n.claim != nil {
		failures = append(failures, giveBack(n.claim))
	}
	return errors.Join(failures...)
}
