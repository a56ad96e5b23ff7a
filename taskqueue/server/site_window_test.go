package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A site that has few hits is told why; one that has many is not.
func TestWhyHitsAreLow(t *testing.T) {
	for _, c := range []struct {
		reads     [4]uint64
		evictions uint64
		mode      taskqueue.Mode
		want      string
	}{
		{[4]uint64{}, 0, taskqueue.ModeDistributed, ""},
		{[4]uint64{60, 20, 20, 0}, 50, taskqueue.ModeDistributed, ""},
		{[4]uint64{10, 0, 90, 0}, 0, taskqueue.ModeIsolated, "isolated"},
		{[4]uint64{10, 0, 90, 0}, 40, taskqueue.ModeDistributed, "too small: 40 files evicted while 90 inputs"},
		{[4]uint64{10, 0, 30, 60}, 0, taskqueue.ModeDistributed, "other sites"},
		{[4]uint64{10, 0, 90, 0}, 1, taskqueue.ModeDistributed, "first time"},
	} {
		site := &taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{Mode: c.mode}}
		if got := whyFewHits(c.reads, c.evictions, site); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v with %d evictions, mode %s: %q, want %q", c.reads, c.evictions, c.mode, got, c.want)
		}
	}
}

// The estimate divides what is left among what is held, and is no shorter than the
// chain of steps that are left.
func TestTimeLeftOfAWorkflow(t *testing.T) {
	step := func(name string, blocked, leased, done int32, run float64, after ...string) *pb.WorkflowStep {
		return &pb.WorkflowStep{Name: name, Tasks: blocked + leased + done, Blocked: blocked, Leased: leased, Done: done, RunSeconds: run, After: after}
	}
	for name, c := range map[string]struct {
		steps []*pb.WorkflowStep
		want  time.Duration
		known bool
	}{
		"nothing has ended": {[]*pb.WorkflowStep{step("a", 0, 4, 0, 0)}, 0, false},
		"nothing is held":   {[]*pb.WorkflowStep{step("a", 4, 0, 1, 10)}, 0, false},
		"wide":              {[]*pb.WorkflowStep{step("a", 90, 10, 100, 10)}, 100 * time.Second, true},
		"long":              {[]*pb.WorkflowStep{step("c", 1, 0, 0, 0, "b"), step("b", 1, 0, 0, 0, "a"), step("a", 0, 4, 100, 10)}, 30 * time.Second, true},
	} {
		if got, known := timeLeft(c.steps); got != c.want || known != c.known {
			t.Errorf("%s: %s, %t; want %s", name, got, known, c.want)
		}
	}
}

// A step that fails again and again is told of now and then, with all that failed.
func TestEventsOfAFailingStepAreJoined(t *testing.T) {
	e := newEvents(slog.New(slog.DiscardHandler))
	now := time.Unix(1000, 0)
	failed := func(count int) taskqueue.News {
		return taskqueue.News{Kind: taskqueue.NewsStepFailed, Workflow: "w-a", Step: "s", Task: "w-a/s[1]", Count: count, Text: "exit code 3"}
	}
	e.tell(now, failed(2))
	e.tell(now.Add(time.Second), failed(5))
	e.tell(now.Add(2*time.Second), failed(1), taskqueue.News{Kind: taskqueue.NewsPilotDied, Site: "siteA"})
	e.tell(now.Add(failurePause), failed(1))
	got, newest := e.after(0, "", 10)
	if len(got) != 3 || newest != 3 || !strings.HasPrefix(got[0].Text, "2 tasks of step s") || got[1].Kind != "pilot-died" || !strings.HasPrefix(got[2].Text, "7 tasks") {
		t.Errorf("%+v", got)
	}
	if of, _ := e.after(0, "siteA", 10); len(of) != 1 || of[0].Number != 2 {
		t.Errorf("of siteA: %+v", of)
	}
	// What has failed in the pause is told when it is over, though nothing follows.
	e.tell(now.Add(failurePause+time.Second), failed(3))
	for _, later := range []time.Duration{2*failurePause - 1, 2 * failurePause, 3 * failurePause, 4 * failurePause} {
		e.tell(now.Add(later))
	}
	if got, newest := e.after(0, "", 10); newest != 4 || !strings.HasPrefix(got[3].Text, "3 tasks") || len(e.failing) != 0 {
		t.Errorf("after the pause: %d events, %d steps remembered: %+v", newest, len(e.failing), got)
	}
	var counted dto.Metric
	if err := e.counts.WithLabelValues("step-failed", "").Write(&counted); err != nil || counted.GetCounter().GetValue() != 12 {
		t.Errorf("12 failures have been; counted: %v, %v", counted.GetCounter().GetValue(), err)
	}
	for range 2 * keepEvents {
		e.tell(now, taskqueue.News{Kind: taskqueue.NewsPilotLeft})
	}
	if got, newest := e.after(0, "", 1<<30); len(got) > keepEvents*5/4 || got[len(got)-1].Number != newest {
		t.Errorf("%d events are kept, the newest %d of %d", len(got), got[len(got)-1].Number, newest)
	}
	if step := taskqueue.StepOf(task.ID("w-a/mProject_ID0000012")); step != "mProject" {
		t.Errorf("step %q", step)
	}
}
