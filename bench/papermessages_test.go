package bench

import (
	"context"
	"errors"
	"maps"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pilotage-grid/pilotage/pilot/exec"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// talkTo connects a paperTalk to a health service as the queue has it.
func talkTo(t *testing.T, mode pb.SiteMode) *paperTalk {
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
	t.Cleanup(server.Stop)
	return &paperTalk{mode: mode, conns: []*grpc.ClientConn{conn}}
}

// 004, section IV-A: where the queue matches, pilots also retrieve; before the
// DHT they also tell of files.
func TestPilotsSpeakAsInPaper(t *testing.T) {
	for mode, want := range map[pb.SiteMode]map[string]uint64{
		pb.SiteMode_SITE_MODE_DISTRIBUTED: {"task_download": 1, "task_completion": 1, "job_report": 1},
		pb.SiteMode_SITE_MODE_CENTRALIZED: {"task_retrieval": 1, "task_download": 1, "task_completion": 1, "job_report": 1},
		pb.SiteMode_SITE_MODE_ISOLATED:    {"task_retrieval": 1, "task_download": 1, "task_completion": 1, "job_report": 1, "file_report": 3},
	} {
		talk := talkTo(t, mode)
		yard, _, equipment := pitch(t, 1000, nil)
		plot := yard.plots["https://127.0.0.1:1/plot/0"]
		plot.paper = talk.pilot(0)
		spec := exec.Spec{Task: task.Task{Argv: []string{"0"}, Outputs: []task.Output{{LFN: "w-aaaaaaaaaa:x", Name: "out"}}}}
		plot.Run(context.Background(), spec, nil)
		entry, err := equipment[0].Cache.Adopt(context.Background(), "x", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := equipment[0].Cache.Drop(entry.Key); err != nil { // a deletion is told
			t.Fatal(err)
		}
		if _, err := equipment[0].Cache.Adopt(context.Background(), "y", false); err != nil {
			t.Fatal(err)
		}
		if err := plot.Close(); err != nil { // and one at the pilot's end
			t.Fatal(err)
		}
		if got := talk.byMessage(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", modeName(mode), got, want)
		}
		if err := talk.close(); err != nil || talk.waiting.Load() != 0 {
			t.Errorf("%v; %d messages without answer", err, talk.waiting.Load())
		}
	}
}

func TestHeartbeatsUntilTheEnd(t *testing.T) {
	talk := talkTo(t, pb.SiteMode_SITE_MODE_ISOLATED)
	talk.heartbeat = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	pilot := talk.pilot(0)
	go func() { ended <- pilot.beat(ctx, nil) }()
	for deadline := time.Now().Add(5 * time.Second); talk.sent[heartbeat].Load() < 2 && time.Now().Before(deadline); {
	}
	cancel()
	if err := <-ended; err != nil || talk.sent[heartbeat].Load() < 2 {
		t.Errorf("%d heartbeats, %v", talk.sent[heartbeat].Load(), err)
	}
	if err := talk.close(); err != nil {
		t.Error(err)
	}
	killed := make(chan struct{})
	close(killed)
	if err := (*paperPilot)(nil).beat(context.Background(), killed); !errors.Is(err, errKilled) {
		t.Errorf("a killed pilot ends with %v", err)
	}
}

func TestAMessageWithoutAnswerIsTold(t *testing.T) {
	talk := talkTo(t, pb.SiteMode_SITE_MODE_DISTRIBUTED)
	_ = talk.conns[0].Close()
	talk.pilot(0).assigned()
	if talk.close() == nil {
		t.Error("nobody hears of it")
	}
}

func TestTimesOfThePaper(t *testing.T) {
	if got := PaperRounds(198 * time.Second); got != 20*time.Second {
		t.Errorf("tasks of 3.3 minutes have rounds of %s", got)
	}
	if got := PaperTime(time.Minute, 1980*time.Millisecond); got != 600*time.Millisecond {
		t.Errorf("a minute by 100 is %s", got)
	}
}
