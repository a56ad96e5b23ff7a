package server

import (
	"context"
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
		found := listWorkflows(t, owner, in.GetName(), task.WorkflowID(after), size+1)
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
func listWorkflows(t *taskqueue.Turn, owner, name string, after task.WorkflowID, limit int) (standing []taskqueue.Workflow) {
	for {
		page := taskqueue.Read(t.Workflows().List(owner, name, after, limit))
		for i := range page {
			if after = page[i].ID; !page[i].Deleted && len(standing) < limit {
				standing = append(standing, page[i])
			}
		}
		if len(page) < limit || len(standing) == limit {
			return standing
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
		w := taskqueue.Read(callerOf(ctx).sees(t, in.GetWorkflow()))
		found := taskqueue.Read(t.Tasks().InWorkflow(w.ID, after, size+1, states...))
		room := pageRoom{entries: size}
		for part := range slices.Chunk(found, loadedAtOnce) {
			infos := listedTasks(t, part, in.GetFull())
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
func listedTasks(t *taskqueue.Turn, states []taskqueue.TaskState, full bool) []*pb.TaskInfo {
	if full {
		return fullTasks(t, states)
	}
	infos := make([]*pb.TaskInfo, len(states))
	for i := range states {
		infos[i] = taskInfo(&states[i], nil, nil)
	}
	return infos
}

// fullTasks adds descriptions and attempts to states.
func fullTasks(t *taskqueue.Turn, states []taskqueue.TaskState) []*pb.TaskInfo {
	ids := make([]task.ID, len(states))
	for i := range states {
		ids[i] = states[i].ID
	}
	described := taskqueue.Read(t.Tasks().Describe(ids...))
	specs := make(map[task.ID]*task.Task, len(described))
	for i := range described {
		specs[described[i].ID] = &described[i]
	}
	infos := make([]*pb.TaskInfo, len(states))
	for i := range states {
		attempts := taskqueue.Read(t.Attempts().OfTask(states[i].ID))
		infos[i] = taskInfo(&states[i], specs[states[i].ID], attempts)
	}
	return infos
}

// ListWorkflowOutputs lists a workflow's final outputs in the order declared.
func (h *taskHandlers) ListWorkflowOutputs(ctx context.Context, in *pb.ListWorkflowOutputsRequest) (*pb.ListWorkflowOutputsResponse, error) {
	size, from, err := pageFrom("outputs", in)
	if err != nil {
		return nil, err
	}
	out := &pb.ListWorkflowOutputsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		w := taskqueue.Read(callerOf(ctx).sees(t, in.GetWorkflow()))
		room := pageRoom{entries: size}
		for part := range slices.Chunk(w.Outputs[min(from, uint64(len(w.Outputs))):], loadedAtOnce) {
			records := taskqueue.Read(t.Files().Load(part...))
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
