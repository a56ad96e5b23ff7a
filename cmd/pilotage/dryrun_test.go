package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// lookingQueue answers all submissions with a code.
type lookingQueue struct {
	pb.TaskServiceClient
	code  codes.Code
	asked int
}

func (q *lookingQueue) SubmitWorkflow(context.Context, *pb.SubmitWorkflowRequest, ...grpc.CallOption) (*pb.SubmitWorkflowResponse, error) {
	q.asked++
	return &pb.SubmitWorkflowResponse{Tasks: 3, Reused: 2}, status.Error(q.code, "refused")
}

// A dry run says what it did not learn from the queue: it ended without a word of a
// workflow that was too large, or that the queue had no time for.
func TestDryRunSaysWhatTheQueueDidNot(t *testing.T) {
	large := &pb.SubmitWorkflowRequest{Tasks: []*pb.Task{{Shell: strings.Repeat("#", 64<<20)}}}
	for _, c := range []struct {
		request *pb.SubmitWorkflowRequest
		code    codes.Code
		stdout  string
		stderr  string
		fails   bool
	}{
		{request: &pb.SubmitWorkflowRequest{}, code: codes.OK, stdout: "3 tasks, 2 taken over"},
		{request: large, code: codes.OK, stderr: "64MiB"},
		{request: &pb.SubmitWorkflowRequest{}, code: codes.ResourceExhausted, stderr: "refused"},
		{request: &pb.SubmitWorkflowRequest{}, code: codes.PermissionDenied, stderr: "refused"},
		{request: &pb.SubmitWorkflowRequest{}, code: codes.Unavailable},
		{request: &pb.SubmitWorkflowRequest{}, code: codes.InvalidArgument, fails: true},
	} {
		var out, said bytes.Buffer
		a := &app{out: &console{stdout: &out, stderr: &said, output: "table"}}
		queue := &lookingQueue{code: c.code}
		err := a.lookAt(t.Context(), queue, c.request)
		if (err != nil) != c.fails || !strings.Contains(out.String(), c.stdout) || !strings.Contains(said.String(), c.stderr) || c.stderr == "" && said.Len() > 0 {
			t.Errorf("%v: %v, %q, %q", c.code, err, out.String(), said.String())
		}
		if (queue.asked == 0) != (c.request == large) {
			t.Errorf("%v: the queue was asked %d times", c.code, queue.asked)
		}
	}
}
