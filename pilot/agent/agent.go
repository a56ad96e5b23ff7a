package agent

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

var noHash = crypto.Hash(0)

// Agent is one running pilot.
type Agent struct {
	config   Config
	log      *slog.Logger
	site     task.Site
	self     matcher.Pilot
	ends     time.Time
	checking bool // it only looks whether the node is fit
	peer     task.PeerID
	dataURL  string
	sandbox  string        // what confines payloads
	contacts []dht.Member  // known from the registration
	skew     time.Duration // of this node's clock against the queue's

	key         *identity.PilotKey
	certificate []byte // of the membership, DER

	ground   Ground
	conn     *grpc.ClientConn
	queue    Queue
	node     *node.Node
	cache    Cache
	fetcher  Fetcher
	payloads Payloads
	store    Uploads
	serve    func(context.Context) error
	scrub    func(context.Context) error // or nil
	desk     *fetch.Desk
	homes    *fetch.HomesClient
	relays   relays
	verifier *identity.Verifier
	aliases  *aliases
	uploads  *uploader

	observer Observer
	mailbox  *mailbox
	group    *errgroup.Group
	context  context.Context // of everything that runs until the farewell

	// Owned by the loop.
	worker   *worker.Worker
	master   *master.Master
	office   *master.Office
	joining  func() error  // joins the overlay; nil when that was done
	joined   chan struct{} // closed when that was done
	tried    uint64        // the last trial of a fallen-back site that was begun
	load     float64       // of the node per CPU, when it was last looked at
	jobs     map[task.AttemptID]*job
	casts    map[uint64]time.Time // when broadcasts of the list were begun
	whole    encodedList          // the last one that a pilot was sent
	silence  silence              // of the queue towards this master
	unknown  bool                 // that outcomes were refused as unknown was said
	briefed  map[task.PeerID]bool // members that this master has told the settings of the site
	recorder recorder             // of the master's core
	idle     idleness
	idled    chan struct{} // something is in it when the pilot was idle for too long
	drained  chan struct{}
	ordered  string     // why its master has told it to drain; set before drained is closed
	expelled chan error // the queue has revoked the membership

	mu           sync.Mutex
	settings     task.SiteSettings
	settingsCame time.Time
	claimed      *ClaimReply // last granted claim, until the mastership begins
	refused      task.Term   // in office when the last claim was refused
	unasked      bool        // the last claim did not reach the queue
	cutOff       cutOff
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
	a := &Agent{
		config: config, log: config.Log, site: config.Access.Site, ends: time.Now().Add(config.Lifetime),
		mailbox: newMailbox(), jobs: make(map[task.AttemptID]*job), casts: make(map[uint64]time.Time), briefed: make(map[task.PeerID]bool), drained: make(chan struct{}), idle: idleness{most: config.Idle}, idled: make(chan struct{}, 1), joined: make(chan struct{}), expelled: make(chan error, 1), aliases: newAliases(),
	}
	if a.ground = config.Ground; a.ground == nil {
		a.ground = &workerNode{agent: a}
	}
	if a.observer = config.Observer; a.observer == nil {
		a.observer = nobody{}
	}
	return a
}

// open does everything up to membership, in the order in which each step
// needs the one before.
func (a *Agent) open(ctx context.Context) error {
	if err := a.openJournal(); err != nil {
		return err
	}
	if err := a.listen(); err != nil {
		return err
	}
	membership, err := a.enroll(ctx)
	if err != nil {
		return err
	}
	a.log = a.log.With("site", a.site, "pilot", membership.Pilot)
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
	crowned := m.Joined.Master.Peer == a.peer
	if err := a.queue.Leave(ctx, Leaving{Reason: oneLine(cause.Error()), Resigns: crowned, Term: m.Joined.Term}); err != nil {
		a.log.Warn("the queue could not be told that this pilot does not work", "error", err)
	}
}

