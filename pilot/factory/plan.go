package factory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// plan is what the demand comes to: which jobs are needed, which are not, and
// what keeps the rest.
type plan struct {
	Tasks  int // that wait
	Served int // of them, by free slots and jobs that are there
	New    map[string]int
	Unmet  []Unmet
	idle   []*Job // pending, for nobody
}

// Unmet says why so many tasks get no pilot.
type Unmet struct {
	Tasks int    `json:"tasks"`
	Why   string `json:"why"`
	Limit bool   `json:"limit"` // a limit of the factory's; else no job can run them
}

// bin is a job that is there or is to be submitted, and what is free in it.
type bin struct {
	job   *Job // nil: to be submitted
	shape *Shape
	free  task.Resources
	used  bool
}

// shape returns a shape by name; the first one for a name of an older
// configuration.
func (f *Factory) shape(name string) *Shape {
	at := max(0, slices.IndexFunc(f.config.Shapes, func(s Shape) bool { return s.Name == name }))
	return &f.config.Shapes[at]
}

// waiting counts the jobs that take part of the backlog: those that are pending, and
// those that came after the newest listing, be their pilots there already. So at most
// a backlog is submitted between two listings.
func (f *Factory) waiting() (n int) {
	for _, job := range f.jobs {
		if job.State == Planned || job.State == Pending || !job.Submitted.Before(f.listing) {
			n++
		}
	}
	return n
}

// make packs the waiting tasks into what is there, biggest first, and opens new
// jobs for what is left, within the limits.
func (f *Factory) makePlan(now time.Time) plan {
	p := plan{New: make(map[string]int)}
	bins := f.supply(now)
	room := f.room()
	free := f.demand.FreeSlots
	classes := slices.Clone(f.demand.Classes)
	if f.demand.Draining {
		classes = nil
	}
	slices.SortStableFunc(classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Resources.Cores, a.Resources.Cores), cmp.Compare(b.Resources.Memory, a.Resources.Memory))
	})
	for i := range classes {
		c := &classes[i]
		p.Tasks += c.Tasks
		left := c.Tasks
		if c.Live { // a live pilot can run it
			k := min(left, free/max(1, c.Resources.Cores))
			free -= k * max(1, c.Resources.Cores)
			left -= k
		}
		left = fill(bins, c, left)
		p.Served += c.Tasks - left
		if left > 0 {
			bins, left = f.open(&p, bins, c, left, &room)
		}
		if left > 0 {
			why, limit := f.whyNot(c)
			p.unmet(Unmet{left, why, limit})
		}
	}
	f.reachMin(&p)
	needed := 0
	for _, b := range bins {
		if b.used {
			needed++
		} else if b.job != nil && b.job.State == Pending && !b.job.Cancelled {
			p.idle = append(p.idle, b.job)
		}
	}
	keep := max(0, f.config.Min-(len(f.jobs)-len(p.idle)))
	p.idle = p.idle[min(keep, len(p.idle)):]
	return p
}

// supply lists the jobs that will take tasks and are not seen as slots yet.
func (f *Factory) supply(now time.Time) []*bin {
	var bins []*bin
	for _, job := range f.byName() {
		coming := job.State == Planned || job.State == Pending ||
			job.State == Running && job.Pilot == "" && now.Sub(job.Began) < f.config.Timings.Register
		if coming && !job.Cancelled {
			shape := f.shape(job.Shape)
			bins = append(bins, &bin{job: job, shape: shape, free: shape.Resources})
		}
	}
	return bins
}

// fill places tasks of a class in bins and returns how many are left.
func fill(bins []*bin, c *Class, left int) int {
	for _, b := range bins {
		if left == 0 {
			break
		}
		if b.shape.lacks(c) != "" {
			continue
		}
		if k := min(left, places(b.free, c.Resources)); k > 0 {
			b.take(c, k)
			left -= k
		}
	}
	return left
}

func (b *bin) take(c *Class, n int) {
	for _, resource := range task.AllResources {
		resource.Set(&b.free, resource.Get(b.free)-int64(n)*resource.Get(c.Resources))
	}
	b.used = true
}

// room is how many more jobs may be submitted, in all and by shape.
type room struct {
	jobs, pending int
	shapes        map[string]int
}

