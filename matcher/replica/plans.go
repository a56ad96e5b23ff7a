package replica

import (
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// State is that of a task in 002's algorithm (section 4).
type State uint8

// The states: in no plan, in a plan, and given to its node.
const (
	Pending State = iota
	Scheduled
	Launching
)

func (s State) String() string { return [...]string{"pending", "scheduled", "launching"}[s] }

// PlanSettings bound the plans.
type PlanSettings struct {
	// Threshold is what Sum(ds) must exceed for a new replica, in seconds of
	// waiting work times weight.
	Threshold float64
	// TaskLimit is how many tasks a plan may hold that are not launched.
	TaskLimit int
	// Eliminate drops a plan's replica when the plan ends. Otherwise it stays
	// until its room is needed.
	Eliminate bool
}

// Plans is the Plan Maker of 002: for each new replica of a data set a plan
// that reserves a node, stages the files in, runs tasks one after the other
// and ends with the elimination of the replica. Plans run side by side; one
// new replica is made per session, for the data set with the largest Sum(ds).
type Plans struct {
	settings PlanSettings
	plans    []*plan // by age
	obsolete []dataAt
}

// plan is a workflow of 002: all that happens to one replica.
type plan struct {
	dataAt
	tasks    []uint64 // scheduled, in the order in which they start
	launched uint64
	busy     bool // launched has not ended
}

// dataAt are the files of a data set at a node.
type dataAt struct {
	node  task.PilotID
	files []task.FileKey // rising
	made  []task.FileKey // those that the plan has brought there
}

// NewPlans returns a Plan Maker without plans.
func NewPlans(settings PlanSettings) *Plans {
	settings.TaskLimit = max(1, settings.TaskLimit)
	return &Plans{settings: settings}
}

// State is that of a task after the last session.
func (p *Plans) State(no uint64) State {
	for _, plan := range p.plans {
		switch {
		case plan.busy && plan.launched == no:
			return Launching
		case slices.Contains(plan.tasks, no):
			return Scheduled
		}
	}
	return Pending
}

// Session goes through the tasks in their order (002, section 4, steps 1 to 5).
func (p *Plans) Session(view View) (decisions Decisions) {
	p.catchUp(view)
	sums := make(map[string]*dataSet)
	for i := range view.Tasks {
		t := &view.Tasks[i]
		if len(t.Files) == 0 {
			continue // not ours: it has no data
		}
		plan := p.planOf(t.No)
		if plan == nil {
			if plan = p.insert(t); plan == nil {
				addTo(sums, t)
				continue
			}
			plan.tasks = append(plan.tasks, t.No)
		}
		decisions.Claimed = append(decisions.Claimed, t.No)
		if plan.launch(t.No, view) {
			decisions.Starts = append(decisions.Starts, Start{t.No, plan.node})
		}
	}
	p.end(&view, &decisions)
	p.begin(largest(sums, p.settings.Threshold), &view, &decisions)
	for _, plan := range p.plans {
		decisions.Reserved = append(decisions.Reserved, plan.node)
		decisions.Copies = append(decisions.Copies, plan.missing(view)...)
	}
	slices.Sort(decisions.Reserved)
	return decisions
}

// catchUp takes in what has happened since the last session: tasks that
// ended or were cancelled, starts that were refused, nodes that left.
func (p *Plans) catchUp(view View) {
	waiting := make(map[uint64]bool, len(view.Tasks))
	for _, t := range view.Tasks {
		waiting[t.No] = true
	}
	p.plans = slices.DeleteFunc(p.plans, func(plan *plan) bool { return !view.has(plan.node) })
	p.obsolete = slices.DeleteFunc(p.obsolete, func(d dataAt) bool { return !view.has(d.node) })
	for _, plan := range p.plans {
		if plan.busy && waiting[plan.launched] {
			plan.tasks = slices.Insert(plan.tasks, 0, plan.launched)
			plan.busy = false
		}
		plan.busy = plan.busy && view.Running(plan.launched)
		plan.tasks = slices.DeleteFunc(plan.tasks, func(no uint64) bool { return !waiting[no] })
	}
}

func (v *View) has(node task.PilotID) bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID == node })
}

