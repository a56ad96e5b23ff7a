package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// ListWorkflows lists workflows, newest first.
func (h *taskHandlers) ListWorkflows(ctx context.Context, in *pb.ListWorkflowsRequest) (*pb.ListWorkflowsResponse, error) {
	size, after, err := pageAsked("workflows", in)
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
		room := pageRoom{entries: size}
		for i, w := range found {
			listed := workflowOf(w)
			if !room.takes(listed) {
				out.NextPageToken = pageToken("workflows", string(found[i-1].ID))
				return nil
			}
			out.Workflows = append(out.Workflows, listed)
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
	size, after, err := pageFrom("tasks", in)
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
		room := pageRoom{entries: size}
		for part := range slices.Chunk(found, loadedAtOnce) {
			infos, err := listedTasks(t, part, in.GetFull())
			if err != nil {
				return err
			}
			for i, info := range infos {
				if !room.takes(info) {
					out.NextPageToken = pageToken("tasks", strconv.FormatUint(after, 10))
					return nil
				}
				out.Tasks, after = append(out.Tasks, info), part[i].Seq
			}
		}
		return nil
	})
}

// listedTasks describes tasks, and if they are to be full adds descriptions and attempts.
func listedTasks(t *taskqueue.Turn, states []taskqueue.TaskState, full bool) ([]*pb.TaskInfo, error) {
	if full {
		return fullTasks(t, states)
	}
	infos := make([]*pb.TaskInfo, len(states))
	for i := range states {
		infos[i] = taskInfo(&states[i], nil, nil)
	}
	return infos, nil
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
	size, from, err := pageFrom("outputs", in)
	if err != nil {
		return nil, err
	}
	out := &pb.ListWorkflowOutputsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		w, err := callerOf(ctx).sees(t, in.GetWorkflow())
		if err != nil {
			return err
		}
		room := pageRoom{entries: size}
		for part := range slices.Chunk(w.Outputs[min(from, uint64(len(w.Outputs))):], loadedAtOnce) {
			records, err := t.Files().Load(part...)
			if err != nil {
				return fmt.Errorf("load outputs of %s: %w", w.ID, err)
			}
			for i := range records {
				file := taskpb.File(records[i].File)
				if !room.takes(file) {
					out.NextPageToken = pageToken("outputs", strconv.FormatUint(from+uint64(slices.Index(part, records[i].LFN)), 10))
					return nil
				}
				out.Files = append(out.Files, file)
			}
			from += uint64(len(part))
		}
		return nil
	})
}
