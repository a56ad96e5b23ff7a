package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

const (
	// mostSummed bounds the tasks of a workflow that are summed up.
	mostSummed = 100_000
	// mostSteps bounds the steps that are told from each other, mostMakers those that
	// one is said to come after.
	mostSteps, mostMakers = 1000, 50
	otherSteps            = "other steps"
	// stepSample is how many tasks of a step are looked at for what it reads, and how
	// many ended ones for how long they ran.
	stepSample = 24
	// mostFailures and failureSteps bound the groups of failures, and the steps named.
	mostFailures, failureSteps = 100, 5
	// mostLayers bounds the length of chains of steps that are told from each other.
	mostLayers = 200
	// A sum is taken again after keepSteps, or so many times as long as it took:
	// viewers of a large workflow cost a tenth of a core at most.
	keepSteps     = 2 * time.Second
	keepStepsCost = 10
	mostStepsKept = 32
)

// stepSums are the newest sums of workflows, for all that look at them.
type stepSums = page.Answers[*pb.GetWorkflowStepsResponse]

func newStepSums() *stepSums {
	return page.NewAnswers[*pb.GetWorkflowStepsResponse](mostStepsKept)
}

// GetWorkflowSteps sums up a workflow. Steps are told by the names of tasks.
func (h *taskHandlers) GetWorkflowSteps(ctx context.Context, in *pb.GetWorkflowStepsRequest) (*pb.GetWorkflowStepsResponse, error) {
	w, err := seen(ctx, h.server.turns, func(t *taskqueue.Turn) (taskqueue.Workflow, error) { return callerOf(ctx).sees(t, in.GetWorkflow()) })
	if err != nil {
		return nil, err
	}
	return h.server.shown.steps.Get(ctx, string(w.ID), func() (*pb.GetWorkflowStepsResponse, time.Time, error) {
		began := time.Now()
		reply, err := seen(ofQueue(ctx), h.server.turns, func(t *taskqueue.Turn) (*pb.GetWorkflowStepsResponse, error) { return sumSteps(t, w.ID), nil })
		return reply, time.Now().Add(max(keepSteps, keepStepsCost*time.Since(began))), err
	})
}

// stepTally is a step while it is summed up.
type stepTally struct {
	pb.WorkflowStep
	sample []task.ID // of its tasks
	ended  []task.ID // newest DONE ones
	seen   int
}

func sumSteps(t *taskqueue.Turn, id task.WorkflowID) *pb.GetWorkflowStepsResponse {
	steps := make(map[string]*stepTally)
	failures := make(map[string]*pb.FailureGroup)
	reply := &pb.GetWorkflowStepsResponse{}
	order := []*stepTally{}
	for after, total := uint64(0), 0; ; {
		states := taskqueue.Read(t.Tasks().InWorkflow(id, after, maxPage))
		for i := range states {
			s := &states[i]
			name := taskqueue.StepOf(s.ID)
			step := steps[name]
			if step == nil && len(steps) >= mostSteps {
				name = otherSteps
				step = steps[name]
			}
			if step == nil {
				step = &stepTally{}
				step.Name = name
				steps[name] = step
				order = append(order, step)
			}
			step.add(s)
			noteFailure(failures, s, name)
		}
		if total += len(states); len(states) < maxPage {
			break
		}
		if after = states[len(states)-1].Seq; total >= mostSummed {
			reply.Partial = true
			break
		}
	}
	for _, step := range order {
		step.look(t)
		reply.Steps = append(reply.Steps, &step.WorkflowStep)
	}
	for _, group := range failures {
		reply.Failures = append(reply.Failures, group)
	}
	slices.SortFunc(reply.Failures, func(x, y *pb.FailureGroup) int {
		return cmp.Or(cmp.Compare(y.GetTasks(), x.GetTasks()), cmp.Compare(x.GetReason(), y.GetReason()))
	})
	if left, known := timeLeft(reply.GetSteps()); known {
		reply.Left = durationpb.New(left)
	}
	return reply
}