func (f *Factory) room() room {
	r := room{f.config.Max - len(f.jobs), f.config.Backlog - f.waiting(), make(map[string]int)}
	for i := range f.config.Shapes {
		s := &f.config.Shapes[i]
		r.shapes[s.Name] = cmp.Or(s.Max, f.config.Max)
	}
	for _, job := range f.jobs {
		r.shapes[job.Shape]--
	}
	return r
}

func (r *room) take(shape string) bool {
	if r.jobs <= 0 || r.pending <= 0 || r.shapes[shape] <= 0 {
		return false
	}
	r.jobs--
	r.pending--
	r.shapes[shape]--
	return true
}

// open adds new jobs of the first shape that can run the class.
func (f *Factory) open(p *plan, bins []*bin, c *Class, left int, room *room) ([]*bin, int) {
	for i := range f.config.Shapes {
		s := &f.config.Shapes[i]
		if s.lacks(c) != "" {
			continue
		}
		for left > 0 && room.take(s.Name) {
			b := &bin{shape: s, free: s.Resources}
			k := min(left, places(b.free, c.Resources))
			b.take(c, k)
			left -= k
			bins = append(bins, b)
			p.New[s.Name]++
		}
	}
	return bins, left
}

// reachMin adds jobs up to the least number.
func (f *Factory) reachMin(p *plan) {
	fresh := 0
	for _, n := range p.New {
		fresh += n
	}
	if lack := f.config.Min - len(f.jobs) - fresh; lack > 0 && !f.demand.Draining {
		p.New[f.config.Shapes[0].Name] += min(lack, max(0, f.config.Backlog-f.waiting()-fresh))
	}
}

// whyNot says why tasks of a class get no further job.
func (f *Factory) whyNot(c *Class) (why string, limit bool) {
	var lacks []string
	for i := range f.config.Shapes {
		lack := f.config.Shapes[i].lacks(c)
		if lack == "" {
			if len(f.jobs) >= f.config.Max {
				return fmt.Sprintf("all %d jobs that --max allows are there", f.config.Max), true
			}
			return "as many jobs are pending as --backlog allows", true
		}
		lacks = append(lacks, lack)
	}
	return strings.Join(lacks, "; "), false
}

func (p *plan) unmet(more Unmet) {
	if at := slices.IndexFunc(p.Unmet, func(u Unmet) bool { return u.Why == more.Why }); at >= 0 {
		p.Unmet[at].Tasks += more.Tasks
		return
	}
	p.Unmet = append(p.Unmet, more)
}

// reasons lists why tasks get no job, without numbers; wrong tells that some never
// will.
func (p *plan) reasons() (list string, wrong bool) {
	for _, u := range p.Unmet {
		list += u.Why + "; "
		wrong = wrong || !u.Limit
	}
	return list, wrong
}

// decide submits and cancels, when what it knows is fresh.
func (f *Factory) decide(now time.Time) (out []Action) {
	fresh := f.config.Timings.Fresh
	if f.heard.IsZero() || f.listing.IsZero() {
		return nil
	}
	if now.Sub(f.heard) >= fresh {
		return f.note(nil, Note{true, "submits nothing", "the queue has told no demand for " + fresh.String()}, "demand")
	}
	if now.Sub(f.listing) >= fresh {
		return f.note(nil, Note{true, "submits nothing", "the batch system has listed no jobs for " + fresh.String()}, "listing")
	}
	f.plan = f.makePlan(now)
	out = f.cancelIdle(now, f.plan.idle)
	total := 0
	for _, n := range f.plan.New {
		total += n
	}
	switch {
	case total == 0:
		reasons, wrong := f.plan.reasons()
		return f.note(out, Note{wrong, "submits nothing", f.reason()}, reasons)
	case now.Before(f.pause.until):
		return f.note(out, Note{true, "submits nothing until " + f.pause.until.UTC().Format(time.TimeOnly), f.pause.why}, f.pause.why)
	case f.pause.failures > 0: // a trial: one job, and the next when it is known to work
		if f.unproven() {
			return f.note(out, Note{false, "submits nothing", "waits for one job to work after failures: " + f.pause.why}, f.pause.why)
		}
		total = 1
	}
	return f.submit(now, out, total)
}

