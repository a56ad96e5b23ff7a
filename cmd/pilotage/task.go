package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func newTask(a *app) *cobra.Command {
	command := &cobra.Command{
		Use: "task", Short: "List, show, explain, cancel and retry tasks; read their logs",
		Long: `List, show, explain, cancel and retry tasks; read their logs.

A TASK is WORKFLOW/NAME as task list prints it; WORKFLOW is an id, or a name
for the newest workflow of that name. Of a workflow with one task the WORKFLOW
alone will do.`,
	}
	command.AddCommand(completeNames(a, newTaskList(a), workflowNames), newTaskShow(a), newTaskLogs(a), newTaskExplain(a), newTaskCancel(a), newTaskRetry(a))
	return command
}

func newTaskList(a *app) *cobra.Command {
	var states []string
	var full bool
	command := &cobra.Command{
		Use: "list WORKFLOW", Short: "List a workflow's tasks", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			wanted := make([]pb.TaskState, len(states))
			for i, state := range states {
				value, known := pb.TaskState_value["TASK_STATE_"+strings.ToUpper(state)]
				if !known || value == 0 {
					return coded(exitUsage, "unknown state %q: BLOCKED, READY, LEASED, DONE, FAILED, CANCELLED or QUARANTINED", state)
				}
				wanted[i] = pb.TaskState(value)
			}
			return a.withQueue(func(cl *clients) error {
				var tasks []*pb.TaskInfo
				err := pages(func(token string) (string, error) {
					reply, err := cl.tasks.ListTasks(c.Context(), &pb.ListTasksRequest{Workflow: args[0], States: wanted, PageSize: pageSize, PageToken: token, Full: full})
					tasks = append(tasks, reply.GetTasks()...)
					return reply.GetNextPageToken(), err
				})
				if err != nil {
					return err
				}
				return a.printTasks(tasks, full)
			})
		},
	}
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states")
	completeWords(command, "state", "BLOCKED", "READY", "LEASED", "DONE", "FAILED", "CANCELLED", "QUARANTINED")
	command.Flags().BoolVar(&full, "full", false, "with descriptions and attempts (for --output json)")
	return command
}

// printTasks prints a list; of tasks that came without description and
// attempts programs get the id and the state.
func (a *app) printTasks(tasks []*pb.TaskInfo, full bool) error {
	if a.output != "table" && !full {
		list := make([]map[string]any, len(tasks))
		for i, t := range tasks {
			fields, err := tree(t)
			if err != nil {
				return err
			}
			delete(fields, "attempts")
			fields["task"] = map[string]any{"id": t.GetTask().GetId()}
			list[i] = fields
		}
		return a.print(list, nil, nil)
	}
	rows := make([][]string, len(tasks))
	for i, t := range tasks {
		rows[i] = []string{t.GetTask().GetId(), taskStateName(t.GetState()), orDash(t.GetSite()), fmt.Sprint(t.GetFailures()), orDash(shorten(t.GetReason(), 80))}
	}
	return a.print(tasks, []string{"TASK", "STATE", "SITE", "FAILURES", "REASON"}, rows)
}

func newTaskShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "Show a task and its attempts", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				id, err := findTask(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				reply, err := cl.tasks.GetTask(c.Context(), &pb.GetTaskRequest{TaskId: id})
				if err != nil {
					return err
				}
				t := reply.GetTask()
				if a.output != "table" {
					return a.printJSON(t, a.output == "json")
				}
				command := t.GetTask().GetShell()
				if command == "" {
					command = strings.Join(t.GetTask().GetArgv(), " ")
				}
				if err := a.table(nil, [][]string{
					{"task", t.GetTask().GetId()}, {"state", taskStateName(t.GetState())}, {"reason", orDash(t.GetReason())},
					{"command", shorten(command, 200)}, {"site", orDash(t.GetSite())}, {"generation", fmt.Sprint(t.GetGeneration())},
					{"failures", fmt.Sprint(t.GetFailures())}, {"missing inputs", fmt.Sprint(t.GetMissingInputs())},
				}); err != nil {
					return err
				}
				return a.table(attemptHeader, attemptRows(t.GetAttempts()))
			})
		},
	}
}

var attemptHeader = []string{"ATTEMPT", "STATE", "SITE", "PILOT", "EXIT", "RUN", "MEMORY", "REASON"}

