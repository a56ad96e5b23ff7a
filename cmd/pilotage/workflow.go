package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func (a workflowCommands) group() *cobra.Command {
	command := &cobra.Command{Use: "workflow", Short: "List, show, wait for, cancel, retry and delete workflows; fetch their outputs; write reports"}
	command.AddCommand(append(a.completed(workflowNames, a.show(), a.wait(), a.outputs(), a.cancel(), a.retry(), a.delete(), a.report()), a.list())...)
	return command
}

func stateName(s pb.WorkflowState) string {
	return strings.TrimPrefix(s.String(), "WORKFLOW_STATE_")
}

func taskStateName(s pb.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

func workflowTotal(w *pb.Workflow) int32 {
	return w.GetBlocked() + w.GetReady() + w.GetLeased() + w.GetDone() + w.GetFailed() + w.GetCancelled() + w.GetQuarantined()
}

func workflowRow(w *pb.Workflow) []any {
	ended := w.GetEnded().AsTime()
	if w.GetEnded() == nil {
		ended = time.Now()
	}
	return []any{
		w.GetId(), w.GetName(), w.GetOwner(), stateName(w.GetState()), fmt.Sprintf("%d/%d", w.GetDone(), workflowTotal(w)),
		w.GetBlocked(), w.GetReady(), w.GetLeased(), w.GetFailed() + w.GetQuarantined(), w.GetCancelled(),
		ended.Sub(w.GetCreated().AsTime()).Round(time.Millisecond * 100),
	}
}

var workflowHeader = []string{"WORKFLOW", "NAME", "OWNER", "STATE", "DONE", "BLOCKED", "READY", "LEASED", "FAILED", "CANCELLED", "TIME"}

func (o *console) printWorkflow(w *pb.Workflow) error {
	return o.print(w, workflowHeader, rowsOf([]*pb.Workflow{w}, workflowRow))
}

func (a workflowCommands) list() *cobra.Command {
	request := &pb.ListWorkflowsRequest{}
	command := a.tool("list", "List workflows, newest first", func(ctx context.Context, c *clients, _ []string) error {
		return printWhole(ctx, a.out, c.tasks.ListWorkflows, request, (*pb.ListWorkflowsResponse).GetWorkflows, workflowHeader, workflowRow)
	})
	command.Flags().StringVar(&request.Name, "name", "", "only of this name")
	command.Flags().StringVar(&request.Owner, "owner", "", "only of this person")
	command.Flags().BoolVar(&request.Mine, "mine", false, "only your own")
	command.MarkFlagsMutuallyExclusive("owner", "mine")
	return command
}

func (a workflowCommands) show() *cobra.Command {
	return a.tool("show WORKFLOW", "Show a workflow, by id or by name (the newest)", func(ctx context.Context, c *clients, args []string) error {
		reply, err := c.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: args[0]})
		if err != nil {
			return err
		}
		err = a.out.printWorkflow(reply.GetWorkflow())
		if why := reply.GetWorkflow().GetReason(); err == nil && why != "" {
			a.out.say("%s\n", why)
		}
		return err
	})
}

func (a workflowCommands) wait() *cobra.Command {
	var how wait
	command := a.tool("wait WORKFLOW", "Wait until a workflow is over; say what failed and why", func(ctx context.Context, c *clients, args []string) error {
		return a.waitWorkflow(ctx, c, args[0], how)
	})
	command.Flags().DurationVar(&how.timeout, "timeout", 0, "give up after this time, exit code 7 (default: never)")
	return command
}

// wait says how long to wait for a workflow; 0 means for ever. A quiet one
// prints nothing when all went well.
type wait struct {
	timeout time.Duration
	quiet   bool
}

