package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/internal/connlimit"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Limits of the gRPC server; gRPC's own defaults fit none of them.
const (
	// Who may send so much is decided before it is read.
	maxMessage = dial.MaxToQueue
	// callWindow is how much of a call waits until it is read, beside the message that
	// is; connectionWindow is what is under way, which at 50 ms bounds a site to 80 MB/s.
	callWindow       = 256 << 10
	connectionWindow = 4 << 20
	// maxStreams of one connection: a site's pilots deliver over few.
	maxStreams = 1024
	maxHeader  = 64 << 10
	// readBuffer bounds how many calls one read brings: some 80.
	readBuffer = 4 << 10
	// minPing tolerates clients that ping every 30 s.
	minPing = 10 * time.Second
	// A silent connection is asked after pingAfter, given up pingWait later.
	pingAfter = 30 * time.Second
	pingWait  = 10 * time.Second
	// Connections end now and then, so that servers can be exchanged.
	connectionAge   = time.Hour
	connectionGrace = 5 * time.Minute
	// handshakeTime bounds how long a stranger may hold a connection.
	handshakeTime = 10 * time.Second
)

// Run serves until ctx ends or something breaks, then answers parked calls,
// lets others finish for StopGrace, writes the clock and closes the store.
func (s *Server) Run(ctx context.Context) error {
	calls, err := s.grpcServer()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	web, err := s.webServer()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.unlessFull(s.writeRunFile()); err != nil {
		return errors.Join(err, s.Close())
	}
	s.announced = true
	_ = s.persist(ctx, s.turns.clock.now()) // noted; the clock goes on trying

	storage := &elements{s.turns, &s.config}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		// A server told to stop before it serves says so; that is no fault.
		if err := calls.Serve(s.strangers); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("gRPC server: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		if err := web.ServeTLS(connlimit.New(s.httpListener, webLimits(s.config.Descriptors), connlimit.Strangers{}), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("HTTPS server: %w", err)
		}
		return nil
	})
	group.Go(func() error { return s.runPage(ctx) })
	group.Go(func() error { return s.runClock(ctx) })
	group.Go(func() error { return s.access.runRenewal(ctx) })
	group.Go(func() error { return s.access.runIssuers(ctx) })
	group.Go(func() error { return s.secrets.run(ctx) })
	group.Go(func() error { return s.audits().runClosing(ctx) })
	group.Go(func() error { return storage.runGarbage(ctx) })
	group.Go(func() error { return storage.runLooks(ctx) })
	group.Go(func() error { return storage.runUntold(ctx) })
	group.Go(func() error { return s.masters.runMatching(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		s.stop(calls, web)
		return nil
	})
	if s.config.Ready != nil {
		s.config.Ready(s.addresses.GRPC, s.addresses.HTTP)
	}
	err = group.Wait()
	last, cancel := context.WithTimeout(context.Background(), s.config.Timing.StopGrace)
	defer cancel()
	if s.turns.clock.failing() == "" {
		err = errors.Join(err, s.persist(last, s.turns.clock.now()))
	}
	return errors.Join(err, s.Close())
}

func (s *Server) grpcServer() (*grpc.Server, error) {
	verifier, err := identity.NewVerifier([]byte(s.access.authorityPEM))
	if err != nil {
		return nil, err
	}
	s.facts = facts{verifier, s.refusals}
	// The deny list is not the handshake's business: a revoked pilot is to
	// read why it is refused.
	secured := identity.QueueServerTLS(s.access.certificate.get, verifier)
	calls := grpc.NewServer(
		grpc.Creds(handshakes{credentials.NewTLS(secured)}),
		grpc.InTapHandle(s.admission.admit),
		grpc.StatsHandler(&connections{&s.masters}),
		grpc.UnaryInterceptor(s.guardUnary),
		grpc.StreamInterceptor(s.guardStream),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(dial.MaxMessage),
		grpc.InitialWindowSize(callWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingWait, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace,
		}),
	)
	pb.RegisterTaskServiceServer(calls, &taskHandlers{server: s})
	pb.RegisterFileServiceServer(calls, &fileHandlers{server: s})
	pb.RegisterSiteServiceServer(calls, &siteHandlers{server: s})
	pb.RegisterPilotServiceServer(calls, &pilotHandlers{server: s})
	healthpb.RegisterHealthServer(calls, datedHealth{s.health.server})
	reflection.Register(calls)
	return calls, nil
}

// stop ends the parked calls, then the servers.
func (s *Server) stop(calls *grpc.Server, web *http.Server) {
	s.health.server.Shutdown()
	close(s.stopping)
	s.masters.desk.Stop()
	finished := make(chan struct{})
	go func() {
		calls.GracefulStop()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(s.config.Timing.StopGrace):
		calls.Stop()
		<-finished
	}
	end, cancel := context.WithTimeout(context.Background(), s.config.Timing.StopGrace)
	defer cancel()
	if err := web.Shutdown(end); err != nil {
		_ = web.Close() // what is left is cut off
	}
}

// every does something after each pause, until ctx ends, and says of a failure what
// comes of it.
func (c *Config) every(ctx context.Context, pause time.Duration, failed string, do func(context.Context) error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := do(ctx); err != nil && ctx.Err() == nil {
				c.Log.Warn(failed, "error", err)
			}
		}
	}
}
