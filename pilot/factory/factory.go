package factory

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Job is a pilot job of the factory.
type Job struct {
	Name      string       `json:"name"`
	Shape     string       `json:"shape"`
	State     State        `json:"state"`
	ID        string       `json:"id,omitempty"` // the batch system's
	Node      string       `json:"node,omitempty"`
	Why       string       `json:"why,omitempty"` // it waits
	Submitted time.Time    `json:"submitted"`
	Listed    bool         `json:"listed,omitempty"` // the batch system has shown it
	Began     time.Time    `json:"began,omitzero"`   // first seen running
	Pilot     task.PilotID `json:"pilot,omitempty"`
	Cancelled bool         `json:"cancelled,omitempty"` // by this factory
	unneeded  time.Time    // since when nobody needs it
}

// Kept is what a factory keeps over a restart.
type Kept struct {
	Mark  string  `json:"mark"` // begins the names of its jobs
	Next  uint64  `json:"next"` // number of the next job
	Jobs  []Job   `json:"jobs"`
	Nodes []Fault `json:"nodes,omitempty"`
}

// Fault is a node at which pilot jobs have died at once.
type Fault struct {
	Node   string    `json:"node"`
	Pauses int       `json:"pauses"`
	Until  time.Time `json:"until"`
	Why    string    `json:"why"`
}

// Factory is the core. It is not safe for concurrent use.
type Factory struct {
	config  Config
	random  *rand.Rand
	next    uint64
	jobs    map[string]*Job
	nodes   nodes
	demand  Demand
	heard   time.Time // when the demand came
	listing time.Time // when the newest listing was asked for
	looked  time.Time // when the batch system was asked last, with or without an answer
	took    time.Time // when the batch system took a job last
	pause   pause
	plan    plan // the newest
	said    string
	wake    time.Time
}

// pause holds submissions back after failures.
type pause struct {
	failures int // in a row
	until    time.Time
	why      string
}

// New makes a factory that goes on from what was kept. The random numbers are
// for the jitter of its pauses.
func New(config Config, kept Kept, random *rand.Rand) *Factory {
	config.Timings = config.Timings.complete()
	config.Mark = kept.Mark
	f := &Factory{config: config, random: random, next: kept.Next, jobs: make(map[string]*Job), nodes: newNodes(kept.Nodes)}
	for i := range kept.Jobs {
		f.jobs[kept.Jobs[i].Name] = &kept.Jobs[i]
		if at := kept.Jobs[i].Submitted; at.After(f.took) {
			f.took = at
		}
	}
	return f
}

// Deadline is when the factory wants to be woken, and told the demand.
func (f *Factory) Deadline() time.Time { return f.wake }

// ListingDue tells whether it is time to look at the batch system again, which is
// asked less often than the queue: a look costs it more.
func (f *Factory) ListingDue(now time.Time) bool { return now.Sub(f.looked) >= f.config.Timings.Poll }

// Step takes in what happened and returns what is to be done, in order.
func (f *Factory) Step(now time.Time, event Event) []Action {
	var out []Action
	switch e := event.(type) {
	case Demand:
		f.demand, f.heard = e, now
		out = f.meetPilots(now)
	case Listing:
		out = f.takeListing(now, e)
	case ListingFailed:
		f.looked = now
		f.wake = now.Add(min(f.config.Timings.Ask, f.config.Timings.Poll))
		return f.note(nil, Note{true, "submits nothing", "the batch system does not list its jobs: " + e.Err}, e.Err)
	case Submitted:
		if job := f.jobs[e.Name]; job != nil {
			job.ID, job.State, f.took = e.ID, Pending, now
			out = append(out, f.keep())
		}
	case SubmitFailed:
		out = f.takeRefusal(now, e)
	}
	out = append(out, f.decide(now)...)
	f.wake = now.Add(min(f.config.Timings.Ask, f.config.Timings.Poll))
	return out
}

// Kept is what has to be there after a restart.
func (f *Factory) Kept() Kept {
	return Kept{Mark: f.config.Mark, Next: f.next, Jobs: f.Jobs(), Nodes: f.nodes.faults()}
}

func (f *Factory) keep() Action { return Keep{f.Kept()} }

