package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// workflowOf describes a workflow; some of its final outputs that nobody can store
// are named where they are known.
func workflowOf(w taskqueue.Workflow, cached ...string) *pb.Workflow {
	return &pb.Workflow{
		Id: string(w.ID), Name: w.Name, Owner: w.Owner, Group: w.Group, State: workflowState(w),
		Created: taskpb.Time(w.Created), Ended: taskpb.Time(w.Ended),
		Blocked: int32(w.Counts[task.Blocked]), Ready: int32(w.Counts[task.Ready]), Leased: int32(w.Counts[task.Leased]),
		Done: int32(w.Counts[task.Done]), Failed: int32(w.Counts[task.Failed]), Cancelled: int32(w.Counts[task.Cancelled]),
		Quarantined: int32(w.Counts[task.Quarantined]), Reused: int32(w.Reused), OutputsPending: int32(w.Unstored),
		OutputsCached: int32(w.Homeless), Reason: overWhy(w, cached),
	}
}

// overWhy says why a workflow is over without being done, unless its tasks say it.
func overWhy(w taskqueue.Workflow, cached []string) string {
	if w.Homeless == 0 || !w.Over() {
		return ""
	}
	named := ""
	if len(cached) > 0 {
		named = ": " + strings.Join(cached, ", ")
		if len(cached) < w.Homeless {
			named += ", ..."
		}
	}
	return fmt.Sprintf("%d final outputs are only in caches of sites that have no storage element%s; fetch them while pilots there live "+
		"(pilotage workflow outputs %s), or give the site a storage element (pilotage site add SITE --se URL): they are then stored",
		w.Homeless, named, w.ID)
}

// describedWorkflow names those outputs with their sites, as far as a first look
// finds them.
func describedWorkflow(t *taskqueue.Turn, w taskqueue.Workflow) *pb.Workflow {
	const most, looked = 3, 1000
	if w.Homeless == 0 || !w.Over() {
		return workflowOf(w)
	}
	sites := taskqueue.Read(t.Sites().Load(slices.Sorted(maps.Keys(w.Held))...))
	files := taskqueue.Read(t.Files().Load(w.Outputs[:min(looked, len(w.Outputs))]...))
	var cached []string
	for i := range files {
		site := files[i].HeldAt()
		bare := slices.ContainsFunc(sites, func(s taskqueue.SiteRecord) bool { return s.Name == site && s.SE == "" })
		if bare && len(cached) < most {
			cached = append(cached, fmt.Sprintf("%s (%s)", files[i].LFN.Local(), site))
		}
	}
	return workflowOf(w, cached...)
}

// workflowState sums up the states of a workflow's tasks.
func workflowState(w taskqueue.Workflow) pb.WorkflowState {
	switch {
	case w.Finished():
		return pb.WorkflowState_WORKFLOW_STATE_DONE
	case w.Cancelled && (w.Over() || !w.Sealed):
		return pb.WorkflowState_WORKFLOW_STATE_CANCELLED
	case !w.Sealed:
		return pb.WorkflowState_WORKFLOW_STATE_SUBMITTING
	case !w.Over():
		return pb.WorkflowState_WORKFLOW_STATE_RUNNING
	case w.Counts[task.Failed]+w.Counts[task.Quarantined] > 0, w.Counts[task.Done] == w.Total():
		return pb.WorkflowState_WORKFLOW_STATE_FAILED
	}
	return pb.WorkflowState_WORKFLOW_STATE_CANCELLED
}

// taskInfo describes a task; without its description it has its id only.
func taskInfo(s *taskqueue.TaskState, described *task.Task, attempts []taskqueue.Attempt) *pb.TaskInfo {
	info := &pb.TaskInfo{
		Task: &pb.Task{Id: string(s.ID), Priority: int32(s.Priority)}, State: taskpb.State(s.State), Generation: s.Generation,
		MissingInputs: int32(s.Missing), Site: string(s.Site), Failures: int32(s.Failures), Reason: s.Reason,
		Upstream: string(s.Upstream), Winner: taskpb.AttemptID(s.Winner), Changed: taskpb.Time(s.Changed),
	}
	if described != nil {
		info.Task = taskpb.Task(*described)
	}
	room := pageRoom{}
	for i := range slices.Backward(attempts) { // of many with long outcomes the newest, and the winner
		told := attemptOf(&attempts[i])
		if fits := room.takes(told); fits || attempts[i].Outcome.Attempt == s.Winner {
			info.Attempts = append(info.Attempts, told)
		}
	}
	slices.Reverse(info.Attempts)
	return info
}

// attemptOf describes an attempt without its output streams.
func attemptOf(a *taskqueue.Attempt) *pb.Attempt {
	outcome := a.Outcome
	outcome.Stdout, outcome.Stderr = nil, nil
	if a.State == taskqueue.AttemptRunning {
		outcome.Delay = -1 // not known yet
	}
	return &pb.Attempt{State: pb.AttemptState(a.State), Outcome: taskpb.Outcome(outcome)}
}

func contactOf(c taskqueue.Contact) *pb.Contact {
	return &pb.Contact{Pilot: string(c.Pilot), Peer: string(c.Peer), Addresses: c.Addresses, DataUrl: c.DataURL}
}

func pilotOf(p *taskqueue.PilotRecord, running int, master bool) *pb.Pilot {
	return &pb.Pilot{
		Contact: contactOf(taskqueue.Contact{Pilot: p.ID, Peer: p.Peer, Addresses: p.Addresses, DataURL: p.DataURL}),
		Site:    string(p.Site), Host: p.Host, Resources: taskpb.Resources(p.Resources), Slots: int32(p.Slots),
		Features: p.Features, Version: p.Version, State: p.State.String(),
		Registered: taskpb.Time(p.Registered), Ends: taskpb.Time(p.Ends), Ended: taskpb.Time(p.Ended),
		Reason: p.Reason, Stopped: p.Stopped, Running: int32(running), Master: master,
		Job: p.Job, BatchJob: p.BatchJob, Done: p.Sums.Done, Failed: p.Sums.Failed, LastError: p.Sums.LastError,
		Confinement: int32(p.Walls.Confinement), Walls: p.Walls.Up, Sandbox: p.Walls.Note,
		Reads: p.Sums.Reads, LocalReads: p.Sums.Local, PeerReads: p.Sums.Peer,
	}
}
