package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

const (
	// reportBars is how many attempts a report draws, the longest if there are more;
	// reportTasks how many of the slowest and of the failed tasks it names.
	reportBars  = 12_000
	reportTasks = 25
)

func (a workflowCommands) report() *cobra.Command {
	target := ""
	command := a.tool("report WORKFLOW", "Write a report of a workflow: one HTML file with all that it needs", func(ctx context.Context, c *clients, args []string) error {
		report, err := collectReport(ctx, c, args[0])
		if err != nil {
			return err
		}
		var content bytes.Buffer
		if err := page.WriteReport(&content, report); err != nil {
			return err
		}
		path := cmp.Or(target, report.ID+".html")
		if path == "-" {
			_, err = a.out.stdout.Write(content.Bytes())
			return err
		}
		if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil { //nolint:gosec // for those whom its author shows it
			return err
		}
		return a.out.done(nil, map[string]any{"workflow": report.ID, "file": path, "bytes": content.Len()}, "report of %s written to %s", report.ID, path)
	})
	command.Long = `Writes what came of a workflow: its steps as a graph, attempts over time by node and
pilot, where inputs came from, wasted work, the slowest and the failed tasks. The file
loads nothing from elsewhere; a browser shows it without a queue.`
	command.Flags().StringVar(&target, "to", "", "where to write it, - is stdout (default: WORKFLOW_ID.html in this folder)")
	return command
}

// reportSums are a report in the making.
type reportSums struct {
	page.Report
	files page.FileCount
}

func collectReport(ctx context.Context, c *clients, name string) (*page.Report, error) {
	found, err := c.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: name})
	if err != nil {
		return nil, err
	}
	w := found.GetWorkflow()
	sums, err := c.tasks.GetWorkflowSteps(ctx, &pb.GetWorkflowStepsRequest{Workflow: w.GetId()})
	if err != nil {
		return nil, err
	}
	tasks, err := everyPage(ctx, c.tasks.ListTasks, &pb.ListTasksRequest{Workflow: w.GetId(), Full: true}, (*pb.ListTasksResponse).GetTasks)
	if err != nil {
		return nil, err
	}
	pilots, err := everyPage(ctx, c.pilots.ListPilots, &pb.ListPilotsRequest{All: true}, (*pb.ListPilotsResponse).GetPilots)
	if err != nil {
		return nil, err
	}
	r := &reportSums{Report: page.Report{Name: w.GetName(), ID: w.GetId(), Wasted: make(map[string]page.Waste), Hosts: make(map[string]string)}}
	if r.Steps, err = rawList(sums.GetSteps()); err != nil {
		return nil, err
	}
	if r.Failures, err = rawList(sums.GetFailures()); err != nil {
		return nil, err
	}
	for _, t := range tasks {
		r.add(t)
	}
	r.finish(w, pilots)
	return &r.Report, nil
}

// rawList encodes messages as the page gets them.
func rawList[M proto.Message](list []M) (raw []json.RawMessage, err error) {
	for _, message := range list {
		text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
		if err != nil {
			return nil, err
		}
		raw = append(raw, text)
	}
	return raw, nil
}

// add takes a task with its attempts.
func (r *reportSums) add(t *pb.TaskInfo) {
	told := page.ReportTask{ID: t.GetTask().GetId(), Site: t.GetSite(), Attempts: len(t.GetAttempts()), Reason: t.GetReason()}
	for _, attempt := range t.GetAttempts() {
		o := attempt.GetOutcome()
		run := o.GetRun().AsDuration().Seconds()
		if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_SUCCEEDED {
			r.Useful += run
			told.StageIn, told.Run = o.GetStageIn().AsDuration().Seconds(), run
		} else {
			kind := "ended " + strings.TrimPrefix(attempt.GetState().String(), "ATTEMPT_STATE_")
			waste := r.Wasted[kind]
			waste.Attempts, waste.Seconds = waste.Attempts+1, waste.Seconds+run
			r.Wasted[kind] = waste
		}
		reads := r.addReads(o)
		if o.GetStarted() == nil {
			continue
		}
		r.Bars = append(r.Bars, page.Bar{
			Task: told.ID, Attempt: fmt.Sprintf("%s/a%d", told.ID, o.GetNumber()), Pilot: o.GetAttempt().GetPilot(), Start: o.GetStarted().AsTime().UnixMilli(),
			StageIn: o.GetStageIn().AsDuration().Milliseconds(), Run: max(1, o.GetRun().AsDuration().Milliseconds()), OK: o.GetOk(), Source: page.MainSource(reads),
		})
	}
	switch t.GetState() {
	case pb.TaskState_TASK_STATE_DONE:
		r.Slowest = append(r.Slowest, told)
	case pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_QUARANTINED:
		r.Failed = append(r.Failed, told)
	default:
	}
}

// addReads counts what an attempt has read, and returns it.
func (r *reportSums) addReads(o *pb.Outcome) (reads []task.Read) {
	for _, told := range o.GetReads() {
		read, err := taskpb.FromRead(told)
		if err != nil {
			continue // of a newer release
		}
		r.Reads[read.Source]++
		r.Bytes[read.Source] += uint64(max(0, read.Size))
		r.files.Add(read)
		reads = append(reads, read)
	}
	return reads
}

// finish leaves what a report has room for, and says what the workflow was.
func (r *reportSums) finish(w *pb.Workflow, pilots []*pb.Pilot) {
	if len(r.Bars) > reportBars {
		slices.SortFunc(r.Bars, func(x, y page.Bar) int { return cmp.Compare(y.Run+y.StageIn, x.Run+x.StageIn) })
		r.Bars = r.Bars[:reportBars]
	}
	drawn := make(map[string]bool)
	for i := range r.Bars {
		drawn[r.Bars[i].Pilot] = true
	}
	for _, p := range pilots {
		if id := p.GetContact().GetPilot(); drawn[id] {
			r.Hosts[id] = p.GetHost()
		}
	}
	slices.SortStableFunc(r.Slowest, func(x, y page.ReportTask) int { return cmp.Compare(y.Run, x.Run) })
	r.Slowest, r.Failed = r.Slowest[:min(reportTasks, len(r.Slowest))], r.Failed[:min(reportTasks, len(r.Failed))]
	r.Files = r.files.Hottest()
	r.Facts = [][2]string{
		{"owner", orDash(w.GetOwner())}, {"state", stateName(w.GetState())}, {"tasks done", fmt.Sprintf("%d of %d", w.GetDone(), workflowTotal(w))},
		{"taken over from an earlier run", fmt.Sprint(w.GetReused())}, {"submitted", w.GetCreated().AsTime().Format(inUTC)},
	}
	if w.GetEnded() != nil {
		ended := w.GetEnded().AsTime()
		r.Facts = append(r.Facts, [2]string{"ended", ended.Format(inUTC)}, [2]string{"makespan", ended.Sub(w.GetCreated().AsTime()).Round(time.Second / 10).String()})
	}
}
