package taskqueue_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// everything is a naive reading of the whole store, to check its sums by.
type everything struct {
	workflows []taskqueue.Workflow
	tasks     map[task.ID]taskqueue.TaskState
	specs     map[task.ID]task.Task
	order     []task.ID
	files     map[task.LFN]taskqueue.FileRecord
	leases    map[task.LeaseID]taskqueue.Lease
	sites     []taskqueue.SiteRecord
	classes   map[taskqueue.ClassID]taskqueue.Eligibility
	deleting  bool // a workflow is being cleared away
}

func readAll(t *taskqueue.Turn) (*everything, error) {
	e := &everything{
		tasks: make(map[task.ID]taskqueue.TaskState), specs: make(map[task.ID]task.Task),
		files: make(map[task.LFN]taskqueue.FileRecord), leases: make(map[task.LeaseID]taskqueue.Lease),
		classes: make(map[taskqueue.ClassID]taskqueue.Eligibility),
	}
	var err error
	if e.workflows, err = t.Workflows().List("", "", "", 1000); err != nil {
		return nil, err
	}
	all := len(e.workflows)
	e.workflows = slices.DeleteFunc(e.workflows, func(w taskqueue.Workflow) bool { return w.Deleted })
	e.deleting = len(e.workflows) < all
	for _, w := range e.workflows {
		states, err := t.Tasks().InWorkflow(w.ID, 0, 1_000_000)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			e.tasks[s.ID] = s
			e.order = append(e.order, s.ID)
			specs, err := t.Tasks().Describe(s.ID)
			if err != nil {
				return nil, err
			}
			e.specs[s.ID] = specs[0]
		}
	}
	files, err := t.Files().List("", "", 1_000_000)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		e.files[f.LFN] = f
	}
	leases, err := t.Leases().ExpiredBy(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		e.leases[l.ID] = l
	}
	classes, err := t.Files().Classes()
	if err != nil {
		return nil, err
	}
	for _, c := range classes {
		e.classes[c.ID] = c
	}
	e.sites, err = t.Sites().All()
	return e, err
}

func (e *everything) exists(name task.LFN) bool {
	f := e.files[name]
	return len(f.Announced)+len(f.Replicas) > 0
}

// reads is a second writing of the rule who can read what.
func reads(s taskqueue.SiteRecord, f taskqueue.FileRecord) bool {
	for _, holder := range f.Announced {
		if holder == s.Name {
			return true
		}
	}
	for _, r := range f.Replicas {
		if r.Site == s.Name || s.RemoteRead && (len(s.Reach) == 0 || slices.Contains(s.Reach, r.Site)) {
			return true
		}
	}
	return false
}

// able lists the sites that can read all inputs of a task.
func (e *everything) able(spec task.Task) []task.Site {
	var able []task.Site
	for _, s := range e.sites {
		if !slices.ContainsFunc(spec.Inputs, func(in task.Input) bool { return !reads(s, e.files[in.LFN]) }) {
			able = append(able, s.Name)
		}
	}
	return able
}

func distinct(spec task.Task) []task.LFN {
	var names []task.LFN
	for _, in := range spec.Inputs {
		names = append(names, in.LFN)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// check fails the test if the store contradicts itself.
func (g *grid) check() {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		e, err := readAll(t)
		if err != nil {
			return err
		}
		for _, problem := range slices.Concat(e.wrongCounts(), e.wrongTasks(), e.wrongLeases(), e.wrongFiles()) {
			g.t.Errorf("invariant: %s", problem)
		}
		attempts, err := e.wrongAttempts(t)
		for _, problem := range attempts {
			g.t.Errorf("invariant: %s", problem)
		}
		if err != nil {
			return err
		}
		pilots, err := e.wrongPilots(t)
		for _, problem := range pilots {
			g.t.Errorf("invariant: %s", problem)
		}
		if g.t.Failed() {
			g.t.FailNow()
		}
		return err
	})
}

