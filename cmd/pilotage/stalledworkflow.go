package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// stallAfter is how long nothing of a workflow may be under way before whoever
// waits for it is told how to find out why: hand-outs and uploads take seconds.
const stallAfter = 10 * time.Second

// stall is what a workflow waits for while none of its tasks is at a site.
type stall int

const (
	notStalled stall = iota
	notTaken         // tasks are ready
	notStored        // all have ended, final outputs are in caches only
	stalls
)

func stallOf(w *pb.Workflow) stall {
	switch {
	case over(w) || w.GetLeased() > 0:
		return notStalled
	case w.GetReady() > 0:
		return notTaken
	case w.GetBlocked() == 0 && w.GetOutputsPending() > 0:
		return notStored
	}
	return notStalled
}

// stallHint tells once, for each reason, that a workflow does not go on.
type stallHint struct {
	explain func(w *pb.Workflow, why stall) string
	print   func(text string)
	told    [stalls]sync.Once
	why     stall
	timer   *time.Timer // runs while the workflow is stalled
}

// newStallHint makes a hint that has not been given yet; end stops it.
func (o *console) newStallHint(ctx context.Context, c *clients, shown *watchBar) *stallHint {
	return &stallHint{
		explain: func(w *pb.Workflow, why stall) string { return explainStall(ctx, c, w, why) },
		print: func(text string) {
			if o.output == "table" && isTerminal(o.stderr) {
				_, _ = shown.progress.Write([]byte(text)) // above the bar
				return
			}
			_, _ = fmt.Fprint(o.stderr, text)
		},
	}
}

func explainStall(ctx context.Context, c *clients, w *pb.Workflow, why stall) string {
	if why == notStored {
		return fmt.Sprintf("all tasks have ended, and final outputs wait to be stored (%d); which: pilotage workflow outputs %s --list;\n"+
			"why: the logs of the pilots that made them\n", w.GetOutputsPending()-w.GetOutputsCached(), w.GetId())
	}
	name := w.GetId() + "/TASK"
	list, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{
		Workflow: w.GetId(), PageSize: 1, States: []pb.TaskState{pb.TaskState_TASK_STATE_READY},
	})
	if err == nil && len(list.GetTasks()) > 0 {
		name = list.GetTasks()[0].GetTask().GetId()
	}
	return fmt.Sprintf("no site has taken a task for %s; to see why: pilotage task explain '%s'\n", stallAfter, name)
}

// heard takes in what the queue tells of the workflow.
func (h *stallHint) heard(w *pb.Workflow) {
	why := stallOf(w)
	if why != h.why {
		h.end()
		h.why = why
	}
	if why != notStalled && h.timer == nil {
		h.timer = time.AfterFunc(stallAfter, func() {
			h.told[why].Do(func() { h.print(h.explain(w, why)) })
		})
	}
}

func (h *stallHint) end() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}
