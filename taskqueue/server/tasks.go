package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// taskHandlers serve TaskService.
type taskHandlers struct {
	pb.UnimplementedTaskServiceServer
	server *Server
}

// SubmitWorkflow takes one part of a workflow.
func (h *taskHandlers) SubmitWorkflow(ctx context.Context, in *pb.SubmitWorkflowRequest) (*pb.SubmitWorkflowResponse, error) {
	if err := checkText("idempotency_key", in.GetIdempotencyKey(), maxKey); err != nil {
		return nil, err
	}
	if err := checkText("group", in.GetGroup(), maxKey); err != nil {
		return nil, err
	}
	submission := taskqueue.Submission{
		Key: in.GetIdempotencyKey(), Name: in.GetName(), By: callerOf(ctx).person, Group: in.GetGroup(), Part: int(in.GetPart()), More: in.GetMore(),
		Outputs: in.GetOutputs(), AllowMissing: in.GetAllowMissing(), Fresh: in.GetFresh(), KeepIntermediates: in.GetKeepIntermediates(),
	}
	if submission.Key == "" && (in.GetMore() || in.GetPart() != 0) {
		return nil, invalid("a submission in parts needs an idempotency_key")
	}
	if in.GetMore() {
		sent, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
		if err != nil {
			return nil, err
		}
		submission.Sent = sha256.Sum256(sent)
	}
	for _, t := range in.GetTasks() {
		described, err := taskpb.FromTask(t)
		if err != nil {
			return nil, invalid("%w", err)
		}
		submission.Tasks = append(submission.Tasks, described)
	}
	var err error
	if submission.Files, err = taskpb.FromFiles(in.GetFiles()); err != nil {
		return nil, invalid("%w", err)
	}
	if err := checkFiles(submission.Files); err != nil {
		return nil, err
	}
	if in.GetDryRun() && (in.GetMore() || in.GetPart() != 0) {
		return nil, invalid("a workflow that is only to be looked at is sent in one part")
	}
	out, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (taskqueue.Submitted, error) {
		taskqueue.Check(callerOf(ctx).namesCopies(t, submission.Files))
		out, err := h.server.turns.rules.Submit(t, submission)
		if err == nil && in.GetDryRun() {
			err = errDryRun
		}
		return out, err
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return nil, err
	}
	return &pb.SubmitWorkflowResponse{
		WorkflowId: string(out.Workflow), Tasks: int32(out.Tasks), Reused: int32(out.Reused), Existed: out.Existed,
		Again: int32(out.Again), AgainCpu: durationpb.New(out.AgainCPU),
	}, nil
}

// errDryRun ends a change of which nothing is to be kept.
var errDryRun = errors.New("nothing is kept of what was only to be tried")

// DeleteWorkflow has a workflow go that is over.
func (h *taskHandlers) DeleteWorkflow(ctx context.Context, in *pb.DeleteWorkflowRequest) (*pb.DeleteWorkflowResponse, error) {
	id, err := task.ParseWorkflowID(in.GetWorkflow())
	if err != nil {
		return nil, invalid("%w: of a name there may be several, so give the id of the one that is to go", err)
	}
	gone, err := h.server.turns.remove(ctx, in.GetDryRun(), func(t *taskqueue.Turn) (taskqueue.Removal, error) {
		if _, err := callerOf(ctx).changes(t, string(id)); err != nil {
			return taskqueue.Removal{}, err
		}
		return h.server.turns.rules.DeleteWorkflow(t, id, in.GetDryRun())
	})
	return &pb.DeleteWorkflowResponse{Removal: gone}, err
}

// remove carries out a rule that removes something, or with dry only looks.
func (ts *turns) remove(ctx context.Context, dry bool, rule func(*taskqueue.Turn) (taskqueue.Removal, error)) (*pb.Removal, error) {
	run := changed[taskqueue.Removal]
	if dry {
		run = seen[taskqueue.Removal]
	}
	r, err := run(ctx, ts, rule)
	return &pb.Removal{
		Tasks: int32(r.Tasks), Files: int32(r.Files), Copies: int32(r.Copies), Bytes: int64(r.Bytes),
		NamedElsewhere: int32(r.Named), NotStoredByTasks: int32(r.Others),
	}, err
}

// GetWorkflow returns one workflow.
func (h *taskHandlers) GetWorkflow(ctx context.Context, in *pb.GetWorkflowRequest) (*pb.GetWorkflowResponse, error) {
	out := &pb.GetWorkflowResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		out.Workflow = describedWorkflow(t, taskqueue.Read(callerOf(ctx).workflow(t, in.GetWorkflow())))
		return nil
	})
}

// CancelWorkflow cancels what has not ended.
func (h *taskHandlers) CancelWorkflow(ctx context.Context, in *pb.CancelWorkflowRequest) (*pb.CancelWorkflowResponse, error) {
	n, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (int, error) {
		return h.server.turns.rules.CancelWorkflow(t, taskqueue.Read(callerOf(ctx).changes(t, in.GetWorkflow())).ID)
	})
	return &pb.CancelWorkflowResponse{Cancelled: int32(n)}, err
}

// RetryWorkflow reopens what ended badly.
func (h *taskHandlers) RetryWorkflow(ctx context.Context, in *pb.RetryWorkflowRequest) (*pb.RetryWorkflowResponse, error) {
	n, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (int, error) {
		return h.server.turns.rules.RetryWorkflow(t, taskqueue.Read(callerOf(ctx).changes(t, in.GetWorkflow())).ID, in.GetFailedOnly())
	})
	return &pb.RetryWorkflowResponse{Retried: int32(n)}, err
}