func (e *everything) wrongCounts() (problems []string) {
	for _, w := range e.workflows {
		counts := make(map[task.State]int)
		unstored, held := 0, make(map[task.Site]int)
		for id, s := range e.tasks {
			if id.Workflow() == w.ID {
				counts[s.State]++
			}
		}
		if w.Sealed {
			for _, name := range w.Outputs {
				if f := e.files[name]; len(f.Replicas) == 0 {
					unstored++
					for _, site := range f.Announced[:min(1, len(f.Announced))] {
						held[site]++
					}
				}
			}
			if !maps.Equal(held, w.Held) {
				problems = append(problems, fmt.Sprintf("%s has final outputs at %v, says %v", w.ID, held, w.Held))
			}
			if unstored != w.Unstored {
				problems = append(problems, fmt.Sprintf("%s has %d unstored outputs, says %d", w.ID, unstored, w.Unstored))
			}
		}
		for _, state := range task.States() {
			if counts[state] != w.Counts[state] {
				problems = append(problems, fmt.Sprintf("%s has %d %s tasks, says %d", w.ID, counts[state], state, w.Counts[state]))
			}
		}
		if w.Over() == w.Ended.IsZero() {
			problems = append(problems, fmt.Sprintf("%s: over %v, ended %s", w.ID, w.Over(), w.Ended))
		}
	}
	return problems
}

func (e *everything) wrongTasks() (problems []string) {
	wrong := func(s taskqueue.TaskState, format string, arguments ...any) {
		problems = append(problems, fmt.Sprintf("%s (%s, generation %d): ", s.ID.Name(), s.State, s.Generation)+fmt.Sprintf(format, arguments...))
	}
	for _, id := range e.order {
		s, spec := e.tasks[id], e.specs[id]
		missing := 0
		var hopeless, idle []task.ID
		for _, name := range distinct(spec) {
			if e.exists(name) {
				continue
			}
			missing++
			if maker, made := e.tasks[e.files[name].ProducerTask]; made {
				if maker.State.EndedBadly() {
					hopeless = append(hopeless, maker.ID)
				}
				if maker.State == task.Done {
					idle = append(idle, maker.ID)
				}
			}
		}
		if missing != s.Missing {
			wrong(s, "%d inputs are missing, says %d", missing, s.Missing)
		}
		able := e.able(spec)
		switch s.State {
		case task.Blocked:
			if missing == 0 && len(able) > 0 && e.workflow(id.Workflow()).Sealed {
				wrong(s, "is BLOCKED and sites %v can read all its inputs", able)
			}
			if len(hopeless) > 0 {
				wrong(s, "waits for %v, which ended badly", hopeless)
			}
			if len(idle) > 0 {
				wrong(s, "waits for the lost output of %v, which are DONE", idle)
			}
		case task.Ready:
			class, known := e.classes[s.Class]
			if missing > 0 || len(able) == 0 {
				wrong(s, "%d inputs are missing and %d sites can run it", missing, len(able))
			}
			if !known || class.Work != spec.Class() {
				wrong(s, "its class %d is not its own", s.Class)
			}
			for _, site := range class.Sites {
				if !slices.Contains(able, site) {
					wrong(s, "its class has site %s, which cannot read its inputs", site)
				}
			}
		case task.Leased:
			if lease, open := e.leases[s.Lease]; !open || lease.Site != s.Site {
				wrong(s, "its lease %d of %s is not open", s.Lease, s.Site)
			}
		case task.Done:
			if s.Winner.IsZero() {
				wrong(s, "has no winner")
			}
			for _, out := range spec.Outputs {
				f := e.files[out.LFN]
				if f.Producer.IsZero() || f.Digest.IsZero() {
					wrong(s, "its output %s has no maker or digest", out.LFN.Local())
				}
				if f.Final && !e.exists(out.LFN) && !e.workflow(id.Workflow()).Cancelled {
					wrong(s, "nobody has its output %s, which is a result", out.LFN.Local())
				}
			}
		}
		if s.State != task.Leased && s.Lease != 0 {
			wrong(s, "still names lease %d", s.Lease)
		}
		if s.State != task.Done && !s.Winner.IsZero() {
			wrong(s, "has winner %s", s.Winner)
		}
	}
	return problems
}

