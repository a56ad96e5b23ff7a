package agent

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

var noHash = crypto.Hash(0)

// Agent is one running pilot.
type Agent struct {
	config  Config
	log     *slog.Logger
	site    task.Site
	self    matcher.Pilot
	ends    time.Time
	peer    task.PeerID
	dataURL string
	sandbox string // what confines payloads
	// temporary tells that the folder is this pilot\'s alone and goes with it.
	temporary bool
	contacts  []dht.Member  // known from the registration
	skew      time.Duration // of this node's clock against the queue's

	conn     *grpc.ClientConn
	queue    Queue
	node     *node.Node
	cache    *disk.Cache
	fetcher  *fetch.Fetcher
	storage  *storage.Client
	desk     *fetch.Desk
	homes    *fetch.HomesClient
	runner   *exec.Runner
	verifier *identity.Verifier
	aliases  *aliases
	uploads  *uploader
	serve    func(context.Context) error

	mailbox *mailbox
	group   *errgroup.Group
	context context.Context // of everything that runs until the farewell

	// Owned by the loop.
	worker   *pilot.Worker
	master   *pilot.Master
	jobs     map[task.AttemptID]*job
	drained  chan struct{}
	expelled chan error // the queue has revoked the membership

	mu       sync.Mutex
	settings task.SiteSettings
	claimed  *ClaimReply // last granted claim, until the mastership begins
}

// Run is a pilot from registration to farewell. It returns nil after an
// orderly end: lifetime over, drained, or ctx cancelled (as by SIGTERM).
func Run(ctx context.Context, config Config) error {
	if err := config.Complete(os.Getenv, time.Now()); err != nil {
		return err
	}
	a := newAgent(config)
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	return a.serveWhile(ctx, a.live)
}

func newAgent(config Config) *Agent {
	return &Agent{
		config: config, log: config.Log, site: config.Access.Site, ends: time.Now().Add(config.Lifetime),
		mailbox: newMailbox(), jobs: make(map[task.AttemptID]*job), drained: make(chan struct{}), expelled: make(chan error, 1), aliases: newAliases(),
	}
}

// listeners are open before the registration, because it names them.
type listeners struct {
	data net.Listener
	key  *identity.PilotKey
}

// listenData opens the first free port of the range for the data server.
func listenData(address netip.Addr, ports node.PortRange) (net.Listener, error) {
	var last error
	for port := ports.Low; ; port++ {
		listener, err := net.Listen("tcp", netip.AddrPortFrom(address, port).String())
		if err == nil {
			return listener, nil
		}
		last = err
		if port >= ports.High {
			return nil, fmt.Errorf("open the data port on %s, ports %s: %w", address, ports, last)
		}
	}
}

// open does everything up to membership, in the order in which each step
// needs the one before.
func (a *Agent) open(ctx context.Context) error {
	if err := hideFromPayloads(); err != nil {
		return err
	}
	l, err := a.listen()
	if err != nil {
		return err
	}
	membership, err := a.enroll(ctx, l)
	if err != nil {
		_ = l.data.Close()
		return err
	}
	a.log = a.log.With("site", a.site, "pilot", membership.Pilot)
	if err := a.become(l, membership); err != nil {
		_ = l.data.Close()
		a.takeBack(ctx, membership, err)
		return err
	}
	return nil
}

// become turns a registered pilot into a working one.
func (a *Agent) become(l *listeners, m Membership) error {
	if err := a.openFolders(l, m); err != nil {
		return err
	}
	return a.join(m)
}

// takeBack tells the queue that a pilot that has registered will not be: else
// it would stay in the lists until its declared end.
func (a *Agent) takeBack(ctx context.Context, m Membership, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	crowned := m.Joined.Master.Peer == a.peer
	if err := a.queue.Leave(ctx, Leaving{Reason: oneLine(cause.Error()), Resigns: crowned, Term: m.Joined.Term}); err != nil {
		a.log.Warn("the queue could not be told that this pilot does not work", "error", err)
	}
}

func (a *Agent) listen() (*listeners, error) {
	key, err := identity.NewPilotKey()
	if err != nil {
		return nil, err
	}
	verifier, err := identity.NewVerifier([]byte(a.config.Access.CAPEM))
	if err != nil {
		return nil, fmt.Errorf("the access file's authority: %w", err)
	}
	a.verifier = verifier
	address, err := node.AdvertiseAddress(a.config.Access.Queue[0], a.config.Advertise)
	if err != nil {
		return nil, err
	}
	ports, err := node.ParsePortRange(a.config.PortRange)
	if err != nil {
		return nil, err
	}
	a.node, err = node.Listen(node.Config{
		Site: a.site, Key: key, Verifier: verifier, Ports: ports, Advertise: address,
		Overlay: a.config.Overlay, Logger: a.log, Clock: time.Now,
	})
	if err != nil {
		return nil, err
	}
	data, err := listenData(address, ports)
	if err != nil {
		return nil, err
	}
	a.peer, a.dataURL = key.Peer(), "https://"+data.Addr().String()
	return &listeners{data: data, key: key}, nil
}