// waitWorkflow follows a workflow to its end. Interrupting the wait leaves the
// workflow running and says so.
func (a *app) waitWorkflow(ctx context.Context, c *clients, id string, how wait) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if how.timeout > 0 {
		// A deadline would be sent along: the queue would end the call a moment
		// before we do, as if somebody had cancelled it.
		end := time.AfterFunc(how.timeout, cancel)
		defer end.Stop()
	}
	last, err := a.watch(watching, c, id)
	switch {
	case err == nil: // it is over, whatever has ended since
	case ctx.Err() != nil:
		a.out.note("the workflow goes on; wait again with: pilotage workflow wait %s\n", id)
		return &silentError{exitInterrupted}
	case watching.Err() != nil:
		return coded(exitTimeout, "%s is not over after %s; it goes on", id, how.timeout)
	default:
		return err
	}
	if !how.quiet {
		if err := a.out.printWorkflow(last); err != nil {
			return err
		}
	}
	if last.GetState() == pb.WorkflowState_WORKFLOW_STATE_DONE {
		if !how.quiet {
			a.out.showOutput(ctx, c, last)
		}
		return nil
	}
	if last.GetReason() != "" {
		a.out.note("%s\n", last.GetReason())
	}
	if last.GetDone() < workflowTotal(last) {
		if err := a.out.reportFailures(ctx, c, last); err != nil {
			return err
		}
	}
	return &silentError{exitFailed}
}

// outputShown bounds what is printed of the output of a workflow's one task.
const outputShown = 16 << 10

// showOutput prints, for people, what the only task of a workflow wrote to its
// standard output, or says how to see that of one of several.
func (o *console) showOutput(ctx context.Context, c *clients, w *pb.Workflow) {
	if o.output != "table" {
		return
	}
	if workflowTotal(w) != 1 {
		o.say("see what a task wrote with: pilotage task logs %s/TASK\n", w.GetId())
		return
	}
	id, err := onlyTask(ctx, c, w.GetId())
	if err != nil {
		return
	}
	logs, err := c.tasks.GetTaskLogs(ctx, &pb.GetTaskLogsRequest{TaskId: id})
	if err != nil {
		return // e.g. taken over from an earlier run: it has no attempt of its own
	}
	out := logs.GetStdout()
	if len(out) > outputShown {
		out = out[len(out)-outputShown:]
		if i := bytes.IndexByte(out, '\n'); i >= 0 {
			out = out[i+1:]
		}
		o.say("... the end of what it wrote; all that is kept: pilotage task logs %s\n", id)
	}
	o.say("%s", out)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		o.say("\n")
	}
}

const (
	failuresShown = 5
	stderrLines   = 20
)

// reportFailures prints, for the first failed tasks, where and how they
// failed, the end of their stderr, and how to retry.
func (o *console) reportFailures(ctx context.Context, c *clients, w *pb.Workflow) error {
	reply, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{
		Workflow: w.GetId(), PageSize: failuresShown, Full: true,
		States: []pb.TaskState{pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_QUARANTINED},
	})
	if err != nil {
		return err
	}
	for _, t := range reply.GetTasks() {
		o.reportFailure(ctx, c, t)
	}
	if more := w.GetFailed() + w.GetQuarantined() - int32(len(reply.GetTasks())); more > 0 {
		o.note("... and %d more: pilotage task list %s --state FAILED\n", more, w.GetId())
	}
	if w.GetFailed()+w.GetQuarantined() == 0 {
		o.note("run what was cancelled again with: pilotage workflow retry %s\n", w.GetId())
		return nil
	}
	o.note("run what failed again with: pilotage workflow retry %s --failed\n", w.GetId())
	return nil
}

func (o *console) reportFailure(ctx context.Context, c *clients, t *pb.TaskInfo) {
	id := t.GetTask().GetId()
	o.note("task %s %s: %s\n", id, taskStateName(t.GetState()), t.GetReason())
	logs, err := c.tasks.GetTaskLogs(ctx, &pb.GetTaskLogsRequest{TaskId: id})
	if err != nil {
		o.note("  its log cannot be read: %s\n", explain(err))
		return
	}
	outcome := logs.GetAttempt().GetOutcome()
	o.note("  attempt a%d at site %s, pilot %s%s\n", outcome.GetNumber(), outcome.GetSite(), outcome.GetAttempt().GetPilot(), endText(outcome, t.GetReason()))
	lines := strings.Split(strings.TrimRight(string(logs.GetStderr()), "\n"), "\n")
	if len(lines) > stderrLines {
		lines = lines[len(lines)-stderrLines:]
	}
	for _, line := range lines {
		if line != "" {
			o.note("  | %s\n", line)
		}
	}
}

