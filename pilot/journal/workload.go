package journal

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Workload makes a workload of what a live site has run while its master's
// journal was written, to be played elsewhere: the tasks that were handed out to
// it and have succeeded, with the run times and the sizes that were measured.
// Files that no such task makes count as being there from the start.
func Workload(from io.Reader) (*trace.Workload, error) {
	reader, err := open(from)
	if err != nil {
		return nil, err
	}
	h := history{tasks: make(map[task.ID]*task.LeasedTask), sizes: make(map[task.LFN]task.Bytes), runs: make(map[task.ID]time.Duration)}
	steps := 0
	cut, err := reader.each(func(next record) error {
		steps++
		h.take(next.Event)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal after step %d: %w", steps, err)
	}
	b := trace.NewBuilder("journal of " + string(reader.header.Site))
	if cut {
		b.Note("the journal ends within a record: its pilot was killed")
	}
	return h.workload(b)
}

// history is what a journal tells of tasks and files.
type history struct {
	tasks map[task.ID]*task.LeasedTask
	sizes map[task.LFN]task.Bytes
	runs  map[task.ID]time.Duration // of the first success
}

func (h *history) take(event message.Event) {
	switch e := event.(type) {
	case master.TookOffice:
		h.hold(e.Leases)
	case master.SyncAnswered:
		h.hold(e.Reply.Leases)
	case master.BroadcastDone:
		for i := range e.Answers {
			if state := e.Answers[i].State; state != nil {
				h.end(state.Outcomes)
			}
		}
	case master.FromPilot:
		switch said := e.Message.(type) {
		case message.State:
			h.end(said.Outcomes)
		case message.Report:
			h.end(said.Outcomes)
		}
	}
}

func (h *history) hold(leases []task.Lease) {
	for _, lease := range leases {
		for i := range lease.Tasks {
			h.tasks[lease.Tasks[i].Task.ID] = &lease.Tasks[i]
		}
		for _, f := range lease.Files {
			if f.Size >= 0 {
				h.sizes[f.LFN] = f.Size
			}
		}
	}
}

func (h *history) end(outcomes []task.Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if _, again := h.runs[o.Attempt.Task]; again || !o.OK {
			continue
		}
		h.runs[o.Attempt.Task] = o.Run
		for _, p := range o.Outputs {
			h.sizes[p.LFN] = p.Size
		}
		for _, r := range o.Reads {
			if r.Size >= 0 {
				h.sizes[r.LFN] = r.Size
			}
		}
	}
}

// workload lists the tasks in the order of their submission.
func (h *history) workload(b *trace.Builder) (*trace.Workload, error) {
	var ended []*task.LeasedTask
	for id, t := range h.tasks {
		if _, ok := h.runs[id]; ok {
			ended = append(ended, t)
		}
	}
	if len(ended) == 0 {
		return nil, fmt.Errorf("the journal tells of no task that was handed out and has succeeded")
	}
	slices.SortFunc(ended, func(a, b *task.LeasedTask) int {
		return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.Task.ID, b.Task.ID))
	})
	if left := len(h.tasks) - len(ended); left > 0 {
		b.Note("%d tasks had not succeeded by the end of the journal: left out", left)
	}
	unknown := 0
	file := func(name task.LFN) string {
		size, known := h.sizes[name]
		if _, found := b.Find(string(name)); !found && !known {
			unknown++
		}
		b.File(string(name), size)
		return string(name)
	}
	for _, t := range ended {
		recorded := trace.Recorded{
			Name: string(t.Task.ID), Runtime: h.runs[t.Task.ID], Cores: t.Task.Resources.Cores, Memory: t.Task.Resources.Memory,
		}
		for _, in := range t.Task.Inputs {
			recorded.Inputs = append(recorded.Inputs, file(in.LFN))
		}
		for _, out := range t.Task.Outputs {
			recorded.Outputs = append(recorded.Outputs, file(out.LFN))
		}
		if err := b.Task(recorded); err != nil {
			return nil, err
		}
	}
	if unknown > 0 {
		b.Note("the journal does not tell the size of %d files: they count as empty", unknown)
	}
	return b.Workload()
}