// add counts a task. The first ones are looked at, and then ever fewer.
func (s *stepTally) add(t *taskqueue.TaskState) {
	s.Tasks++
	switch t.State {
	case task.Blocked:
		s.Blocked++
	case task.Ready:
		s.Ready++
	case task.Leased:
		s.Leased++
	case task.Done:
		s.Done++
		if s.ended = append(s.ended, t.ID); len(s.ended) > stepSample {
			s.ended = s.ended[1:]
		}
	case task.Cancelled:
		s.Cancelled++
	default:
		s.Failed++
	}
	if s.seen++; s.seen&(s.seen-1) == 0 || len(s.sample) < stepSample {
		s.sample = append(s.sample, t.ID)
	}
}

func noteFailure(failures map[string]*pb.FailureGroup, s *taskqueue.TaskState, step string) {
	if s.State != task.Failed && s.State != task.Quarantined {
		return
	}
	reason := task.Brief(s.Reason)
	group := failures[reason]
	if group == nil {
		if len(failures) >= mostFailures {
			reason = "other reasons"
			group = failures[reason]
		}
		if group == nil {
			group = &pb.FailureGroup{Reason: reason, Task: string(s.ID)}
			failures[reason] = group
		}
	}
	group.Tasks++
	if len(group.GetSteps()) < failureSteps && !slices.Contains(group.GetSteps(), step) {
		group.Steps = append(group.Steps, step)
	}
}

// look finds out what a step reads and how long it runs, from some of its tasks.
func (s *stepTally) look(t *taskqueue.Turn) {
	specs := taskqueue.Read(t.Tasks().Describe(s.sample...))
	var read []task.LFN
	for i := range specs {
		for _, in := range specs[i].Inputs[:min(len(specs[i].Inputs), 200)] {
			read = append(read, in.LFN)
		}
	}
	slices.Sort(read)
	files := taskqueue.Read(t.Files().Load(slices.Compact(read)...))
	for i := range files {
		maker := taskqueue.StepOf(files[i].ProducerTask)
		if maker != "" && maker != s.GetName() && len(s.GetAfter()) < mostMakers && !slices.Contains(s.GetAfter(), maker) {
			s.After = append(s.After, maker)
		}
	}
	slices.SortFunc(s.After, strings.Compare)
	var runs, stages []float64
	for _, id := range s.ended {
		attempts := taskqueue.Read(t.Attempts().OfTask(id))
		for i := range attempts {
			if a := &attempts[i]; a.State == taskqueue.AttemptSucceeded {
				runs, stages = append(runs, a.Outcome.Run.Seconds()), append(stages, a.Outcome.StageIn.Seconds())
			}
		}
	}
	s.RunSeconds, s.StageInSeconds = median(runs), median(stages)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// timeLeft estimates when the tasks of a workflow are done: what is left of them, by
// the run times of their steps, divided among the tasks that run or are held now;
// at least as long as the longest chain of steps that are not done takes. A step of
// which nothing has ended counts as the mean of the others.
func timeLeft(steps []*pb.WorkflowStep) (left time.Duration, known bool) {
	sum, n, held := 0.0, 0, int32(0)
	for _, s := range steps {
		if s.GetRunSeconds() > 0 {
			sum, n = sum+s.GetRunSeconds()+s.GetStageInSeconds(), n+1
		}
		held += s.GetLeased()
	}
	if n == 0 || held == 0 {
		return 0, false
	}
	each := func(s *pb.WorkflowStep) float64 {
		if s.GetRunSeconds() > 0 {
			return s.GetRunSeconds() + s.GetStageInSeconds()
		}
		return sum / float64(n)
	}
	chain := make(map[string]float64, len(steps)) // makers need not come first
	longest, work := 0.0, 0.0
	for pass, moved := 0, true; moved && pass < min(len(steps), mostLayers); pass++ {
		moved = false
		for _, s := range steps {
			own, behind := 0.0, 0.0
			if s.GetBlocked()+s.GetReady()+s.GetLeased() > 0 {
				own = each(s)
			}
			for _, maker := range s.GetAfter() {
				behind = max(behind, chain[maker])
			}
			if own+behind > chain[s.GetName()] {
				chain[s.GetName()], moved = own+behind, true
			}
			longest = max(longest, own+behind)
		}
	}
	for _, s := range steps {
		work += float64(s.GetBlocked()+s.GetReady()+s.GetLeased()) * each(s)
	}
	return time.Duration(max(longest, work/float64(held)) * float64(time.Second)), true
}
