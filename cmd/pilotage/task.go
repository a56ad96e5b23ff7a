package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func (a taskCommands) group() *cobra.Command {
	command := &cobra.Command{
		Use: "task", Short: "List, show, explain, cancel and retry tasks; read their logs",
		Long: `List, show, explain, cancel and retry tasks; read their logs.

A TASK is WORKFLOW/NAME as task list prints it; WORKFLOW is an id, or a name
for the newest workflow of that name. Of a workflow with one task the WORKFLOW
alone will do.`,
	}
	command.AddCommand(append(a.completed(workflowNames, a.list()), a.show(), a.logs(), a.explain(), a.cancel(), a.retry())...)
	return command
}

// taskTool makes a command that asks the queue about one task, which its first
// argument names.
func (a taskCommands) taskTool(use, short string, run func(ctx context.Context, c *clients, id string) error) *cobra.Command {
	return a.tool(use, short, func(ctx context.Context, c *clients, args []string) error {
		id, err := findTask(ctx, c, args[0])
		if err != nil {
			return err
		}
		return run(ctx, c, id)
	})
}

func (a taskCommands) list() *cobra.Command {
	var states []string
	request := &pb.ListTasksRequest{}
	command := a.tool("list WORKFLOW", "List a workflow's tasks", func(ctx context.Context, c *clients, args []string) error {
		request.Workflow = args[0]
		tasks, err := everyPage(ctx, c.tasks.ListTasks, request, (*pb.ListTasksResponse).GetTasks)
		if err != nil {
			return err
		}
		return a.out.printTasks(tasks, request.GetFull())
	})
	command.PreRunE = func(*cobra.Command, []string) error {
		for _, state := range states {
			value := pb.TaskState_value["TASK_STATE_"+strings.ToUpper(state)]
			if value == 0 {
				return coded(exitUsage, "unknown state %q: BLOCKED, READY, LEASED, DONE, FAILED, CANCELLED or QUARANTINED", state)
			}
			request.States = append(request.States, pb.TaskState(value))
		}
		return nil
	}
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states")
	completeWords(command, "state", "BLOCKED", "READY", "LEASED", "DONE", "FAILED", "CANCELLED", "QUARANTINED")
	command.Flags().BoolVar(&request.Full, "full", false, "with descriptions and attempts (for --output json)")
	return command
}

// printTasks prints a list; of tasks that came without description and
// attempts programs get the id and the state.
func (o *console) printTasks(tasks []*pb.TaskInfo, full bool) error {
	if o.output != "table" && !full {
		list := make([]any, len(tasks))
		for i, t := range tasks {
			fields, _ := plain(t).(map[string]any)
			delete(fields, "attempts")
			fields["task"] = map[string]any{"id": t.GetTask().GetId()}
			list[i] = fields
		}
		return o.print(list, nil, nil)
	}
	return printList(o, tasks, taskHeader, taskRow)
}

var taskHeader = []string{"TASK", "STATE", "SITE", "FAILURES", "REASON"}

func taskRow(t *pb.TaskInfo) []any {
	return []any{t.GetTask().GetId(), taskStateName(t.GetState()), t.GetSite(), t.GetFailures(), shorten(t.GetReason(), 80)}
}

func (a taskCommands) show() *cobra.Command {
	return a.taskTool("show TASK", "Show a task and its attempts", func(ctx context.Context, c *clients, id string) error {
		reply, err := c.tasks.GetTask(ctx, &pb.GetTaskRequest{TaskId: id})
		if err != nil {
			return err
		}
		t := reply.GetTask()
		return a.out.show(t, func() error {
			err := a.out.table(nil, [][]string{
				{"task", t.GetTask().GetId()}, {"state", taskStateName(t.GetState())}, {"reason", orDash(t.GetReason())},
				{"command", shorten(commandText(t.GetTask().GetShell(), t.GetTask().GetArgv()), 200)}, {"site", orDash(t.GetSite())}, {"generation", fmt.Sprint(t.GetGeneration())},
				{"failures", fmt.Sprint(t.GetFailures())}, {"missing inputs", fmt.Sprint(t.GetMissingInputs())},
			})
			return errors.Join(err, a.out.printAttempts(t))
		})
	})
}

// commandText is what a task runs.
func commandText(shell string, argv []string) string { return cmp.Or(shell, strings.Join(argv, " ")) }

// printAttempts shows people how often a task was tried, and how each attempt ended.
func (o *console) printAttempts(t *pb.TaskInfo) error {
	header := []string{"ATTEMPT", "STATE", "SITE", "PILOT", "EXIT", "RUN", "MEMORY", "REASON"}
	return o.table(header, rowsOf(t.GetAttempts(), attemptRow))
}

func attemptRow(attempt *pb.Attempt) []any {
	o := attempt.GetOutcome()
	end := cmp.Or(o.GetSignal(), fmt.Sprint(o.GetExitCode()))
	if o.GetSignal() == "" && (attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_RUNNING || o.GetExitCode() < 0) { // it has not begun
		end = ""
	}
	return []any{
		fmt.Sprintf("a%d", o.GetNumber()), strings.TrimPrefix(attempt.GetState().String(), "ATTEMPT_STATE_"), o.GetSite(),
		o.GetAttempt().GetPilot(), end, o.GetRun().AsDuration().Round(time.Millisecond), task.Bytes(o.GetMaxMemoryBytes()), o.GetReason(),
	}
}