// unproven tells whether a job is there of which nobody knows yet whether it works.
func (f *Factory) unproven() bool {
	return slices.ContainsFunc(f.byName(), func(j *Job) bool {
		p := f.pilotOf(j)
		return !j.Cancelled && (p == nil || p.Alive && p.Tasks == 0)
	})
}

func (f *Factory) reason() string {
	p := &f.plan
	why := fmt.Sprintf("%s waiting, %d of them for free slots and jobs that are there", task.Counted(p.Tasks, "task"), p.Served)
	if f.config.Min > 0 {
		why += fmt.Sprintf("; %s at least, whatever waits", task.Counted(f.config.Min, "job"))
	}
	for _, u := range p.Unmet {
		why += fmt.Sprintf("; %d: %s", u.Tasks, u.Why)
	}
	return why
}

func (f *Factory) submit(now time.Time, out []Action, most int) []Action {
	var fresh []Action
	excluded := f.nodes.excluded(now, f.demand.Nodes)
	for i := range f.config.Shapes {
		s := &f.config.Shapes[i]
		n := min(f.plan.New[s.Name], most-len(fresh))
		for range n {
			job := &Job{Name: f.name(), Shape: s.Name, State: Planned, Submitted: now}
			f.jobs[job.Name] = job
			fresh = append(fresh, Submit{job.Name, s, excluded})
		}
		if n > 0 {
			out = append(out, Note{false, fmt.Sprintf("submits %s of shape %s", task.Counted(n, "job"), s.Name), f.reason()})
		}
	}
	f.said = ""
	return append(append(out, f.keep()), fresh...)
}

// cancelIdle cancels pending jobs that nobody has needed for a while, the newest
// first.
func (f *Factory) cancelIdle(now time.Time, idle []*Job) (out []Action) {
	for _, job := range f.jobs {
		if !slices.Contains(idle, job) {
			job.unneeded = time.Time{}
		}
	}
	var ids []string
	for _, job := range slices.Backward(idle) {
		if job.unneeded.IsZero() {
			job.unneeded = now
		}
		if now.Sub(job.unneeded) >= f.config.Timings.Surplus && job.ID != "" {
			job.Cancelled = true
			ids = append(ids, job.ID)
		}
	}
	if ids == nil {
		return nil
	}
	f.said = ""
	return []Action{
		Note{false, "cancels " + task.Counted(len(ids), "pending job"), "no task needs them: " + f.reason()},
		f.keep(), Cancel{ids},
	}
}

// Status is what people are shown.
type Status struct {
	Time     time.Time      `json:"time"`
	Site     task.Site      `json:"site"`
	Mark     string         `json:"mark"` // begins the names of its jobs
	Took     time.Time      `json:"last_submission,omitzero"`
	Jobs     []Job          `json:"jobs"`
	Tasks    int            `json:"tasks_waiting"`
	Served   int            `json:"tasks_served"`
	Wanted   map[string]int `json:"jobs_wanted,omitempty"`
	Unmet    []Unmet        `json:"unmet,omitempty"`
	Excluded []string       `json:"nodes_excluded,omitempty"`
	Nodes    []Fault        `json:"nodes,omitempty"`
	Paused   string         `json:"paused,omitempty"`
	Reason   string         `json:"reason,omitempty"` // why it submits no more
	Demand   time.Duration  `json:"demand_age_ns"`
	Listing  time.Duration  `json:"listing_age_ns"`
}

// Status tells what there is at the time.
func (f *Factory) Status(now time.Time) Status {
	s := Status{
		Time: now, Site: f.config.Site, Mark: f.config.Mark, Took: f.took, Jobs: f.Jobs(), Tasks: f.plan.Tasks, Served: f.plan.Served, Wanted: f.plan.New, Unmet: f.plan.Unmet,
		Excluded: f.nodes.excluded(now, f.demand.Nodes), Nodes: f.nodes.faults(), Demand: now.Sub(f.heard), Listing: now.Sub(f.listing),
		Reason: f.reason(),
	}
	if now.Before(f.pause.until) {
		s.Paused = fmt.Sprintf("until %s: %s", f.pause.until.UTC().Format(time.DateTime), f.pause.why)
	}
	return s
}
