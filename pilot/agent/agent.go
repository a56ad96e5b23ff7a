package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/internal/loop"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Agent is one running pilot: it makes the parts, runs them and ends them.
type Agent struct {
	*shell

	config   Config
	checking bool // it only looks whether the node is fit
	ends     time.Time
	self     matcher.Pilot
	ground   Ground
	footing  Footing
	key      *identity.PilotKey
	verifier *identity.Verifier
	node     *node.Node
	conn     *grpc.ClientConn
	queue    Queue
	settings *siteSettings
	network  *network
	reach    *reach
	roles    *roles
	serve    func(context.Context) error
	scrub    func(context.Context) error // or nil
	recorder recorder
	idled    chan struct{} // something is in it when the pilot was idle for too long
}

// Run is a pilot from registration to farewell. It returns nil after an
// orderly end: lifetime over, drained, or ctx cancelled (as by SIGTERM).
func Run(ctx context.Context, config Config) error {
	return run(ctx, config, false, (*Agent).live)
}

// run makes a pilot and has it do something as a member of its site.
func run(ctx context.Context, config Config, checking bool, main func(*Agent, context.Context) error) error {
	if err := config.Complete(os.Getenv, time.Now()); err != nil {
		return err
	}
	a := &Agent{
		shell:  &shell{log: config.Log, loop: loop.New(), expelled: make(chan error, 1)},
		config: config, checking: checking, ends: time.Now().Add(config.Lifetime), settings: &siteSettings{}, idled: make(chan struct{}, 1),
	}
	if a.ground = config.Ground; a.ground == nil {
		a.ground = &workerNode{}
	}
	if a.config.Observer == nil {
		a.config.Observer = nobody{}
	}
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	return a.serveWhile(ctx, func(ctx context.Context) error { return main(a, ctx) })
}

// open does everything up to membership, in the order in which each step
// needs the one before.
func (a *Agent) open(ctx context.Context) error {
	if err := a.recorder.open(a.config.Journal); err != nil {
		return err
	}
	if err := a.listen(); err != nil {
		return err
	}
	membership, err := a.enroll(ctx)
	if err != nil {
		return err
	}
	a.log = a.log.With("site", a.self.Site, "pilot", membership.Pilot)
	if err := a.become(membership); err != nil {
		a.takeBack(ctx, membership, err)
		return err
	}
	return nil
}

// become turns a registered pilot into a working one.
func (a *Agent) become(m Membership) error {
	if err := a.occupy(m); err != nil {
		return err
	}
	return a.join(m)
}

// takeBack tells the queue that a pilot that has registered will not be: else
// it would stay in the lists until its declared end.
func (a *Agent) takeBack(ctx context.Context, m Membership, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	crowned := m.Joined.Master.Peer == a.key.Peer()
	if err := a.queue.Leave(ctx, Leaving{Reason: oneLine(cause.Error()), Resigns: crowned, Term: m.Joined.Term}); err != nil {
		a.log.Warn("the queue could not be told that this pilot does not work", "error", err)
	}
}

// listen opens both ports: the registration names them.
func (a *Agent) listen() (err error) {
	if a.footing, err = a.ground.Prepare(&a.config); err != nil {
		return err
	}
	if a.key, err = identity.NewPilotKey(); err != nil {
		return err
	}
	if a.verifier, err = identity.NewVerifier([]byte(a.config.Access.CAPEM)); err != nil {
		return fmt.Errorf("the access file's authority: %w", err)
	}
	address, err := node.AdvertiseAddress(a.config.Access.Queue[0], a.config.Advertise)
	if err != nil {
		return err
	}
	ports, err := node.ParsePortRange(a.config.PortRange)
	if err != nil {
		return err
	}
	a.node, err = node.Listen(node.Config{
		Site: a.config.Access.Site, Key: a.key, Verifier: a.verifier, Ports: ports, Advertise: address,
		Carrier: a.config.Carrier, Overlay: a.config.Overlay, Logger: a.log, Clock: time.Now,
	})
	return err
}

// enroll registers with the token and goes on with the membership
// certificate; the token is dropped.
func (a *Agent) enroll(ctx context.Context) (Membership, error) {
	access := a.config.Access
	first, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return Membership{}, err
	}
	conn, err := dial.Queue(access.Queue, first, func() string { return access.Token }, a.config.ToQueue...)
	if err != nil {
		return Membership{}, err
	}
	defer func() { _ = conn.Close() }()
	walls := a.footing.Walls
	membership, err := registerPatiently(ctx, conn, a.key, &pb.RegisterRequest{
		Site: string(access.Site), Check: a.checking, OverlayProtocol: node.Protocol, Addresses: a.node.Addresses(), DataUrl: a.footing.DataURL,
		Host: a.config.Host, Resources: taskpb.Resources(a.config.Resources), Slots: int32(a.config.Slots), Features: a.config.Features,
		Confinement: int32(walls.Confinement), Walls: walls.Up, Sandbox: walls.Note,
		Version: a.config.Version, Ends: timestamppb.New(a.ends), BatchJob: a.config.BatchJob,
	}, a.log)
	if err != nil {
		return Membership{}, err
	}
	access.Forget()
	own := &identity.MemberCertificate{DER: membership.Certificate, Key: a.key}
	authorities := []byte(cmp.Or(membership.Authorities, access.CAPEM)) // a queue of the release before names none
	if err := a.verifier.Trust(authorities); err != nil {
		return Membership{}, err
	}
	second, err := identity.QueueClientTLS(authorities, "", own)
	if err != nil {
		return Membership{}, err
	}
	if a.conn, err = dial.Queue(access.Queue, second, nil, a.config.ToQueue...); err != nil {
		return Membership{}, err
	}
	a.queue = &grpcQueue{site: access.Site, client: pb.NewPilotServiceClient(a.conn)}
	a.settings.set(membership.Settings)
	a.self = matcher.Pilot{
		ID: membership.Pilot, Site: access.Site, Host: a.config.Host, Resources: a.config.Resources, Slots: a.config.Slots,
		Features: a.config.Features, Arch: runtime.GOARCH, OS: runtime.GOOS, Lifetime: a.config.Lifetime,
		CoreSpeed: coreSpeed(), Walls: task.Walls{Confinement: a.footing.Walls.Confinement, Up: a.footing.Walls.Up},
	}
	return membership, nil
}

