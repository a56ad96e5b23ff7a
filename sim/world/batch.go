package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// batch is the batch system of a site in large grids, and the product's factory that
// submits pilots to it: they come when tasks wait, and end when they have had nothing to
// do for a while or their walltime is over.
type batch struct {
	*site
	random  *rand.Rand
	config  factory.Config
	factory *factory.Factory
	jobs    []*batchJob // that are pending or run
	took    int         // jobs so far
}

// batchJob is a pilot job as the batch system has it.
type batchJob struct {
	factory.Listed
	exclude []string
	pilot   *node // nil: it is pending
}

const (
	idleLimit  = 10 * time.Minute // after which a pilot ends that a factory has started, as by default
	idleLook   = time.Minute      // between two looks at how idle a pilot is
	batchDelay = 2 * time.Minute  // that a job waits at most where nodes are free
	walltime   = 8 * time.Hour    // of a job
)

// submits has a factory start the site's pilots from now on, on so many nodes: so many
// at least, whatever waits.
func (s *site) submits(least, nodes, slots int) {
	b := &batch{site: s, random: rand.New(rand.NewPCG(s.world.seed, uint64(100+len(s.world.sites))))}
	b.config = factory.Config{
		Site: s.name, Min: least, Max: nodes, Backlog: nodes, Timings: factory.Timings{Ask: 2 * time.Minute, Poll: 2 * time.Minute, Fresh: 3 * time.Minute},
		Shapes: []factory.Shape{{Name: "node", Resources: task.Resources{Cores: slots, Memory: task.Bytes(slots) * 4 * task.GiB}, Walltime: walltime}},
	}
	b.factory = factory.New(b.config, factory.Kept{Mark: "p" + string(s.name[len(s.name)-1:])}, b.random)
	b.round()
}

// round looks at the batch system, when that is due, and at the queue, as
// pilot/factory/service does. Now and then the factory is killed, and a new one goes on
// from what it kept.
func (b *batch) round() {
	d := draws{b.random}
	if d.one(1000) {
		b.factory = factory.New(b.config, b.factory.Kept(), b.random)
	}
	now := b.world.net.Now()
	if b.factory.ListingDue(now) {
		if d.one(100) {
			b.step(factory.ListingFailed{Err: "no answer"})
		} else {
			b.step(b.list(now))
		}
	}
	b.step(b.demand())
	b.world.after(b.factory.Deadline().Sub(b.world.net.Now()), b.round)
}

func (b *batch) step(event factory.Event) {
	for _, action := range b.factory.Step(b.world.net.Now(), event) {
		switch a := action.(type) {
		case factory.Submit:
			b.step(b.submit(&a))
		case factory.Cancel:
			b.jobs = slices.DeleteFunc(b.jobs, func(j *batchJob) bool { return j.pilot == nil && slices.Contains(a.IDs, j.ID) })
		case factory.Note:
			b.world.note("the factory of %s: %s: %s", b.name, a.What, a.Why)
		}
	}
}

// submit takes a job, which begins when a node is free, at some time.
func (b *batch) submit(a *factory.Submit) factory.Event {
	d := draws{b.random}
	if d.one(200) {
		return factory.SubmitFailed{Name: a.Name, Err: "the batch system is busy", Certain: true}
	}
	b.took++
	job := &batchJob{factory.Listed{ID: fmt.Sprint(b.took), Name: a.Name, State: factory.Pending}, a.Exclude, nil}
	b.jobs = append(b.jobs, job)
	b.world.after(d.between(time.Second, batchDelay), func() { b.begin(job) })
	return factory.Submitted{Name: a.Name, ID: job.ID}
}

// begin starts the pilot of a job on a free node. A pilot that the queue does not take
// ends at once.
func (b *batch) begin(job *batchJob) {
	if !slices.Contains(b.jobs, job) {
		return // it was cancelled
	}
	taken := make(map[string]bool)
	for _, n := range b.live() {
		taken[n.host] = true
	}
	for i := range b.config.Max {
		host := fmt.Sprintf("%s-%d", b.name, i)
		if taken[host] || slices.Contains(job.exclude, host) {
			continue
		}
		shape := &b.config.Shapes[0]
		job.State, job.Node = factory.Running, host
		job.pilot = b.world.startOne(b.site, shape.Resources.Cores, func(r *taskqueue.Registration) {
			r.Job, r.Host, r.Ends = job.Name, host, b.world.net.Now().Add(shape.Lifetime())
		})
		if job.pilot == nil {
			job.State = factory.Ended
			return
		}
		job.pilot.lives(shape.Lifetime())
		return
	}
	b.world.after(batchDelay, func() { b.begin(job) })
}

// list is what the batch system has, jobs that have just ended among it.
func (b *batch) list(now time.Time) factory.Listing {
	l := factory.Listing{Asked: now}
	for _, job := range b.jobs {
		if job.pilot != nil && !job.pilot.alive {
			job.State = factory.Ended
		}
		l.Jobs = append(l.Jobs, job.Listed)
	}
	b.jobs = slices.DeleteFunc(b.jobs, func(j *batchJob) bool { return j.State == factory.Ended })
	return l
}

// demand asks the queue what waits for the site.
func (b *batch) demand() factory.Event {
	if b.world.queue.away {
		return factory.Wake{}
	}
	told := read(b.world.queue, func(t *taskqueue.Turn) (taskqueue.Demand, error) {
		return b.world.queue.Rules.Demand(t, b.name, func(task.Site, *taskqueue.ClassDemand) bool { return true })
	})
	d := factory.Demand{FreeSlots: told.FreeSlots, Draining: told.Draining}
	for i := range told.Classes {
		c := &told.Classes[i]
		d.Classes = append(d.Classes, factory.Class{Class: c.Class, Tasks: c.Tasks, Walltime: c.Walltime, Live: c.Live})
	}
	for i := range told.Pilots {
		p := &told.Pilots[i]
		seen := factory.Pilot{ID: p.ID, Job: p.Job, Node: p.Node(), Tasks: p.Sums.Done}
		seen.Alive = !told.Silent && p.State.Present()
		if p.State == taskqueue.PilotDead {
			seen.Error = p.Reason
		}
		d.Pilots = append(d.Pilots, seen)
	}
	for _, n := range told.Nodes {
		d.Nodes = append(d.Nodes, factory.Node{Name: n.Name, Left: n.Left})
	}
	return d
}

// lives ends a pilot when it was idle for long, or its life is over.
func (n *node) lives(life time.Duration) {
	idle, ends := worker.Idleness{Most: idleLimit}, n.net.Now().Add(life)
	var look func()
	look = func() {
		now := n.net.Now()
		switch {
		case !n.alive || n.leaving:
		case idle.Over(now, len(n.running())), !now.Before(ends):
			n.stop(time.Minute)
		default:
			n.after(idleLook, look)
		}
	}
	look()
}