// listen opens both ports: the registration names them.
func (a *Agent) listen() error {
	footing, err := a.ground.Prepare(&a.config)
	if err != nil {
		return err
	}
	a.dataURL, a.sandbox = footing.DataURL, footing.Sandbox
	if a.key, err = identity.NewPilotKey(); err != nil {
		return err
	}
	a.peer = a.key.Peer()
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
		Site: a.site, Key: a.key, Verifier: a.verifier, Ports: ports, Advertise: address,
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
	membership, err := registerPatiently(ctx, conn, Registration{
		Site: a.site, Key: a.key, Addresses: a.node.Addresses(), DataURL: a.dataURL, Host: a.config.Host,
		Resources: a.config.Resources, Slots: a.config.Slots, Features: a.config.Features,
		Sandbox: a.sandbox, Version: a.config.Version, Ends: a.ends, Check: a.checking, BatchJob: a.config.BatchJob, Log: a.log,
	})
	if err != nil {
		return Membership{}, err
	}
	access.Forget()
	own := &identity.MemberCertificate{DER: membership.Certificate, Key: a.key}
	second, err := identity.QueueClientTLS([]byte(access.CAPEM), "", own)
	if err != nil {
		return Membership{}, err
	}
	if a.conn, err = dial.Queue(access.Queue, second, nil, a.config.ToQueue...); err != nil {
		return Membership{}, err
	}
	a.queue = &grpcQueue{site: a.site, client: pb.NewPilotServiceClient(a.conn)}
	a.certificate, a.settings = membership.Certificate, membership.Settings
	a.contacts = reachableContacts(membership.Joined)
	a.skew = time.Since(membership.QueueTime)
	a.self = matcher.Pilot{
		ID: membership.Pilot, Site: a.site, Host: a.config.Host, Resources: a.config.Resources, Slots: a.config.Slots,
		Features: a.config.Features, Arch: runtime.GOARCH, OS: runtime.GOOS, Lifetime: a.config.Lifetime,
		CoreSpeed: coreSpeed(),
	}
	return membership, nil
}

// occupy opens what the pilot works with.
func (a *Agent) occupy(m Membership) error {
	self := fetch.Holder{Peer: a.peer, DataURL: a.dataURL}
	a.desk = fetch.NewDesk(func(to task.PeerID, data []byte) { a.node.Send(to, frame(frameHome, data)) })
	a.desk.Redirect = a.node.Redirect
	a.homes = fetch.NewHomes(self, a.homeOf, func(to task.PeerID, data []byte) { a.node.Send(to, frame(frameDesk, data)) })
	a.uploads = newUploader(a)
	equipment, err := a.ground.Occupy(Occupant{
		Site: a.site, Pilot: m.Pilot, Peer: a.peer, Cached: a.cached, Evicted: a.evicted, BadCopy: a.badCopy,
		Locator: locator{a}, Homes: a.homes, Settings: a.siteSettings,
	})
	if err != nil {
		return err
	}
	a.cache, a.fetcher, a.payloads, a.store = equipment.Cache, equipment.Fetcher, equipment.Payloads, equipment.Uploads
	a.serve, a.scrub = equipment.Serve, equipment.Scrub
	return nil
}

// join makes the cores and enters the overlay.
func (a *Agent) join(m Membership) error {
	compiler := matcher.NewCompiler(compiledExpressions)
	evaluator := matcher.NewEvaluator(a.self, a.holds, compiler)
	a.worker = worker.New(worker.Config{}, a.self, a.peer, evaluator)
	a.worker.Step(time.Now(), worker.SiteChanged{Settings: a.siteSettings()})
	a.worker.AcceptBy(a.config.acceptance)
	a.worker.Step(time.Now(), worker.PilotChanged{Lifetime: a.config.Lifetime, Checking: true})
	a.master = master.New(master.Config{}, a.self.ID, compiler)
	if err := a.beginJournal(a.self.ID); err != nil {
		return err
	}
	a.office = master.NewOffice(a.peer)
	a.verifier.Deny(m.Denied)
	a.cacheChanged(nil) // its size, which the site's figures show
	joined := m.Joined
	joined.Self.Peer, joined.Self.Pilot = a.peer, m.Pilot
	joined.Self.Addresses, joined.Self.DataURL = a.node.Addresses(), a.dataURL
	a.joining = func() error { return a.node.Join(m.Certificate, joined, a.hooks()) }
	mode := a.siteSettings().Mode
	trial := a.siteSettings().Trial
	a.mailbox.post(func() {
		a.setMode(mode, mode)
		a.heedTrial(trial)
	})
	if mode == task.ModeIsolated {
		return nil
	}
	err := a.joining()
	a.joining = nil
	close(a.joined)
	return err
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
	service("overlay", a.runOverlay)
	service("data server", a.serve)
	service("fetcher", a.fetcher.Run)
	service("desk", a.desk.Run)
	service("uploads", a.uploads.run)
	if a.scrub != nil {
		service("scrub", a.scrub)
	}
	service("loop", a.loop)
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
			a.stepWorker(message.Tick{})
			a.stepMaster(message.Tick{})
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