// occupy opens what the pilot works with, and makes the parts.
func (a *Agent) occupy(m Membership) error {
	self := fetch.Holder{Peer: a.key.Peer(), DataURL: a.footing.DataURL}
	a.network = newNetwork(a.shell, a.node, self, a.settings)
	r := &roles{
		shell: a.shell, self: a.self, ends: a.ends, settings: a.settings, network: a.network,
		own:      identity.MemberCertificate{DER: m.Certificate, Key: a.key},
		observer: a.config.Observer, lists: lists{begun: make(map[uint64]time.Time)},
		recorder: &a.recorder, draining: draining{over: make(chan struct{})},
	}
	a.roles = r
	a.reach = &reach{
		shell: a.shell, queue: a.queue, network: a.network, settings: a.settings, settle: r.settle, dataURL: self.DataURL,
		contacts: append([]dht.Member{m.Joined.Master}, m.Joined.Contacts...), checking: a.checking,
	}
	r.reach = a.reach
	r.claims = &claims{shell: a.shell, queue: a.queue, settle: r.settle, refuse: func(why string) { r.officeEvent(office.ClaimRefused{Why: why}) }}
	r.files = &files{shell: a.shell, network: a.network, aliases: newAliases(), worker: r.workerEvents, changed: r.cacheChanged}
	equipment, err := a.ground.Occupy(Occupant{
		Site: a.self.Site, Pilot: m.Pilot, Peer: self.Peer, Own: r.own, Verifier: a.verifier,
		Cached: r.files.cached, Evicted: r.files.evicted, Brought: r.files.announce, BadCopy: r.files.badCopy, Locator: a.network, Homes: a.network.homes,
		Settings: a.settings.get, Skew: time.Since(m.QueueTime), Listens: a.network.ports(self.DataURL), Ports: a.reach.checkPorts, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.serve, a.scrub = equipment.Serve, equipment.Scrub
	r.files.cache, r.files.fetcher = equipment.Cache, equipment.Fetcher
	r.uploads = newUploader(a.shell, m.Pilot, equipment.Cache, equipment.Uploads, a.settings, r.workerEvents)
	r.files.uploads = r.uploads
	r.payloads = &payloads{
		shell: a.shell, files: r.files, runner: equipment.Payloads, worker: r.workerEvents, inHand: make(map[task.AttemptID]*payload),
	}
	r.queue = &queueLink{shell: a.shell, queue: a.queue, fetcher: equipment.Fetcher, settle: r.settle}
	return nil
}

// join makes the cores and enters the overlay.
func (a *Agent) join(m Membership) error {
	r, settings := a.roles, a.settings.get()
	compiler := matcher.NewCompiler(compiledExpressions)
	core := worker.New(worker.Config{}, a.self, a.network.peer, matcher.NewEvaluator(a.self, r.files.cachedSize, compiler))
	core.Step(time.Now(), worker.SiteChanged{Settings: settings})
	core.AcceptBy(a.config.acceptance)
	core.Step(time.Now(), worker.PilotChanged{Lifetime: a.config.Lifetime, Checking: true})
	r.worker, r.master, r.office = core, master.New(master.Config{}, a.self.ID, compiler), office.New(a.network.peer, settings)
	header := journal.Header{Version: a.config.Version, Site: a.self.Site, Pilot: a.self.ID, Config: master.DefaultConfig()}
	if err := a.recorder.begin(header); err != nil {
		return err
	}
	a.verifier.Deny(m.Denied)
	r.files.note(nil) // its size, which the site's figures show
	joined := m.Joined
	joined.Self.Peer, joined.Self.Pilot = a.network.peer, m.Pilot
	joined.Self.Addresses, joined.Self.DataURL = a.node.Addresses(), a.footing.DataURL
	a.network.joining = func() error { return a.node.Join(m.Certificate, joined, r.hooks()) }
	r.officeEvent(office.Began{})
	if settings.Mode == task.ModeIsolated {
		return nil
	}
	return a.network.enter()
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
	service("overlay", a.network.run)
	service("data server", a.serve)
	service("fetcher", a.roles.files.fetcher.Run)
	service("desk", a.network.desk.Run)
	service("uploads", a.roles.uploads.run)
	if a.scrub != nil {
		service("scrub", a.scrub)
	}
	service("loop", func(ctx context.Context) error {
		return a.loop.Run(ctx, a.roles.tick, a.roles.worker.Deadline, a.roles.master.Deadline, a.roles.office.Deadline)
	})
	a.group.Go(func() error {
		defer stop()
		return main(ctx)
	})
	return a.group.Wait()
}

func (a *Agent) close() {
	defer a.recorder.close()
	if err := a.ground.Close(); err != nil {
		a.log.Warn("the pilot leaves something behind", "error", err)
	}
	if a.node != nil {
		_ = a.node.Close()
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
}