func attemptRows(attempts []*pb.Attempt) [][]string {
	rows := make([][]string, len(attempts))
	for i, attempt := range attempts {
		o := attempt.GetOutcome()
		end := fmt.Sprint(o.GetExitCode())
		switch {
		case o.GetSignal() != "":
			end = o.GetSignal()
		case attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_RUNNING || o.GetExitCode() < 0: // it has not begun
			end = "-"
		}
		rows[i] = []string{
			fmt.Sprintf("a%d", o.GetNumber()), strings.TrimPrefix(attempt.GetState().String(), "ATTEMPT_STATE_"), o.GetSite(),
			o.GetAttempt().GetPilot(), end, o.GetRun().AsDuration().Round(time.Millisecond).String(), task.Bytes(o.GetMaxMemoryBytes()).String(), orDash(o.GetReason()),
		}
	}
	return rows
}

func newTaskLogs(a *app) *cobra.Command {
	var attempt int32
	var stderr, both bool
	command := &cobra.Command{
		Use: "logs TASK", Short: "Print the end of an attempt's stdout (or stderr)", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				id, err := findTask(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				logs, err := cl.tasks.GetTaskLogs(c.Context(), &pb.GetTaskLogsRequest{TaskId: id, Number: attempt})
				if err != nil {
					return err
				}
				if a.output != "table" {
					return a.printJSON(logs, a.output == "json")
				}
				if !stderr || both {
					if _, err := a.stdout.Write(logs.GetStdout()); err != nil {
						return err
					}
				}
				if stderr || both {
					_, err = a.stdout.Write(logs.GetStderr())
				}
				return err
			})
		},
	}
	command.Flags().Int32Var(&attempt, "attempt", 0, "number of the attempt (default: the winner, else the newest)")
	command.Flags().BoolVar(&stderr, "stderr", false, "print stderr instead")
	command.Flags().BoolVar(&both, "all", false, "print stdout, then stderr")
	return command
}

func newTaskExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "explain TASK", Short: "Say why a task is where it is, and what it waits for", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				id, err := findTask(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				return a.explainTask(c.Context(), cl, id)
			})
		},
	}
}

func (a *app) explainTask(ctx context.Context, c *clients, id string) error {
	e, err := c.tasks.ExplainTask(ctx, &pb.ExplainTaskRequest{TaskId: id})
	if err != nil {
		return err
	}
	if a.output != "table" {
		return a.printJSON(e, a.output == "json")
	}
	t := e.GetTask()
	a.say("%s is %s", id, taskStateName(t.GetState()))
	if t.GetReason() != "" {
		a.say(": %s", t.GetReason())
	}
	a.say("\n")
	for _, m := range e.GetMissing() {
		a.say("  input %s is missing: %s\n", m.GetLfn(), m.GetWhy())
	}
	if e.GetBackoff().AsDuration() > 0 {
		a.say("  it is tried again in %s\n", e.GetBackoff().AsDuration().Round(time.Millisecond))
	}
	if t.GetState() == pb.TaskState_TASK_STATE_READY {
		a.say("  ready tasks that come first: %d\n", e.GetAhead())
	}
	rows := make([][]string, 0, len(e.GetSites()))
	for _, s := range e.GetSites() {
		verdict := "no"
		if s.GetEligible() {
			verdict = "yes"
		}
		rows = append(rows, []string{s.GetSite(), verdict, fmt.Sprint(s.GetPilots()), fmt.Sprint(s.GetFreeSlots()), fmt.Sprint(s.GetWaiting()), whyText(s)})
	}
	if len(rows) > 0 {
		if err := a.table([]string{"SITE", "ELIGIBLE", "PILOTS", "FREE SLOTS", "WAITING", "WHY"}, rows); err != nil {
			return err
		}
	}
	for _, s := range e.GetSites() {
		if s.GetFallback() != "" {
			a.say("  %s is in mode isolated: %s\n", s.GetSite(), s.GetFallback())
		}
	}
	if len(t.GetAttempts()) == 0 {
		return nil
	}
	return a.table(attemptHeader, attemptRows(t.GetAttempts()))
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

func newTaskCancel(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "cancel TASK", Short: "Cancel a task and what depends on it", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				id, err := findTask(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				reply, err := cl.tasks.CancelTask(c.Context(), &pb.CancelTaskRequest{TaskId: id})
				if err != nil {
					return err
				}
				return a.done(reply, "%s cancelled", task.Counted(reply.GetCancelled(), "task"))
			})
		},
	}
}

func newTaskRetry(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "retry TASK", Short: "Run a task that ended badly again, with what it cancelled", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				id, err := findTask(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				reply, err := cl.tasks.RetryTask(c.Context(), &pb.RetryTaskRequest{TaskId: id})
				if err != nil {
					return err
				}
				return a.done(reply, "%s to run again", task.Counted(reply.GetRetried(), "task"))
			})
		},
	}
}