// Jobs lists the jobs by name.
func (f *Factory) Jobs() []Job {
	jobs := make([]Job, 0, len(f.jobs))
	for _, job := range f.jobs {
		jobs = append(jobs, *job)
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	return jobs
}

// name gives the next job a name: 12 characters, as some batch systems show no
// more.
func (f *Factory) name() string {
	f.next++
	number := strconv.FormatUint(f.next, 36)
	return f.config.Mark + strings.Repeat("0", max(0, 12-len(f.config.Mark)-len(number))) + number
}

// meetPilots ties pilots to their jobs: a job whose pilot came is no failure, and
// runs, whatever a batch system that lists late says of it.
func (f *Factory) meetPilots(now time.Time) (out []Action) {
	for i := range f.demand.Pilots {
		p := &f.demand.Pilots[i]
		f.nodes.meet(p.Node)
		job := f.jobs[p.Job]
		if job == nil {
			continue
		}
		if p.Node != "" {
			job.Node = p.Node
		}
		if job.Pilot == "" {
			job.Pilot = p.ID
			if p.Alive {
				job.State = Running
				if job.Began.IsZero() {
					job.Began = now
				}
			}
			out = append(out, f.keep())
		}
		if p.Tasks > 0 || p.Alive && !job.Began.IsZero() && now.Sub(job.Began) >= f.config.Timings.Start {
			f.pause = pause{}
			f.nodes.works(job.Node)
		}
	}
	return out
}

// takeListing brings the jobs up to date with the batch system's list.
func (f *Factory) takeListing(now time.Time, e Listing) []Action {
	f.listing, f.looked = e.Asked, now
	listed := make(map[string]*Listed, len(e.Jobs))
	for i := range e.Jobs {
		l := &e.Jobs[i]
		f.nodes.meet(l.Node)
		if !strings.HasPrefix(l.Name, f.config.Mark) {
			continue
		}
		listed[l.Name] = l
		if f.jobs[l.Name] == nil && l.State != Ended { // kept by nobody: the folder was put back to an older copy
			f.jobs[l.Name] = &Job{Name: l.Name, Shape: f.config.Shapes[0].Name, Submitted: now}
		}
	}
	var out []Action
	changed := false
	for _, job := range f.byName() {
		before := *job
		l := listed[job.Name]
		switch {
		case l != nil && l.State != Ended:
			job.ID, job.Why, job.Listed = l.ID, "", true
			if l.State == Pending {
				job.Why = l.Why
			}
			if job.Pilot == "" || l.State != Pending {
				job.State = l.State
			}
			if l.Node != "" {
				job.Node = l.Node
			}
			if l.State == Running && job.Began.IsZero() {
				job.Began = now
			}
		case l == nil && !job.Listed && e.Asked.Sub(job.Submitted) < f.config.Timings.Settle:
			// It may not be listed yet.
		case l == nil && f.alive(job):
			// The list is not whole.
		default:
			delete(f.jobs, job.Name)
			trace := e.Traces[job.Name]
			if l != nil {
				trace.Node = cmp.Or(l.Node, trace.Node)
			}
			f.nodes.meet(trace.Node)
			job.Node = cmp.Or(job.Node, trace.Node)
			out = append(out, f.ended(now, job, trace.Last)...)
		}
		changed = changed || f.jobs[job.Name] == nil || *job != before
	}
	if changed {
		out = append(out, f.keep())
	}
	return out
}

func (f *Factory) byName() []*Job {
	jobs := make([]*Job, 0, len(f.jobs))
	for _, job := range f.jobs {
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Name, b.Name) })
	return jobs
}

// ended judges a job that is no more: one whose pilot never came, or died at once
// without having done a task, has failed.
func (f *Factory) ended(now time.Time, job *Job, last string) []Action {
	why, failed := "its pilot never registered", job.Pilot == ""
	if last != "" {
		why += ", its log ends with: " + last
	}
	if p := f.pilotOf(job); p != nil && p.Tasks == 0 && p.Error != "" && now.Sub(job.Submitted) < f.config.Timings.MaxPause {
		why, failed = p.Error, true
	}
	if !failed || job.Cancelled || job.State == Planned {
		return nil
	}
	if job.Node != "" {
		f.nodes.failed(now, job.Node, why, f.config.Timings)
	}
	out := []Action{Note{true, fmt.Sprintf("job %s (%s) at node %s failed", job.Name, job.ID, cmp.Or(job.Node, "that is not known")), why}}
	// One bad node is left out; only when jobs fail one after the other, or nobody
	// knows where, has the factory to wait.
	if f.pause.failures++; f.pause.failures >= 3 || job.Node == "" || f.nodes.alike(now) {
		f.rest(now, "pilot jobs die at once: "+why)
	}
	return out
}

func (f *Factory) alive(job *Job) bool {
	p := f.pilotOf(job)
	return p != nil && p.Alive
}

func (f *Factory) pilotOf(job *Job) *Pilot {
	at := slices.IndexFunc(f.demand.Pilots, func(p Pilot) bool { return p.Job == job.Name })
	if at < 0 {
		return nil
	}
	return &f.demand.Pilots[at]
}

// takeRefusal notes that a job was not submitted.
func (f *Factory) takeRefusal(now time.Time, e SubmitFailed) []Action {
	job := f.jobs[e.Name]
	if job == nil {
		return nil
	}
	if e.Certain {
		delete(f.jobs, e.Name)
	}
	if !now.Before(f.pause.until) { // else it went out with one that was refused
		f.pause.failures++
		f.rest(now, "the batch system refuses jobs: "+e.Err)
	}
	return []Action{f.keep(), Note{true, "job " + e.Name + " was not submitted", e.Err}}
}

// rest lets no job be submitted for a time that doubles with each failure.
func (f *Factory) rest(now time.Time, why string) {
	f.pause.until = now.Add(backoff(f.config.Timings, f.pause.failures, f.random))
	f.pause.why = task.Brief(why)
}

// backoff is the pause after so many failures in a row, with jitter.
func backoff(t Timings, failures int, random *rand.Rand) time.Duration {
	pause := min(t.MaxPause, t.Pause<<min(20, max(0, failures-1)))
	return pause/2 + time.Duration(random.Int64N(int64(pause/2)+1))
}

// note adds a line for the log, unless the last one said the same, be it with other
// numbers.
func (f *Factory) note(out []Action, n Note, same string) []Action {
	if said := n.What + ": " + same; said != f.said {
		f.said = said
		out = append(out, n)
	}
	return out
}
