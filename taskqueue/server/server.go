package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/connlimit"
	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// Server is one queue server. New prepares it, Run serves. It is safe for
// concurrent use.
type Server struct {
	config Config
	doubts chan struct{} // holds a place for each look at a copy that people doubt
	turns  *turns

	listening
	access    access
	secrets   secrets
	masters   masters
	watches   watches
	relays    relays
	shown     shown
	requests  *requests
	admission admission
	refusals  *refusals
	facts     facts
	health    healthState
	room      room
	stopping  chan struct{} // closed when the end begins
}

// listening is where a server is reached.
type listening struct {
	grpcListener net.Listener
	strangers    *connlimit.Listener // grpcListener within limits
	httpListener net.Listener
	addresses    Addresses
	announced    bool // run.json is this server's
}

// New opens the store, listens, and makes what a first start needs: the VO's
// authority and the access files. No call is served before Run. Whoever does
// not call Run calls Close.
//
// Errors: a folder in use by another queue, a damaged store, an address in
// use, ErrDiskFull of package taskqueue where the store cannot even be opened
// for lack of space, an access file that others can read, a folder that shows a VO and has
// lost its database.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	if config.DataDir == "" {
		return nil, errors.New("start the queue: no data folder given")
	}
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("start the queue: %w", err)
	}
	s := &Server{config: config, turns: &turns{closed: auditlog.In(config.DataDir), commits: newCommitTimes()}, requests: newRequests(), stopping: make(chan struct{}), doubts: make(chan struct{}, doubtsAtOnce)}
	// Signs of life are written for all sites together, by Persist.
	config.Rules.Site.MarkEvery = max(serving.MarkEvery(config.Rules), 2*config.Timing.Persist)
	s.turns.failed, s.turns.follow = s.noteFull, s.carryOut
	s.turns.rules = taskqueue.NewRules(config.Rules)
	s.secrets = secrets{turns: s.turns, config: &s.config}
	s.access.turns, s.access.config, s.access.addresses = s.turns, &s.config, &s.addresses
	s.refusals = newRefusals(config.Log)
	s.admission = admission{access: &s.access, refusals: s.refusals, shares: &s.turns.shares}
	s.shown.events, s.shown.counts = newEvents(config.Log), newAttemptCounts()
	s.shown.page = page.New(newPageBackend(s))
	s.shown.steps = newStepSums()
	s.shown.factories.init()
	s.masters = s.newMasters()
	s.health.server = health.NewServer()
	if err := s.prepare(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("start the queue: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context) (err error) {
	switch s.config.Store {
	case StoreSQLite:
		if err := s.access.checkFolder(); err != nil {
			return err
		}
		if s.turns.store, err = sqlite.Open(s.config.DataDir); err == nil { // nobody else writes here now
			err = durable.Tidy(s.config.DataDir)
		}
	case StoreMemory:
		s.turns.store = mem.New()
	default:
		err = fmt.Errorf("store %q: one of %s, %s", s.config.Store, StoreSQLite, StoreMemory)
	}
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.loadClock, s.audits().setAside, s.giveToAdmin, s.access.recall, s.access.reloadAccess, s.access.loadAuthority, s.listen, s.prepareFiles, s.access.openIssuers, s.lookAgain, s.secrets.read,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listen opens both listeners and issues the certificate for them.
func (s *Server) listen(context.Context) (err error) {
	if s.grpcListener, err = listenAt("gRPC", s.config.Listen, "--listen"); err != nil {
		return err
	}
	s.strangers = connlimit.New(s.grpcListener, connectionLimits(s.config.Descriptors), connlimit.Strangers{Time: s.config.Timing.Stranger, Bytes: strangerBytes})
	if s.httpListener, err = listenAt("HTTPS", s.config.ListenHTTP, "--listen-http"); err != nil {
		return err
	}
	if s.addresses.Access, err = reachable(s.grpcListener, s.config.Advertise); err != nil {
		return err
	}
	web, err := reachable(s.httpListener, nil)
	if err != nil {
		return err
	}
	s.addresses.GRPC, s.addresses.HTTP = s.addresses.Access[0], web[0]
	return s.access.renewCertificate(time.Now())
}

func listenAt(what, address, flag string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %w: stop what listens there (`ss -ltnp` names it), or give another %s", what, err, flag)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: give another %s", what, err, flag)
	}
	return listener, nil
}

// Addresses returns where the server is reached.
func (s *Server) Addresses() Addresses { return s.addresses }

// AdminAccess is the path of the operator's access file.
func (s *Server) AdminAccess() string { return s.access.accessPath(identity.RoleAdmin, "") }

// SubmitAccess is the path of the workflow managers' access file.
func (s *Server) SubmitAccess() string { return s.access.accessPath(identity.RoleSubmit, "") }

// Close gives up a server that does not run. Run closes by itself.
func (s *Server) Close() error {
	var errs []error
	for _, listener := range []net.Listener{s.grpcListener, s.httpListener} {
		if listener != nil {
			if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.turns.store != nil {
		errs = append(errs, s.turns.store.Close())
	}
	if s.announced {
		if err := os.Remove(filepath.Join(s.config.DataDir, runFile)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err) // it may not have been written, on a full disk
		}
	}
	return errors.Join(errs...)
}

// healthState is what the health service says: whether the store takes writes.
type healthState struct{ server *health.Server }

// datedHealth tells with its answer what time it is at the queue (RFC 9110, Date), for
// `pilotage doctor`.
type datedHealth struct{ *health.Server }

// Check satisfies healthpb.HealthServer.
func (h datedHealth) Check(ctx context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs("date", time.Now().UTC().Format(http.TimeFormat))); err != nil {
		return nil, err
	}
	return h.Server.Check(ctx, in)
}

// tellHealth says by the health service what /healthz says.
func (s *Server) tellHealth() {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if s.ailing() == "" {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.server.SetServingStatus("", state)
}

// ailing says why the queue does not take all writes; "" if it does.
func (s *Server) ailing() string { return cmp.Or(s.turns.clock.failing(), s.room.lacking()) }
