package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

var errAway = status.Error(codes.Unavailable, "connection refused")

// awayQueue is a task service that is away for its first calls.
type awayQueue struct {
	pb.TaskServiceClient
	away   int // so many calls fail
	calls  int
	states []pb.WorkflowState // what each later watch reports before it breaks
	keys   []string           // of the submissions that came
	parts  []int32
	sent   []*pb.SubmitWorkflowRequest
}

func (q *awayQueue) WatchWorkflow(context.Context, *pb.WatchWorkflowRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.WatchWorkflowResponse], error) {
	if q.calls++; q.calls <= q.away {
		return nil, errAway
	}
	state := q.states[0]
	q.states = q.states[1:]
	return &oneReply{state: state}, nil
}

func (q *awayQueue) SubmitWorkflow(_ context.Context, in *pb.SubmitWorkflowRequest, _ ...grpc.CallOption) (*pb.SubmitWorkflowResponse, error) {
	q.keys = append(q.keys, in.GetIdempotencyKey())
	q.parts = append(q.parts, in.GetPart())
	q.sent = append(q.sent, in)
	if q.calls++; q.calls <= q.away {
		return nil, errAway
	}
	return &pb.SubmitWorkflowResponse{WorkflowId: "w-aaaaaaaaaa"}, nil
}

// oneReply is a stream that reports one state, then ends or breaks.
type oneReply struct {
	grpc.ServerStreamingClient[pb.WatchWorkflowResponse]
	state pb.WorkflowState
	sent  bool
}

func (s *oneReply) Recv() (*pb.WatchWorkflowResponse, error) {
	if !s.sent {
		s.sent = true
		return &pb.WatchWorkflowResponse{Workflow: &pb.Workflow{Id: "w-aaaaaaaaaa", State: s.state, Done: 1}}, nil
	}
	if s.state == pb.WorkflowState_WORKFLOW_STATE_DONE {
		return nil, io.EOF
	}
	return nil, errAway
}

func TestWatchOutlivesTheQueuesRestart(t *testing.T) {
	for what, away := range map[string]int{"breaks": 0, "is not there at first": 20} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := testApp()
				queue := &awayQueue{away: away, states: []pb.WorkflowState{
					pb.WorkflowState_WORKFLOW_STATE_RUNNING, pb.WorkflowState_WORKFLOW_STATE_DONE,
				}}
				last, err := a.watch(t.Context(), &clients{tasks: queue}, "w-aaaaaaaaaa")
				if err != nil || !over(last) {
					t.Errorf("watch: %v, %v", last, err)
				}
				if said := a.out.stderr.(*bytes.Buffer).String(); !strings.Contains(said, "waiting for the task queue") {
					t.Errorf("it waits and says %q", said)
				}
			})
		})
	}
}

func TestWatchGivesUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := testApp().watch(t.Context(), &clients{tasks: &awayQueue{away: 1 << 30}}, "w-aaaaaaaaaa")
		if exitCode(t.Context(), err) != exitUnreachable {
			t.Errorf("watch: %v", err)
		}
		if got, want := time.Since(began), watchRetries*watchPause; got != want {
			t.Errorf("gave up after %s, want %s", got, want)
		}
	})
}

// Each part of a submission is sent again under the same key until it is
// answered, and not for ever.
func TestSubmitTriesAgainUnderItsKey(t *testing.T) {
	plan := &workflow.Plan{Name: "plan", Tasks: make([]task.Task, partTasks+1)}
	synctest.Test(t, func(t *testing.T) {
		queue := &awayQueue{away: 3}
		if _, err := testApp().sendPlan(t.Context(), queue, &submitFlags{}, plan, nil); err != nil {
			t.Fatal(err)
		}
		if len(queue.keys) != 5 || queue.parts[3] != 0 || queue.parts[4] != 1 {
			t.Errorf("parts %v came", queue.parts)
		}
		for _, key := range queue.keys {
			if key == "" || key != queue.keys[0] {
				t.Errorf("keys %q differ", queue.keys)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		queue := &awayQueue{away: 1 << 30}
		_, err := testApp().sendPlan(t.Context(), queue, &submitFlags{takenFlags: takenFlags{key: "mine"}}, plan, nil)
		if exitCode(t.Context(), err) != exitUnreachable || queue.keys[0] != "mine" {
			t.Errorf("keys %q: %v", queue.keys[:1], err)
		}
		if took := time.Since(began); took > againFor {
			t.Errorf("gave up after %s", took)
		}
	})
}

// TestSubmitSendsBoundedParts has a plan with many files and tasks, some of them large: no
// part is too large for the queue, files come before tasks, and nothing twice or never.
func TestSubmitSendsBoundedParts(t *testing.T) {
	plan := &workflow.Plan{Name: "plan", Outputs: []string{"out"}}
	for i := range 40 {
		plan.Tasks = append(plan.Tasks, task.Task{ID: task.ID(fmt.Sprintf("plan/t%d", i)), Argv: []string{strings.Repeat("x", 3<<20)}})
	}
	for i := range 2 * partTasks {
		plan.Tasks = append(plan.Tasks, task.Task{ID: task.ID(fmt.Sprintf("plan/s%d", i))})
	}
	files := make([]*pb.File, 2*partFiles+1)
	for i := range files {
		files[i] = &pb.File{Lfn: fmt.Sprint(i)}
	}
	queue := &awayQueue{}
	if _, err := testApp().sendPlan(t.Context(), queue, &submitFlags{}, plan, files); err != nil {
		t.Fatal(err)
	}
	var sentFiles, sentTasks []string
	for i, part := range queue.sent {
		if len(part.GetTasks()) > partTasks || proto.Size(part) > partBytes+4<<20 || part.GetMore() != (i+1 < len(queue.sent)) || (i == 0) != (len(part.GetOutputs()) > 0) {
			t.Errorf("part %d has %d tasks, %d outputs, %d bytes, more: %t", i, len(part.GetTasks()), len(part.GetOutputs()), proto.Size(part), part.GetMore())
		}
		if len(sentTasks) > 0 && len(part.GetFiles()) > 0 {
			t.Error("files come after tasks")
		}
		for _, file := range part.GetFiles() {
			sentFiles = append(sentFiles, file.GetLfn())
		}
		for _, one := range part.GetTasks() {
			sentTasks = append(sentTasks, one.GetId())
		}
	}
	for i, file := range files {
		if i >= len(sentFiles) || sentFiles[i] != file.GetLfn() {
			t.Fatalf("file %d of %d did not come", i, len(sentFiles))
		}
	}
	for i := range plan.Tasks {
		if i >= len(sentTasks) || sentTasks[i] != "/"+plan.Tasks[i].ID.Name() {
			t.Fatalf("task %d of %d did not come", i, len(sentTasks))
		}
	}
}