// endText is how a failed attempt's payload ended, without what has been said.
func endText(o *pb.Outcome, said string) string {
	end := fmt.Sprintf("exit code %d", o.GetExitCode())
	switch {
	case o.GetSignal() != "":
		end = "signal " + o.GetSignal()
	case o.GetExitCode() < 0: // it has not begun
		end = ""
	}
	text := ""
	for _, part := range []string{end, o.GetReason()} {
		if part != "" && !strings.Contains(said, part) {
			text, said = text+": "+part, said+part
		}
	}
	return text
}

func (a workflowCommands) outputs() *cobra.Command {
	var into string
	var list, force bool
	command := a.tool("outputs WORKFLOW", "Fetch a workflow's final outputs", func(ctx context.Context, c *clients, args []string) error {
		request := &pb.ListWorkflowOutputsRequest{Workflow: args[0]}
		files, err := everyPage(ctx, c.tasks.ListWorkflowOutputs, request, (*pb.ListWorkflowOutputsResponse).GetFiles)
		switch {
		case err != nil:
			return err
		case !list:
			return a.fetchOutputs(ctx, c, files, into, force)
		}
		return printList(a.out, files, []string{"FILE", "SIZE", "WHERE"}, func(f *pb.File) []any {
			return []any{task.LFN(f.GetLfn()).Local(), sizeText(f.GetSizeBytes()), whereIs(f)}
		})
	})
	command.Long = `Fetches all that can be fetched from the storage elements, and what none has from
the caches of living pilots, through the queue; compares it with its digest, and
names on stderr what could not be fetched and why. The queue then looks itself at the
copies, and has those that it finds bad, too, stored or made again while pilots live.
The exit code is that of the first failure: 3 when nobody gave the right bytes, 8 when an output was not made, or
nobody has it yet. Called again it fetches only what is missing.`
	command.Flags().StringVar(&into, "to", ".", "folder to write to")
	command.Flags().BoolVar(&list, "list", false, "only list them")
	command.Flags().BoolVar(&force, "force", false, "replace files that are there with other content")
	return command
}

// fetchOutputs writes files to a folder, none of them when one may not be
// written, else all that can be fetched.
func (a workflowCommands) fetchOutputs(ctx context.Context, c *clients, files []*pb.File, into string, force bool) error {
	target := func(f *pb.File) string { return filepath.Join(into, filepath.FromSlash(task.LFN(f.GetLfn()).Local())) }
	there := make([]bool, len(files))
	for i, f := range files {
		var err error
		if there[i], err = mayWrite(target(f), f, force); err != nil {
			return err
		}
	}
	var failures []error
	got := []*pb.File{}
	for i, f := range files {
		if !there[i] {
			if err := a.fetchFile(ctx, c, f, target(f)); ctx.Err() != nil {
				return err
			} else if err != nil {
				failures = append(failures, errors.Join(append([]error{err}, doubt(ctx, c, f)...)...))
				continue
			}
		}
		got = append(got, f)
	}
	err := printList(a.out, got, []string{"FILE", "SIZE", "WRITTEN TO"}, func(f *pb.File) []any {
		return []any{task.LFN(f.GetLfn()).Local(), sizeText(f.GetSizeBytes()), target(f)}
	})
	if err != nil || len(failures) == 0 {
		return err
	}
	return coded(exitCode(ctx, failures[0]), "%d of %s could not be fetched:\n%w", len(failures), task.Counted(len(files), "output"), errors.Join(failures...))
}

// doubt asks the queue to look at the copies of a file that could not be read.
func doubt(ctx context.Context, c *clients, f *pb.File) (said []error) {
	for _, r := range f.GetReplicas() {
		reply, err := c.files.DoubtCopy(ctx, &pb.DoubtCopyRequest{Lfn: f.GetLfn(), Url: r.GetUrl()})
		switch {
		case err != nil:
			said = append(said, fmt.Errorf("  the queue was asked to look at the copy at %s: %w", r.GetSite(), err))
		case reply.GetStruck():
			said = append(said, fmt.Errorf("  the queue finds the copy at %s bad, too: it is stored again from a cache or made again, if pilots live", r.GetSite()))
		case reply.GetReason() != "":
			said = append(said, fmt.Errorf("  the queue cannot look at the copy at %s: %s", r.GetSite(), reply.GetReason()))
		default:
			said = append(said, fmt.Errorf("  the queue reads the copy at %s well: look at the way to it from here", r.GetSite()))
		}
	}
	return said
}

