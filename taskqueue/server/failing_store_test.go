package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// fragile is a store that can be broken.
type fragile struct {
	taskqueue.Store
	broken atomic.Pointer[error]
	panics atomic.Bool
}

func (f *fragile) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	return f.Store.Update(ctx, write)
}

func (f *fragile) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	return f.Store.View(ctx, func(tx taskqueue.Tx) error {
		if f.panics.CompareAndSwap(true, false) {
			panic("made by a test")
		}
		return read(tx)
	})
}

// A queue that was killed goes on no earlier than it was, however long ago it wrote
// its clock: nothing in its store lies in the time to come.
func TestClockAfterAKill(t *testing.T) {
	store := &fragile{}
	dir := t.TempDir()
	seldom := func(c *serverConfig) { c.Timing.Persist = time.Minute }
	q := startIn(t, dir, func(s *server.Server) {
		s.WrapStore(func(real taskqueue.Store) taskqueue.Store { store.Store = real; return store })
	}, onSQLite, seldom)
	began := q.server.Clock()
	q.eventually("the clock goes on", func() bool { return q.server.Clock().Sub(began) > 50*time.Millisecond })
	killed := errors.New("killed")
	store.broken.Store(&killed)
	before := q.server.Clock()
	q.end()
	if err := <-q.ended; !errors.Is(err, killed) {
		t.Fatal(err)
	}
	q.ended = nil
	if after := startIn(t, dir, nil, onSQLite, seldom).server.Clock(); after < before {
		t.Errorf("the clock went back by %s", before.Sub(after))
	}
}

// While the store takes no writes the service clock stands still, callers are
// told, and afterwards it goes on without a jump.
func TestClockStandsStillWhileTheStoreFails(t *testing.T) {
	store := &fragile{}
	q := startIn(t, t.TempDir(), func(s *server.Server) {
		s.WrapStore(func(real taskqueue.Store) taskqueue.Store { store.Store = real; return store })
	})
	health := func() healthpb.HealthCheckResponse_ServingStatus {
		reply, err := healthpb.NewHealthClient(q.dial("", nil)).Check(q.ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetStatus()
	}
	full := error(taskqueue.ErrDiskFull)
	store.broken.Store(&full)
	q.eventually("the trouble is noticed", func() bool { return health() == healthpb.HealthCheckResponse_NOT_SERVING })
	stopped := q.server.Clock()
	_, err := q.submit().SubmitWorkflow(q.ctx, single("refused"))
	wantRefusal(t, err, codes.ResourceExhausted, "DISK_FULL")
	away := errors.New("connection lost")
	store.broken.Store(&away)
	_, err = q.submit().SubmitWorkflow(q.ctx, single("refused"))
	wantRefusal(t, err, codes.Unavailable, "STORE")
	if code, text := q.get("/healthz"); code != http.StatusServiceUnavailable || text == "" {
		t.Errorf("healthz %d %q", code, text)
	}
	began := time.Now()
	q.eventually("a while has passed", func() bool { return time.Since(began) > 100*time.Millisecond })
	if now := q.server.Clock(); now != stopped {
		t.Errorf("the clock went on by %s without a store", now.Sub(stopped))
	}
	mended := time.Now()
	store.broken.Store(nil)
	q.eventually("the clock goes on", func() bool { return q.server.Clock() > stopped })
	if jump := q.server.Clock().Sub(stopped); jump > time.Since(mended) {
		t.Errorf("the clock jumped by %s, %s after the repair", jump, time.Since(mended))
	}
	q.eventually("the queue serves again", func() bool { return health() == healthpb.HealthCheckResponse_SERVING })
	if code, text := q.get("/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("healthz %d %q", code, text)
	}
	q.mustSubmit(single("taken"))
}

func TestPanicOfAHandlerIsAnError(t *testing.T) {
	store := &fragile{}
	q := startIn(t, t.TempDir(), func(s *server.Server) {
		s.WrapStore(func(real taskqueue.Store) taskqueue.Store { store.Store = real; return store })
	}, func(c *serverConfig) { c.Timing.ClockTick = time.Hour }) // so that nobody else meets it
	people := q.submit()
	if _, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}); err != nil {
		t.Fatal(err)
	}
	store.panics.Store(true)
	_, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{})
	wantRefusal(t, err, codes.Internal, "INTERNAL")
	if strings.Contains(err.Error(), "made by a test") {
		t.Error("the client reads the panic")
	}
	if _, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