func (p *Plans) planOf(no uint64) *plan {
	at := slices.IndexFunc(p.plans, func(plan *plan) bool { return slices.Contains(plan.tasks, no) })
	if at < 0 {
		return nil
	}
	return p.plans[at]
}

// insert finds the plan with the fewest tasks that has the task's files and
// room for it; a full plan takes none until one is launched.
func (p *Plans) insert(t *Task) (best *plan) {
	for _, plan := range p.plans {
		if len(plan.tasks) < p.settings.TaskLimit && plan.covers(t.Files) && t.canRun(plan.node) &&
			(best == nil || len(plan.tasks) < len(best.tasks)) {
			best = plan
		}
	}
	return best
}

func (d *dataAt) covers(files []task.FileKey) bool {
	return !slices.ContainsFunc(files, func(file task.FileKey) bool {
		_, found := slices.BinarySearch(d.files, file)
		return !found
	})
}

// launch gives the plan's first task to its node, once the files are there
// and the task before it has ended.
func (p *plan) launch(no uint64, view View) bool {
	if p.busy || len(p.tasks) == 0 || p.tasks[0] != no {
		return false
	}
	if !slices.ContainsFunc(view.Nodes, func(n Node) bool { return n.ID == p.node && n.Free }) {
		return false
	}
	for _, file := range p.files {
		if !slices.ContainsFunc(view.Replicas(file), func(c Copied) bool { return c.Node == p.node && c.Complete }) {
			return false
		}
	}
	p.tasks = p.tasks[1:]
	p.launched, p.busy = no, true
	return true
}

// missing are the copies that the plan's node still lacks and nobody makes.
func (p *plan) missing(view View) (copies []Copy) {
	for _, file := range p.files {
		replicas := view.Replicas(file)
		if !slices.ContainsFunc(replicas, func(c Copied) bool { return c.Node == p.node }) {
			copies = append(copies, Copy{file, source(view, replicas), p.node})
		}
	}
	return copies
}

// end closes the plans that have nothing left to do. What it drops the view
// does not show any more.
func (p *Plans) end(view *View, decisions *Decisions) {
	p.plans = slices.DeleteFunc(p.plans, func(plan *plan) bool {
		if plan.busy || len(plan.tasks) > 0 {
			return false
		}
		if p.settings.Eliminate {
			drops := plan.drops(*view)
			decisions.Drops = append(decisions.Drops, drops...)
			view.Replicas = withoutDrops(view.Replicas, drops)
		} else if len(plan.made) > 0 {
			p.obsolete = append(p.obsolete, plan.dataAt)
		}
		return true
	})
}

// drops are the plan's own replicas, but never the last one of a file.
func (d *dataAt) drops(view View) (drops []Drop) {
	for _, file := range d.made {
		here, elsewhere := false, false
		for _, c := range view.Replicas(file) {
			here = here || c.Node == d.node
			elsewhere = elsewhere || c.Node != d.node && c.Complete
		}
		if here && elsewhere {
			drops = append(drops, Drop{file, d.node})
		}
	}
	return drops
}

// dataSet are tasks that fit no plan and read the same files.
type dataSet struct {
	name  string
	files []task.FileKey
	sum   float64 // Sum(ds): of P_i x T_i
	first *Task
}

func addTo(sums map[string]*dataSet, t *Task) {
	files := slices.Sorted(slices.Values(t.Files))
	parts := make([]string, len(files))
	for i, file := range files {
		parts[i] = string(file)
	}
	name := strings.Join(parts, "\n")
	ds := sums[name]
	if ds == nil {
		ds = &dataSet{name: name, files: files, first: t}
		sums[name] = ds
	}
	ds.sum += t.Weight * t.Runtime.Seconds()
}

// largest is the data set with the largest sum above the threshold, nil if
// there is none; equal sums go by name.
func largest(sums map[string]*dataSet, threshold float64) (best *dataSet) {
	for _, ds := range sums {
		if ds.sum > threshold && (best == nil || ds.sum > best.sum || ds.sum == best.sum && ds.name < best.name) {
			best = ds
		}
	}
	return best
}
