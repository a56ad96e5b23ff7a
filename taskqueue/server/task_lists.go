package server

import (
	"context"
	"fmt"
	"strconv"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// ListWorkflows lists workflows, newest first.
func (h *taskHandlers) ListWorkflows(ctx context.Context, in *pb.ListWorkflowsRequest) (*pb.ListWorkflowsResponse, error) {
	size, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := afterToken("workflows", in.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &pb.ListWorkflowsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		owner := in.GetOwner()
		if in.GetMine() {
			owner = callerOf(ctx).person.Name
		}
		found, err := listWorkflows(t, owner, in.GetName(), task.WorkflowID(after), size+1)
		if err != nil {
			return fmt.Errorf("list workflows: %w", err)
		}
		if len(found) > size {
			found = found[:size]
			out.NextPageToken = pageToken("workflows", string(found[size-1].ID))
		}
		for _, w := range found {
			out.Workflows = append(out.Workflows, workflowOf(w))
		}
		return nil
	})
}

// listWorkflows lists workflows but for those that are being cleared away.
func listWorkflows(t *taskqueue.Turn, owner, name string, after task.WorkflowID, limit int) (standing []taskqueue.Workflow, err error) {
	for {
		page, err := t.Workflows().List(owner, name, after, limit)
		for i := range page {
			if after = page[i].ID; !page[i].Deleted && len(standing) < limit {
				standing = append(standing, page[i])
			}
		}
		if err != nil || len(page) < limit || len(standing) == limit {
			return standing, err
		}
	}
}

// ListTasks lists a workflow's tasks, oldest first.
func (h *taskHandlers) ListTasks(ctx context.Context, in *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	size, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := numberToken("tasks", in.GetPageToken())
	if err != nil {
		return nil, err
	}
	states := make([]task.State, 0, len(in.GetStates()))
	for _, wanted := range in.GetStates() {
		state, err := taskpb.FromState(wanted)
		if err != nil {
			return nil, invalid("%w", err)
		}
		states = append(states, state)
	}
	out := &pb.ListTasksResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		w, err := callerOf(ctx).sees(t, in.GetWorkflow())
		if err != nil {
			return err
		}
		found, err := t.Tasks().InWorkflow(w.ID, after, size+1, states...)
		if err != nil {
			return fmt.Errorf("list tasks of %s: %w", w.ID, err)
		}
		if len(found) > size {
			found = found[:size]
			out.NextPageToken = pageToken("tasks", strconv.FormatUint(found[size-1].Seq, 10))
		}
		if in.GetFull() {
			out.Tasks, err = fullTasks(t, found)
			return err
		}
		for i := range found {
			out.Tasks = append(out.Tasks, taskInfo(&found[i], nil, nil))
		}
		return nil
	})
}

// fullTasks adds descriptions and attempts to states.
func fullTasks(t *taskqueue.Turn, states []taskqueue.TaskState) ([]*pb.TaskInfo, error) {
	ids := make([]task.ID, len(states))
	for i := range states {
		ids[i] = states[i].ID
	}
	described, err := t.Tasks().Describe(ids...)
	if err != nil {
		return nil, fmt.Errorf("load tasks: %w", err)
	}
	specs := make(map[task.ID]*task.Task, len(described))
	for i := range described {
		specs[described[i].ID] = &described[i]
	}
	infos := make([]*pb.TaskInfo, len(states))
	for i := range states {
		attempts, err := t.Attempts().OfTask(states[i].ID)
		if err != nil {
			return nil, fmt.Errorf("load attempts of %s: %w", states[i].ID, err)
		}
		infos[i] = taskInfo(&states[i], specs[states[i].ID], attempts)
	}
	return infos, nil
}

// ListWorkflowOutputs lists a workflow's final outputs in the order declared.
func (h *taskHandlers) ListWorkflowOutputs(ctx context.Context, in *pb.ListWorkflowOutputsRequest) (*pb.ListWorkflowOutputsResponse, error) {
	size, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	from, err := numberToken("outputs", in.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &pb.ListWorkflowOutputsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		w, err := callerOf(ctx).sees(t, in.GetWorkflow())
		if err != nil {
			return err
		}
		names := w.Outputs[min(from, uint64(len(w.Outputs))):]
		if len(names) > size {
			names = names[:size]
			out.NextPageToken = pageToken("outputs", strconv.FormatUint(from+uint64(size), 10))
		}
		records, err := t.Files().Load(names...)
		if err != nil {
			return fmt.Errorf("load outputs of %s: %w", w.ID, err)
		}
		for i := range records {
			out.Files = append(out.Files, taskpb.File(records[i].File))
		}
		return nil
	})
}