func (a taskCommands) logs() *cobra.Command {
	request := &pb.GetTaskLogsRequest{}
	var stderr, both bool
	command := a.taskTool("logs TASK", "Print the end of an attempt's stdout (or stderr)", func(ctx context.Context, c *clients, id string) error {
		request.TaskId = id
		logs, err := c.tasks.GetTaskLogs(ctx, request)
		if err != nil {
			return err
		}
		return a.out.show(logs, func() error { return a.out.printLogs(logs, !stderr || both, stderr || both) })
	})
	command.Flags().Int32Var(&request.Number, "attempt", 0, "number of the attempt (default: the winner, else the newest)")
	command.Flags().BoolVar(&stderr, "stderr", false, "print stderr instead")
	command.Flags().BoolVar(&both, "all", false, "print stdout, then stderr")
	return command
}

// printLogs writes what of an attempt's logs is wanted. Where stdout alone is wanted and
// there is none, it says that there is something on stderr.
func (o *console) printLogs(logs *pb.GetTaskLogsResponse, stdout, stderr bool) (err error) {
	if wrote := len(logs.GetStderr()); !stderr && len(logs.GetStdout()) == 0 && wrote > 0 {
		o.note("stdout is empty, and stderr has %s: print it with --stderr\n", task.Bytes(wrote))
	}
	if stdout {
		_, err = o.stdout.Write(logs.GetStdout())
	}
	if err == nil && stderr {
		_, err = o.stdout.Write(logs.GetStderr())
	}
	return err
}

func (a taskCommands) explain() *cobra.Command {
	return a.taskTool("explain TASK", "Say why a task is where it is, and what it waits for", func(ctx context.Context, c *clients, id string) error {
		e, err := c.tasks.ExplainTask(ctx, &pb.ExplainTaskRequest{TaskId: id})
		if err != nil {
			return err
		}
		return a.out.show(e, func() error { return a.out.explainTask(e) })
	})
}

// explainTask tells people why a task is where it is.
func (o *console) explainTask(e *pb.ExplainTaskResponse) error {
	t := e.GetTask()
	o.say("%s is %s", t.GetTask().GetId(), taskStateName(t.GetState()))
	if t.GetReason() != "" {
		o.say(": %s", t.GetReason())
	}
	o.say("\n")
	for _, m := range e.GetMissing() {
		o.say("  input %s is missing: %s\n", m.GetLfn(), m.GetWhy())
	}
	if e.GetBackoff().AsDuration() > 0 {
		o.say("  it is tried again in %s\n", e.GetBackoff().AsDuration().Round(time.Millisecond))
	}
	if t.GetState() == pb.TaskState_TASK_STATE_READY {
		o.say("  ready tasks that come first: %d\n", e.GetAhead())
	}
	if len(e.GetSites()) > 0 {
		header := []string{"SITE", "ELIGIBLE", "PILOTS", "FREE SLOTS", "WAITING", "WHY"}
		if err := o.table(header, rowsOf(e.GetSites(), func(s *pb.SiteExplanation) []any {
			verdict := "no"
			if s.GetEligible() {
				verdict = "yes"
			}
			return []any{s.GetSite(), verdict, s.GetPilots(), s.GetFreeSlots(), s.GetWaiting(), whyText(s)}
		})); err != nil {
			return err
		}
	}
	for _, s := range e.GetSites() {
		if s.GetFallback() != "" {
			o.say("  %s is in mode isolated: %s\n", s.GetSite(), s.GetFallback())
		}
	}
	if len(t.GetAttempts()) == 0 {
		return nil
	}
	return o.printAttempts(t)
}

// whyText is a site's reason; the clauses that its pilots fail are added unless
// it names them already.
func whyText(s *pb.SiteExplanation) string {
	clauses := s.GetClauses()
	named := len(clauses) > 0
	for _, clause := range clauses {
		named = named && strings.Contains(s.GetWhy(), clause.GetClause())
	}
	if len(clauses) == 0 || named {
		return s.GetWhy()
	}
	return strings.TrimPrefix(s.GetWhy()+"; "+clausesText(clauses), "; ")
}

func (a taskCommands) cancel() *cobra.Command {
	return a.taskTool("cancel TASK", "Cancel a task and what depends on it", func(ctx context.Context, c *clients, id string) error {
		reply, err := c.tasks.CancelTask(ctx, &pb.CancelTaskRequest{TaskId: id})
		return a.out.done(err, reply, "%s cancelled", task.Counted(reply.GetCancelled(), "task"))
	})
}

func (a taskCommands) retry() *cobra.Command {
	return a.taskTool("retry TASK", "Run a task that ended badly again, with what it cancelled", func(ctx context.Context, c *clients, id string) error {
		reply, err := c.tasks.RetryTask(ctx, &pb.RetryTaskRequest{TaskId: id})
		return a.out.done(err, reply, "%s to run again", task.Counted(reply.GetRetried(), "task"))
	})
}