func (a workflowCommands) cancel() *cobra.Command {
	return a.tool("cancel WORKFLOW", "Cancel what has not ended", func(ctx context.Context, c *clients, args []string) error {
		reply, err := c.tasks.CancelWorkflow(ctx, &pb.CancelWorkflowRequest{Workflow: args[0]})
		return a.out.done(err, reply, "%s cancelled", task.Counted(reply.GetCancelled(), "task"))
	})
}

func (a workflowCommands) retry() *cobra.Command {
	request := &pb.RetryWorkflowRequest{}
	command := a.tool("retry WORKFLOW", "Run again what failed or was cancelled", func(ctx context.Context, c *clients, args []string) error {
		request.Workflow = args[0]
		reply, err := c.tasks.RetryWorkflow(ctx, request)
		return a.out.done(err, reply, "%s to run again", task.Counted(reply.GetRetried(), "task"))
	})
	command.Flags().BoolVar(&request.FailedOnly, "failed", false, "only what failed, not what a user cancelled")
	return command
}

func (a workflowCommands) delete() *cobra.Command {
	request := &pb.DeleteWorkflowRequest{}
	command := a.tool("delete WORKFLOW", "Delete a workflow that is over, with its tasks and files", func(ctx context.Context, c *clients, args []string) error {
		request.Workflow = args[0]
		reply, err := c.tasks.DeleteWorkflow(ctx, request)
		if request.DryRun {
			return a.out.done(err, reply, "%s would go: %s", args[0], removed(reply.GetRemoval()))
		}
		return a.out.done(err, reply, "%s is deleted with %s; copies of its files follow", args[0], task.Counted(reply.GetRemoval().GetTasks(), "task"))
	})
	command.Long = `Deletes a workflow that is over (cancel it first if it is not), with the records and
logs of its tasks, and with all copies of its files that tasks have stored on storage
elements or that caches hold. A copy that another workflow names stays, and so does
what no task has stored: files that were uploaded or registered. A workflow that has
lost pilots, or that did not end well, keeps its files for up to half an hour more, since
attempts may still be told of. It cannot be undone.`
	command.Flags().BoolVar(&request.DryRun, "dry-run", false, "say what would go, delete nothing")
	return command
}

// removed says in words what goes.
func removed(r *pb.Removal) string {
	text := fmt.Sprintf("copies on storage elements: %d (%s)", r.GetCopies(), sizeText(r.GetBytes()))
	if r.GetTasks() > 0 || r.GetFiles() > 1 {
		text = fmt.Sprintf("%s, %s, %s", task.Counted(r.GetTasks(), "task"), task.Counted(r.GetFiles(), "file"), text)
	}
	if n := r.GetNamedElsewhere(); n > 0 {
		text += fmt.Sprintf("; %d stay because other files name them", n)
	}
	if n := r.GetNotStoredByTasks(); n > 0 {
		text += fmt.Sprintf("; %d stay because no task has stored them", n)
	}
	return text
}

// whereIs says where a file can be read from.
func whereIs(f *pb.File) string {
	var sites []string
	for _, r := range f.GetReplicas() {
		sites = append(sites, r.GetSite())
	}
	switch {
	case len(sites) > 0:
		return "storage of " + strings.Join(slices.Compact(slices.Sorted(slices.Values(sites))), ", ")
	case len(f.GetAnnounced()) > 0:
		return "caches of " + strings.Join(f.GetAnnounced(), ", ")
	case unmade(f):
		return "not made"
	}
	return "nowhere"
}

// unmade tells whether no task that ended well has made a file yet.
func unmade(f *pb.File) bool { return f.GetProducer() == nil && len(f.GetReplicas()) == 0 }
