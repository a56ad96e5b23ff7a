package latebinding

import (
	"context"
	"maps"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// queueOf connects to a health service as the queue has it.
func queueOf(t *testing.T) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:queue", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return conn
}

// 004, section IV-A: where the queue matches, pilots also retrieve; before the
// DHT they also tell of files.
func TestPilotsSpeakAsInPaper(t *testing.T) {
	queue := queueOf(t)
	for mode, want := range map[pb.SiteMode]map[string]uint64{
		pb.SiteMode_SITE_MODE_DISTRIBUTED: {"task_download": 1, "task_completion": 1, "job_report": 1},
		pb.SiteMode_SITE_MODE_CENTRALIZED: {"task_retrieval": 1, "task_download": 1, "task_completion": 1, "job_report": 1},
		pb.SiteMode_SITE_MODE_ISOLATED:    {"task_retrieval": 1, "task_download": 1, "task_completion": 1, "job_report": 1, "file_report": 3},
	} {
		all := &talk{mode: mode}
		pilot := all.Pilot(queue)
		pilot.Assigned()
		pilot.Ended(1)
		pilot.CacheChanged(2)
		if got := all.byMessage(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
		if _, waiting := all.Sent(); all.err() != nil || waiting != 0 {
			t.Errorf("%v; %v messages without answer", all.err(), waiting)
		}
	}
}

func TestHeartbeatsUntilTheEnd(t *testing.T) {
	all := &talk{mode: pb.SiteMode_SITE_MODE_ISOLATED, heartbeat: time.Millisecond}
	pilot := all.Pilot(queueOf(t))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); pilot.Beat(ctx) }()
	for deadline := time.Now().Add(5 * time.Second); all.sent[heartbeat].Load() < 2 && time.Now().Before(deadline); {
	}
	cancel()
	<-ended
	if all.err() != nil || all.sent[heartbeat].Load() < 2 {
		t.Errorf("%d heartbeats, %v", all.sent[heartbeat].Load(), all.err())
	}
}

func TestAMessageWithoutAnswerIsTold(t *testing.T) {
	queue := queueOf(t)
	_ = queue.Close()
	all := &talk{mode: pb.SiteMode_SITE_MODE_DISTRIBUTED}
	all.Pilot(queue).Assigned()
	if all.err() == nil {
		t.Error("nobody hears of it")
	}
}

func TestTimesOfThePaper(t *testing.T) {
	if got := scaled(roundPeriod, 198*time.Second); got != 20*time.Second {
		t.Errorf("tasks of 3.3 minutes have rounds of %s", got)
	}
	if got := scaled(time.Minute, 1980*time.Millisecond); got != 600*time.Millisecond {
		t.Errorf("a minute by 100 is %s", got)
	}
}