// enroll registers with the token and goes on with the membership
// certificate; the token is dropped.
func (a *Agent) enroll(ctx context.Context, l *listeners) (Membership, error) {
	access := a.config.Access
	first, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return Membership{}, err
	}
	conn, err := dial.Queue(access.Queue, first, func() string { return access.Token })
	if err != nil {
		return Membership{}, err
	}
	defer func() { _ = conn.Close() }()
	host, _ := os.Hostname()
	if err := a.measureDisk(); err != nil {
		return Membership{}, err
	}
	if a.sandbox, err = a.confinement(); err != nil {
		return Membership{}, err
	}
	membership, err := registerPatiently(ctx, conn, Registration{
		Site: a.site, Key: l.key, Addresses: a.node.Addresses(), DataURL: a.dataURL, Host: host,
		Resources: a.config.Resources, Slots: a.config.Slots, Features: a.config.Features,
		Sandbox: a.sandbox, Version: a.config.Version, Ends: a.ends, Log: a.log,
	})
	if err != nil {
		return Membership{}, err
	}
	access.Forget()
	own := &identity.MemberCertificate{DER: membership.Certificate, Key: l.key}
	second, err := identity.QueueClientTLS([]byte(access.CAPEM), "", own)
	if err != nil {
		return Membership{}, err
	}
	if a.conn, err = dial.Queue(access.Queue, second, nil); err != nil {
		return Membership{}, err
	}
	a.queue = &grpcQueue{site: a.site, client: pb.NewPilotServiceClient(a.conn)}
	a.settings = membership.Settings
	a.contacts = reachableContacts(membership.Joined)
	a.skew = time.Since(membership.QueueTime)
	a.self = matcher.Pilot{
		ID: membership.Pilot, Site: a.site, Host: host, Resources: a.config.Resources, Slots: a.config.Slots,
		Features: a.config.Features, Arch: runtime.GOARCH, OS: runtime.GOOS, Lifetime: a.config.Lifetime,
	}
	return membership, nil
}

