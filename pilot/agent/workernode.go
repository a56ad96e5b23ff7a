package agent

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
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// workerNode is the ground of production: a folder on the node's disk,
// processes, and an HTTPS server.
type workerNode struct {
	config *Config
	pilot  Occupant
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

// Prepare satisfies Ground.
func (n *workerNode) Prepare(config *Config) (Footing, error) {
	n.config = config
	if err := hideFromPayloads(); err != nil {
		return Footing{}, err
	}
	if err := n.measureDisk(); err != nil {
		return Footing{}, err
	}
	var err error
	if n.walls, err = n.confinement(); err != nil {
		return Footing{}, err
	}
	if err := n.openCache(config.Log); err != nil {
		return Footing{}, err
	}
	address, err := node.AdvertiseAddress(config.Access.Queue[0], config.Advertise)
	if err != nil {
		return Footing{}, err
	}
	ports, err := node.ParsePortRange(config.PortRange)
	if err != nil {
		return Footing{}, err
	}
	if n.data, err = listenData(address, ports); err != nil {
		return Footing{}, err
	}
	return Footing{DataURL: "https://" + n.data.Addr().String(), Walls: n.walls}, nil
}

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

// Occupy satisfies Ground: it opens cache, work and log folders and what works
// on them.
func (n *workerNode) Occupy(o Occupant) (Equipment, error) {
	n.pilot = o
	if n.config.Folder == "" {
		n.config.Folder = DefaultFolder(os.Getenv, string(o.Pilot))
		n.temporary = true
	}
	if err := os.MkdirAll(n.config.Folder, 0o700); err != nil {
		return Equipment{}, fmt.Errorf("the pilot's folder: %w", err)
	}
	if err := n.openCache(o.Log); err != nil {
		return Equipment{}, err
	}
	if err := os.MkdirAll(n.config.Records, 0o700); err != nil { // so that it can be hidden
		o.Log.Warn("what runs on this node is not recorded", "error", err)
	}
	if ports := outside(o.Listens, n.config.PortRange); len(ports) > 0 {
		o.Log.Warn("no port is free where pilots listen: payloads of other pilots can connect to this one's", "range", n.config.PortRange, "ports", ports)
	}
	runnerConfig, err := n.execConfig(n.config.Folder, o.Listens, o.Log)
	if err != nil {
		return Equipment{}, err
	}
	if runnerConfig.PayloadUser != nil { // its work folders lie below
		if err := os.Chmod(n.config.Folder, 0o711); err != nil {
			return Equipment{}, fmt.Errorf("the pilot's folder: %w", err)
		}
	}
	if n.runner, err = exec.New(runnerConfig); err != nil {
		return Equipment{}, err
	}
	// The queue has checked that file:// copies lie in their sites' storage.
	n.storage = storage.NewClient(storage.Options{
		FileRoots: []string{"/"}, Secrets: func() task.StorageSecrets { return o.Settings().Secrets },
	})
	if n.temporary {
		removeDeadFolders(filepath.Dir(n.config.Folder), o.Log)
	}
	client := peer.NewClient(peer.ClientConfig{Own: o.Own, Verifier: o.Verifier, Site: o.Site, Clock: time.Now, DataURL: "https://" + n.data.Addr().String()})
	server := peer.NewServer(peer.ServerConfig{Cache: n.cache, Own: o.Own, Verifier: o.Verifier, Site: o.Site, Clock: time.Now, Log: o.Log})
	n.records = &recorded{Payloads: n.runner, folder: n.config.Records, log: o.Log, about: NodeRecord{
		Site: o.Site, Node: n.config.Host, Pilot: o.Pilot, BatchJob: n.config.BatchJob,
	}}
	return Equipment{
		Cache: n.cache, Payloads: n.records, Uploads: n,
		Fetcher: fetch.New(fetch.Config{
			Cache: n.cache, Peers: client, Storage: n.storage, Locator: o.Locator, Homes: o.Homes, Self: o.Peer, Site: o.Site,
			Settings: o.Settings, Cached: o.Cached, BadCopy: o.BadCopy, Log: o.Log,
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

// Put satisfies Uploads. What a storage element gets is there to stay, so the
// bytes are compared with their digest first; damaged ones leave the cache.
func (n *workerNode) Put(ctx context.Context, element, name string, key task.FileKey, perhapsThere bool) (string, error) {
	if err := n.cache.Verify(key); err != nil {
		return "", fmt.Errorf("read it from the cache: %w", err)
	}
	pinned, err := n.cache.Pin(key)
	if err != nil {
		return "", fmt.Errorf("read it from the cache: %w", err)
	}
	defer pinned.Release()
	file, err := os.Open(pinned.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	at, err := n.storage.Element(element)
	if err != nil {
		return "", err
	}
	if perhapsThere {
		if url, err := n.Find(ctx, element, name, pinned.Size, pinned.Digest); err == nil {
			return url, nil
		}
	}
	return at.Put(ctx, name, int64(pinned.Size), file)
}

// Find satisfies Uploads.
func (n *workerNode) Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (string, error) {
	return n.storage.Find(ctx, element, name, size, digest)
}

// Observe satisfies Ground.
func (n *workerNode) Observe() (now matcher.Conditions, stop string) {
	now = matcher.Conditions{Load: loadPerCPU(), FreeMemory: freeMemory(), Now: time.Now()}
	free, err := exec.FreeDisk(n.config.Folder)
	if err == nil && free < minimumDisk {
		stop = fmt.Sprintf("only %s are free on the disk of %s", free, n.config.Folder)
	}
	now.FreeDisk = free
	return now, stop
}

// Close satisfies Ground.
func (n *workerNode) Close() error {
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