// taskID reads the id of a task that came from outside.
func taskID(text string) (task.ID, error) {
	id, err := task.ParseID(text)
	if err != nil {
		return "", invalid("%w", err)
	}
	return id, nil
}

// CancelTask cancels one task and what depends on it.
func (h *taskHandlers) CancelTask(ctx context.Context, in *pb.CancelTaskRequest) (*pb.CancelTaskResponse, error) {
	n, err := h.change(ctx, in.GetTaskId(), h.server.turns.rules.CancelTask)
	return &pb.CancelTaskResponse{Cancelled: int32(n)}, err
}

// RetryTask reopens one task that ended badly.
func (h *taskHandlers) RetryTask(ctx context.Context, in *pb.RetryTaskRequest) (*pb.RetryTaskResponse, error) {
	n, err := h.change(ctx, in.GetTaskId(), h.server.turns.rules.RetryTask)
	return &pb.RetryTaskResponse{Retried: int32(n)}, err
}

func (h *taskHandlers) change(ctx context.Context, text string, rule func(*taskqueue.Turn, task.ID) (int, error)) (int, error) {
	id, err := taskID(text)
	if err != nil {
		return 0, err
	}
	return changed(ctx, h.server.turns, func(t *taskqueue.Turn) (int, error) {
		_, err := callerOf(ctx).changes(t, string(id.Workflow()))
		taskqueue.Check(notFoundAs(err, "task", id))
		return rule(t, id)
	})
}

// ExplainTask says why a task is where it is.
func (h *taskHandlers) ExplainTask(ctx context.Context, in *pb.ExplainTaskRequest) (*pb.ExplainTaskResponse, error) {
	id, err := taskID(in.GetTaskId())
	if err != nil {
		return nil, err
	}
	e, err := seen(ctx, h.server.turns, func(t *taskqueue.Turn) (taskqueue.Explanation, error) {
		taskqueue.Check(callerOf(ctx).seesTask(t, id))
		return h.server.turns.rules.Explain(t, id)
	})
	if err != nil {
		return nil, err
	}
	if e.State.State == task.Ready {
		h.server.masters.matching.Explain(&e)
	}
	out := &pb.ExplainTaskResponse{
		Task: taskInfo(&e.State, &e.Task, e.Attempts), Ahead: int32(e.Ahead), Backoff: durationpb.New(e.BackoffUntil),
	}
	room := pageRoom{}
	for _, m := range e.Missing { // of many with long names the first: their number is with the task
		missing := &pb.MissingInput{Lfn: string(m.LFN), Producer: string(m.Producer), ProducerState: taskpb.State(m.State), Why: m.Why}
		for _, site := range m.Where {
			missing.Announced = append(missing.Announced, string(site))
		}
		if !room.takes(missing) {
			break
		}
		out.Missing = append(out.Missing, missing)
	}
	for _, x := range e.Sites {
		if x.Quoted != "" && !callerOf(ctx).looksAfter(x.Site) {
			x.Quoted = "; " + forOperators
		}
		x.Why += x.Quoted
		if x.Pilots == 0 && x.Why != "" {
			x.Why += "; " + h.server.shown.factories.described(string(x.Site), time.Now())
		}
		out.Sites = append(out.Sites, &pb.SiteExplanation{
			Site: string(x.Site), Eligible: x.Eligible, Why: x.Why, Pilots: int32(x.Pilots),
			FreeSlots: int32(x.FreeSlots), Waiting: int32(x.Waiting), Clauses: taskpb.Clauses(x.Clauses),
			Fallback: x.Fallback,
		})
	}
	return out, nil
}

// GetTask returns one task with its description and attempts.
func (h *taskHandlers) GetTask(ctx context.Context, in *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	id, err := taskID(in.GetTaskId())
	if err != nil {
		return nil, err
	}
	out := &pb.GetTaskResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		state := taskqueue.Read(callerOf(ctx).task(t, id))
		out.Task = fullTasks(t, []taskqueue.TaskState{*state})[0]
		return nil
	})
}

// GetTaskLogs returns the ends of an attempt's output streams.
func (h *taskHandlers) GetTaskLogs(ctx context.Context, in *pb.GetTaskLogsRequest) (*pb.GetTaskLogsResponse, error) {
	id, err := taskID(in.GetTaskId())
	if err != nil {
		return nil, err
	}
	out := &pb.GetTaskLogsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		state := taskqueue.Read(callerOf(ctx).task(t, id))
		attempts := taskqueue.Read(t.Attempts().OfTask(id))
		if len(attempts) == 0 {
			because := ""
			if state.Reason != "" {
				because = ": " + state.Reason
			}
			return taskqueue.NotFound("attempt", fmt.Sprintf("of task %s (it is %s and has not run%s)", id, state.State, because))
		}
		shown := attemptOfNumber(attempts, state.Winner, int(in.GetNumber()))
		if shown == nil {
			return taskqueue.NotFound("attempt", fmt.Sprintf("%s/a%d", id, in.GetNumber()))
		}
		out.Attempt = attemptOf(shown)
		out.Stdout, out.Stderr, err = t.Attempts().LoadLog(shown.Outcome.Attempt)
		return err
	})
}

// attemptOfNumber finds the attempt of a display number, any if it is 0: the winner,
// else the newest. Earlier queues gave some numbers to several attempts.
func attemptOfNumber(attempts []taskqueue.Attempt, winner task.AttemptID, number int) (shown *taskqueue.Attempt) {
	for i := range attempts {
		a := &attempts[i]
		if (number == 0 || a.Outcome.Number == number) && (shown == nil || shown.Outcome.Attempt != winner) {
			shown = a
		}
	}
	return shown
}