func (e *everything) workflow(id task.WorkflowID) taskqueue.Workflow {
	at := slices.IndexFunc(e.workflows, func(w taskqueue.Workflow) bool { return w.ID == id })
	return e.workflows[at]
}

func (e *everything) wrongLeases() (problems []string) {
	open := make(map[task.LeaseID]int)
	leased, ahead := make(map[task.Site]int), make(map[task.Site]int)
	for _, s := range e.tasks {
		if s.State == task.Leased {
			open[s.Lease]++
			leased[s.Site]++
			if s.Missing > 0 {
				ahead[s.Site]++
			}
		}
	}
	for id, lease := range e.leases {
		if lease.Open != open[id] || lease.Open == 0 {
			problems = append(problems, fmt.Sprintf("lease %d has %d tasks, says %d", id, open[id], lease.Open))
		}
	}
	for _, s := range e.sites {
		if s.Leased != leased[s.Name] || s.Ahead != ahead[s.Name] {
			problems = append(problems, fmt.Sprintf("site %s has %d tasks leased, %d ahead, says %d and %d",
				s.Name, leased[s.Name], ahead[s.Name], s.Leased, s.Ahead))
		}
	}
	return problems
}

func (e *everything) wrongFiles() (problems []string) {
	uses := make(map[task.LFN]int)
	for _, spec := range e.specs {
		for _, name := range distinct(spec) {
			uses[name]++
		}
	}
	for name, f := range e.files {
		stands := !e.deleting && strings.HasPrefix(string(name), task.SharedPrefix) || slices.ContainsFunc(e.workflows, func(w taskqueue.Workflow) bool { return strings.HasPrefix(string(name), string(w.ID)+":") })
		if stands && f.Uses != uses[name] {
			problems = append(problems, fmt.Sprintf("file %s has %d readers, says %d", name, uses[name], f.Uses))
		}
		if f.Lost && e.exists(name) {
			problems = append(problems, fmt.Sprintf("file %s is lost and exists", name))
		}
	}
	return problems
}

// wrongAttempts checks that each generation has at most one accepted success,
// and each DONE task the one it names.
func (e *everything) wrongAttempts(t *taskqueue.Turn) (problems []string, err error) {
	for _, id := range e.order {
		attempts, err := t.Attempts().OfTask(id)
		if err != nil {
			return nil, err
		}
		winners := make(map[uint32]task.AttemptID)
		for _, a := range attempts {
			if a.State != taskqueue.AttemptSucceeded {
				continue
			}
			g := a.Outcome.Attempt.Generation
			if other, twice := winners[g]; twice {
				problems = append(problems, fmt.Sprintf("generation %d of %s has two winners, %s and %s", g, id, other, a.Outcome.Attempt))
			}
			winners[g] = a.Outcome.Attempt
		}
		s := e.tasks[id]
		if s.State == task.Done && s.Winner.Task == id && winners[s.Generation] != s.Winner {
			problems = append(problems, fmt.Sprintf("%s is DONE by %s, its attempts say %s", id, s.Winner, winners[s.Generation]))
		}
	}
	return problems, nil
}

func (e *everything) wrongPilots(t *taskqueue.Turn) (problems []string, err error) {
	for _, s := range e.sites {
		live, err := t.Pilots().OfSite(s.Name, taskqueue.PilotAlive, taskqueue.PilotDraining)
		if err != nil {
			return nil, err
		}
		slots := 0
		for _, p := range live {
			slots += p.Slots
		}
		if s.Pilots != len(live) || s.Registered != slots {
			problems = append(problems, fmt.Sprintf("site %s has %d pilots with %d slots, says %d and %d",
				s.Name, len(live), slots, s.Pilots, s.Registered))
		}
	}
	return problems, nil
}