// confinement says what confines payloads, or why nothing does. The queue is
// told at registration, when the pilot's folder has no name yet.
func (a *Agent) confinement() (string, error) {
	base, err := a.baseFolder()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(base, "check-")
	if err != nil {
		return "", fmt.Errorf("a folder to try the sandbox in: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	runner, err := exec.New(a.execConfig(folder))
	if err != nil {
		return "", err
	}
	defer func() { _ = runner.Close() }()
	confined, note := runner.Sandboxed()
	if !confined {
		note = "nothing: " + note
	}
	return note, nil
}

func (a *Agent) execConfig(folder string) exec.Config {
	config := exec.Config{
		WorkDir: filepath.Join(folder, "work"), LogDir: filepath.Join(folder, "logs"), Site: a.site,
		Readable: append([]string{filepath.Join(folder, "cache")}, a.config.Readable...), Writable: a.config.Writable,
		Hidden: a.config.Hidden, SharedMemory: a.config.SharedMemory, Logger: a.log,
	}
	if a.config.SandboxOff {
		config.Sandbox = exec.Off
	}
	return config
}

// measureDisk divides the disk between cache and work folders, before the
// registration names the latter.
func (a *Agent) measureDisk() error {
	folder, err := a.baseFolder()
	if err != nil {
		return err
	}
	if a.config.Capacity == 0 {
		capacity, err := disk.DefaultCapacity(folder)
		if err != nil {
			return err
		}
		a.config.Capacity = capacity
	}
	if a.config.Resources.Disk == 0 {
		free, err := freeDisk(folder)
		if err != nil {
			return err
		}
		a.config.Resources.Disk = max(0, free-a.config.Capacity)
	}
	return nil
}

// openFolders opens cache, work and log folders and what works on them.
func (a *Agent) openFolders(l *listeners, m Membership) error {
	if a.config.Folder == "" {
		a.config.Folder = DefaultFolder(os.Getenv, string(m.Pilot))
		a.temporary = true
	}
	if err := os.MkdirAll(a.config.Folder, 0o700); err != nil {
		return fmt.Errorf("the pilot's folder: %w", err)
	}
	var err error
	a.cache, err = disk.Open(disk.Config{Dir: a.config.Folder, Capacity: a.config.Capacity, Evicted: a.evicted, Log: a.log})
	if err != nil {
		return err
	}
	if a.runner, err = exec.New(a.execConfig(a.config.Folder)); err != nil {
		return err
	}
	// The queue has checked that file:// copies lie in their sites' storage.
	a.storage = storage.NewClient(storage.Options{FileRoots: []string{"/"}})
	a.uploads = newUploader(a)
	return a.openFetcher(l, m)
}

func (a *Agent) openFetcher(l *listeners, m Membership) error {
	own := identity.MemberCertificate{DER: m.Certificate, Key: l.key}
	self := fetch.Holder{Peer: a.peer, DataURL: a.dataURL}
	a.desk = fetch.NewDesk(func(to task.PeerID, data []byte) { a.node.Send(to, frame(frameHome, data)) })
	a.homes = fetch.NewHomes(self, a.homeOf, func(to task.PeerID, data []byte) { a.node.Send(to, frame(frameDesk, data)) })
	client := peer.NewClient(peer.ClientConfig{Own: own, Verifier: a.verifier, Site: a.site, Clock: time.Now, DataURL: a.dataURL})
	a.fetcher = fetch.New(fetch.Config{
		Cache: a.cache, Peers: client, Storage: a.storage, Locator: locator{a}, Homes: a.homes, Self: a.peer, Site: a.site,
		Settings: a.siteSettings, Cached: a.cached, Log: a.log,
	})
	server := peer.NewServer(peer.ServerConfig{Cache: a.cache, Own: own, Verifier: a.verifier, Site: a.site, Clock: time.Now, Log: a.log})
	a.serve = func(ctx context.Context) error { return server.Run(ctx, l.data) }
	return nil
}

// join makes the cores and enters the overlay.
func (a *Agent) join(m Membership) error {
	compiler := matcher.NewCompiler(compiledExpressions)
	evaluator := matcher.NewEvaluator(a.self, a.holds, compiler, matcher.NewCatalogue())
	a.worker = pilot.NewWorker(a.config.Roles, a.self, a.peer, evaluator)
	a.worker.Step(time.Now(), pilot.SiteChanged{Settings: a.siteSettings()})
	a.worker.Step(time.Now(), pilot.PilotChanged{Lifetime: a.config.Lifetime, Stop: "the self-check is not over"})
	a.master = pilot.NewMaster(a.config.Roles, a.self.ID, compiler)
	a.verifier.Deny(m.Denied)
	a.cacheChanged(nil) // its size, which the site's figures show
	joined := m.Joined
	joined.Self.Peer, joined.Self.Pilot = a.peer, m.Pilot
	joined.Self.Addresses, joined.Self.DataURL = a.node.Addresses(), a.dataURL
	return a.node.Join(m.Certificate, joined, a.hooks())
}

// compiledExpressions bounds the cache of compiled CEL expressions.
const compiledExpressions = 4096

// serveWhile runs everything until main returns. The overlay, the cache and
// the connection to the queue outlive ctx: the farewell needs them.
func (a *Agent) serveWhile(ctx context.Context, main func(context.Context) error) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.group, a.context = errgroup.WithContext(inner)
	service := func(name string, run func(context.Context) error) {
		a.group.Go(func() error {
			if err := run(a.context); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	service("overlay", a.node.Run)
	service("data server", a.serve)
	service("fetcher", a.fetcher.Run)
	service("desk", a.desk.Run)
	service("uploads", a.uploads.run)
	service("loop", a.loop)
	a.group.Go(func() error {
		defer stop()
		return main(ctx)
	})
	return a.group.Wait()
}

func (a *Agent) close() {
	if a.runner != nil {
		_ = a.runner.Close()
	}
	if a.node != nil {
		_ = a.node.Close()
	}
	if a.cache != nil {
		_ = a.cache.Close()
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
	if a.storage != nil {
		a.storage.Close()
	}
	if a.temporary {
		_ = os.RemoveAll(a.config.Folder)
	}
}

// loop is the one goroutine that owns the cores.
func (a *Agent) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.mailbox.wake:
			for _, work := range a.mailbox.take() {
				work()
			}
		case <-timer.C:
			a.stepWorker(pilot.Tick{})
			a.stepMaster(pilot.Tick{})
		}
		next := time.Hour
		for _, deadline := range []time.Time{a.worker.Deadline(), a.master.Deadline()} {
			if !deadline.IsZero() {
				next = min(next, time.Until(deadline))
			}
		}
		timer.Reset(max(next, 0))
	}
}

func (a *Agent) siteSettings() task.SiteSettings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}
