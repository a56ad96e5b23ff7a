package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Agent is one pilot: it makes the parts, runs them and ends them. Enroll makes it; Work
// or TakeBack, called once, ends it.
type Agent struct {
	*shell

	config     Config
	at         Place
	self       matcher.Pilot
	key        *identity.PilotKey
	verifier   *identity.Verifier
	node       *node.Node
	conn       *grpc.ClientConn
	queue      Queue
	membership Membership
	skew       time.Duration // from the queue's clock to this node's
	settings   *siteSettings
	network    *network
	reach      *reach
	roles      *roles
	parts      Parts
	recorder   recorder
	idled      chan struct{} // something is in it when the pilot was idle for too long
}

// Enroll opens the overlay's port and registers a pilot with the queue. Its parts are
// made with its Enrollment: then it works, or it is taken back if that fails.
func Enroll(ctx context.Context, config Config, at Place) (*Agent, error) {
	if err := config.Complete(); err != nil {
		return nil, err
	}
	a := &Agent{
		shell:  &shell{log: config.Log, loop: loop.New(), expelled: make(chan error, 1)},
		config: config, at: at, settings: &siteSettings{}, idled: make(chan struct{}, 1),
	}
	if err := a.enroll(ctx); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// Enrollment returns what the pilot's parts are made with.
func (a *Agent) Enrollment() Enrollment {
	r := a.roles
	return Enrollment{
		Site: a.self.Site, Pilot: a.self.ID, Peer: a.network.peer, Own: r.own, Verifier: a.verifier, Addresses: a.node.Addresses(), Skew: a.skew,
		Settings: a.settings.get, CheckPorts: a.reach.checkPorts, Locator: a.network, Homes: a.network.homes,
		Cached: r.files.cached, Evicted: r.files.evicted, Brought: r.files.announce, BadCopy: r.files.badCopy, Log: a.log,
	}
}

// Work joins the site, works until the end of the pilot's life, and says farewell. It
// returns nil after an orderly end: lifetime over, drained, or ctx cancelled (as by
// SIGTERM). A pilot that only checks leaves after its check.
func (a *Agent) Work(ctx context.Context, parts Parts) error {
	if err := a.join(parts); err != nil {
		return a.TakeBack(ctx, err)
	}
	defer a.close()
	if a.config.OnlyChecks {
		return a.serveWhile(ctx, a.visit)
	}
	return a.serveWhile(ctx, a.live)
}

// TakeBack ends a pilot whose parts cannot be made, and returns why that is. The queue is
// told: else the pilot would stay in its lists until its declared end.
func (a *Agent) TakeBack(ctx context.Context, why error) error {
	defer a.close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	joined := a.membership.Joined
	crowned := joined.Master.Peer == a.key.Peer()
	if err := a.queue.Leave(ctx, Leaving{Reason: oneLine(why.Error()), Resigns: crowned, Term: joined.Term}); err != nil {
		a.log.Warn("the queue could not be told that this pilot does not work", "error", err)
	}
	return why
}

// enroll does everything up to membership, in the order in which each step
// needs the one before.
func (a *Agent) enroll(ctx context.Context) error {
	if err := a.recorder.open(a.config.Journal); err != nil {
		return err
	}
	if err := a.listen(); err != nil {
		return err
	}
	if err := a.register(ctx); err != nil {
		return err
	}
	a.log = a.log.With("site", a.self.Site, "pilot", a.self.ID)
	a.connect()
	return nil
}

// listen opens the overlay's port: the registration names it.
func (a *Agent) listen() (err error) {
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

// register registers with the token and goes on with the membership
// certificate; the token is dropped.
func (a *Agent) register(ctx context.Context) error {
	access := a.config.Access
	first, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return err
	}
	conn, err := dial.Queue(access.Queue, first, func() string { return access.Token }, a.config.ToQueue...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	walls := a.at.Walls
	m, err := registerPatiently(ctx, conn, a.key, &pb.RegisterRequest{
		Site: string(access.Site), Check: a.config.OnlyChecks, OverlayProtocol: node.Protocol, Addresses: a.node.Addresses(), DataUrl: a.at.DataURL,
		Host: a.config.Host, Resources: taskpb.Resources(a.config.Resources), Slots: int32(a.config.Slots), Features: a.config.Features,
		Confinement: int32(walls.Confinement), Walls: walls.Up, Sandbox: walls.Note,
		Version: a.config.Version, Ends: timestamppb.New(a.config.Ends()), BatchJob: a.config.BatchJob,
	}, a.log)
	if err != nil {
		return err
	}
	a.skew = time.Since(m.QueueTime)
	access.Forget()
	own := &identity.MemberCertificate{DER: m.Certificate, Key: a.key}
	authorities := []byte(cmp.Or(m.Authorities, access.CAPEM)) // a queue of the release before names none
	if err := a.verifier.Trust(authorities); err != nil {
		return err
	}
	second, err := identity.QueueClientTLS(authorities, "", own)
	if err != nil {
		return err
	}
	if a.conn, err = dial.Queue(access.Queue, second, nil, a.config.ToQueue...); err != nil {
		return err
	}
	a.queue = &grpcQueue{site: access.Site, client: pb.NewPilotServiceClient(a.conn)}
	a.settings.set(m.Settings)
	a.membership = m
	a.self = matcher.Pilot{
		ID: m.Pilot, Site: access.Site, Host: a.config.Host, Resources: a.config.Resources, Slots: a.config.Slots,
		Features: a.config.Features, Arch: runtime.GOARCH, OS: runtime.GOOS, Lifetime: a.config.Lifetime,
		CoreSpeed: a.config.CoreSpeed, Walls: task.Walls{Confinement: walls.Confinement, Up: walls.Up},
	}
	return nil
}

// connect makes what the pilot does itself, and connects it with the overlay and the queue.
func (a *Agent) connect() {
	m, self := a.membership, fetch.Holder{Peer: a.key.Peer(), DataURL: a.at.DataURL}
	a.network = newNetwork(a.shell, a.node, self, a.settings)
	r := &roles{
		shell: a.shell, self: a.self, ends: a.config.Ends(), settings: a.settings, network: a.network,
		own:    identity.MemberCertificate{DER: m.Certificate, Key: a.key},
		events: a.config.Events, lists: lists{begun: make(map[uint64]time.Time)},
		recorder: &a.recorder, draining: draining{over: make(chan struct{})},
	}
	a.roles = r
	a.reach = &reach{
		shell: a.shell, queue: a.queue, network: a.network, settings: a.settings, settle: r.settle, dataURL: self.DataURL,
		contacts: append([]dht.Member{m.Joined.Master}, m.Joined.Contacts...), checking: a.config.OnlyChecks,
	}
	r.reach = a.reach
	r.claims = &claims{shell: a.shell, queue: a.queue, settle: r.settle, refuse: func(why string) { r.officeEvent(office.ClaimRefused{Why: why}) }}
	r.files = &files{shell: a.shell, network: a.network, aliases: newAliases(), worker: r.workerEvents, changed: r.cacheChanged}
}

// equip has the pilot work with its parts.
func (a *Agent) equip(parts Parts) {
	r := a.roles
	a.parts = parts
	r.files.cache, r.files.fetcher = parts.Cache, parts.Fetcher
	r.uploads = newUploader(a.shell, a.self.ID, parts.Cache, parts.Uploads, a.settings, r.workerEvents)
	r.files.uploads = r.uploads
	r.payloads = &payloads{
		shell: a.shell, files: r.files, runner: parts.Payloads, worker: r.workerEvents, inHand: make(map[task.AttemptID]*payload),
	}
	r.queue = &queueLink{shell: a.shell, queue: a.queue, fetcher: parts.Fetcher, settle: r.settle}
}

// join takes the parts, makes the cores and enters the overlay.
func (a *Agent) join(parts Parts) error {
	a.equip(parts)
	r, m, settings := a.roles, a.membership, a.settings.get()
	compiler := matcher.NewCompiler(compiledExpressions)
	core := worker.New(worker.Config{}, a.self, a.network.peer, matcher.NewEvaluator(a.self, r.files.cachedSize, compiler))
	core.Step(time.Now(), worker.SiteChanged{Settings: settings})
	if policy := a.config.Acceptance; policy != nil {
		core.AcceptBy(policy)
	}
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
	joined.Self.Addresses, joined.Self.DataURL = a.node.Addresses(), a.at.DataURL
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
	service("data server", a.parts.Serve)
	service("fetcher", a.roles.files.fetcher.Run)
	service("desk", a.network.desk.Run)
	service("uploads", a.roles.uploads.run)
	if a.parts.Scrub != nil {
		service("scrub", a.parts.Scrub)
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

// close gives up what Enroll has opened.
func (a *Agent) close() {
	defer a.recorder.close()
	if a.node != nil {
		_ = a.node.Close()
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
}
