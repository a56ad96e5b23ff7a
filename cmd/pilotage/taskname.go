package main

import (
	"context"
	"strings"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// findTask returns the id of a task that is named by its id, by its workflow's
// name and its own, or, where there is but one, by its workflow alone.
func findTask(ctx context.Context, c *clients, given string) (string, error) {
	if _, err := task.ParseID(given); err == nil {
		return given, nil
	}
	workflow, name, named := strings.Cut(given, "/")
	if at := strings.LastIndexByte(name, '/'); at >= 0 { // OWNER/WORKFLOW/NAME
		workflow, name = workflow+"/"+name[:at], name[at+1:]
	}
	if workflow == "" || named && !task.ValidName(name) {
		return "", coded(exitUsage, "%q is no task: give WORKFLOW/NAME as `pilotage task list WORKFLOW` prints it", given)
	}
	reply, err := c.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: workflow})
	if err != nil {
		return "", err
	}
	w := reply.GetWorkflow()
	if named {
		return w.GetId() + "/" + name, nil
	}
	if total := workflowTotal(w); total != 1 {
		return "", coded(exitUsage, "workflow %s has %d tasks: name one of them, as `pilotage task list %s` prints it", given, total, given)
	}
	return onlyTask(ctx, c, w.GetId())
}

// onlyTask returns the id of the first, or only, task of a workflow.
func onlyTask(ctx context.Context, c *clients, workflow string) (string, error) {
	list, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: workflow, PageSize: 1})
	if err != nil {
		return "", err
	}
	if len(list.GetTasks()) == 0 {
		return "", coded(exitNotFound, "workflow %s has no task", workflow)
	}
	return list.GetTasks()[0].GetTask().GetId(), nil
}
