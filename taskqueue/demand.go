package taskqueue

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Demand is what a site's pilots could do: for those who start pilots.
type Demand struct {
	Classes   []ClassDemand // by number of tasks, most first
	More      int           // tasks of further classes
	FreeSlots int           // of live pilots
	Draining  bool          // the site gets no work
	Silent    bool          // nobody there is heard: its pilots, whose slots do not count, may all be gone
	Pilots    []PilotRecord // that are alive, or ended within the last hour
	Nodes     []task.NodeMark
}

// ClassDemand is a number of tasks with equal needs that wait: READY ones, as the
// site's share, and those that it holds and no pilot has begun.
type ClassDemand struct {
	task.Class
	Tasks    int
	Walltime time.Duration // of the first of them; 0 if nobody has given one
	Live     bool          // resources and remaining life of a live pilot suffice
	Refused  bool          // lately, by all of the site's pilots
}

// Limits of an answer.
const (
	maxDemandClasses = 200
	maxDemandSample  = 500
	demandMemory     = time.Hour
)

// Sends tells whether pilots that can run tasks of a class are sent to a site when they
// are asked for, as by a factory.
type Sends func(site task.Site, class *ClassDemand) bool

// Demand tells what waits for a site. Each READY task counts once among the sites
// that may run it and have pilots or are sent some, by the tasks a second that these
// do, so that the shares of all sites make up the whole.
//
// Errors: ErrNotFound.
func (r *Rules) Demand(t *Turn, name task.Site, sends Sends) (_ Demand, err error) {
	defer catch(&err)
	d := r.waiting(t, name, sends)
	d.out.Draining, d.out.Silent = d.site.Draining, d.site.Pilots > 0 && !d.heard(d.site)
	d.pilots()
	slices.SortFunc(d.out.Classes, func(a, b ClassDemand) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Require, b.Require), cmp.Compare(a.Resources.Cores, b.Resources.Cores),
			cmp.Compare(a.Resources.Memory, b.Resources.Memory))
	})
	for _, class := range d.out.Classes[min(maxDemandClasses, len(d.out.Classes)):] {
		d.out.More += class.Tasks
	}
	d.out.Classes = d.out.Classes[:min(maxDemandClasses, len(d.out.Classes))]
	if !d.out.Silent {
		d.out.FreeSlots = max(0, d.site.Capacity.FreeSlots)
	}
	d.out.Nodes = d.site.Marks(d.Clock)
	return d.out, nil
}

// Waiting is how many tasks Demand tells of; it reads no pilots.
//
// Errors: ErrNotFound.
func (r *Rules) Waiting(t *Turn, name task.Site, sends Sends) (tasks int, err error) {
	defer catch(&err)
	for _, class := range r.waiting(t, name, sends).out.Classes {
		tasks += class.Tasks
	}
	return tasks, nil
}

// waiting begins an answer with what waits for the site.
func (r *Rules) waiting(t *Turn, name task.Site, sends Sends) *demand {
	q := r.open(t)
	q.sites.loadAll()
	d := &demand{records: q.records, classes: &q.classes, site: q.sites.need(name), sends: sends, of: make(map[task.Class]int)}
	d.ready()
	d.held()
	return d
}

// demand is the work on one answer.
type demand struct {
	*records
	classes *classes
	site    *SiteRecord
	sends   Sends
	out     Demand
	of      map[task.Class]int // index among the classes
}

// heard tells whether the queue hears of a site's pilots.
func (d *demand) heard(s *SiteRecord) bool {
	return s.Pilots > 0 && d.Clock.Sub(s.LastHeard()) < d.config.Site.Pilot.AbsentAfter
}

// wallTime is what somebody has said of how long a task runs, else 0.
func wallTime(of *task.Task) time.Duration {
	if of.Walltime == task.DefaultWalltime { // which says nothing
		return 0
	}
	return of.Walltime
}

func (d *demand) add(of *task.Task, tasks int) {
	if tasks <= 0 {
		return
	}
	work := of.Class()
	work.Rank = ""
	at, known := d.of[work]
	if !known {
		at = len(d.out.Classes)
		d.of[work] = at
		d.out.Classes = append(d.out.Classes, ClassDemand{Class: work})
	}
	class := &d.out.Classes[at]
	class.Tasks += tasks
	class.Refused = class.Refused || d.sites.refuses(d.site, of.Class())
	class.Walltime = max(class.Walltime, wallTime(of))
}

// ready adds the site's share of READY tasks.
func (d *demand) ready() {
	counts := read(d.Tasks().ReadyClasses())
	if len(counts) == 0 {
		return
	}
	d.classes.load()
	for id, n := range counts {
		class := d.classes.known.byID[id]
		if class == nil || !class.Allows(d.site.Name) {
			continue
		}
		for _, first := range read(d.Tasks().ReadyIn(id, d.Clock.Add(d.config.Retry.BackoffMax), 1)) {
			if spec := d.specs.one(first.ID); spec != nil {
				d.add(spec, d.share(class, spec, n))
			}
		}
	}
}

// rate is how many tasks a second a site does, by the slots in use and its median
// run; a site that does nothing yet counts as one slot.
func (d *demand) rate(s *SiteRecord) float64 {
	median, known := s.medianRun(d.config.HandOut.KnownAfter)
	if !known {
		median = d.config.HandOut.UnknownTime
	}
	return float64(1+s.Capacity.Running) / max(median, time.Millisecond).Seconds()
}

// suppliers lists the sites among which tasks of a class are divided, in order: those
// that have pilots or are sent some, and of which nothing says that they cannot run
// them. Where there are none, all sites may be the first to get a pilot.
func (d *demand) suppliers(class *Eligibility, first *task.Task) []*SiteRecord {
	var all, able []*SiteRecord
	needs := ClassDemand{Class: class.Work, Walltime: wallTime(first)}
	for s := range d.sites.all() {
		if s.Draining || !class.Allows(s.Name) {
			continue
		}
		all = append(all, s)
		needs.Refused = d.sites.refuses(s, class.Work)
		if d.heard(s) && !needs.Refused || d.sends(s.Name, &needs) {
			able = append(able, s)
		}
	}
	if able == nil {
		return all
	}
	return able
}

// share is the site's part of n tasks of a class: the difference of two roundings
// along the list of sites, so that the parts of all sites make up n.
func (d *demand) share(class *Eligibility, first *task.Task, n int) int {
	total, before, own := 0.0, 0.0, 0.0
	for _, s := range d.suppliers(class, first) {
		rate := d.rate(s)
		switch {
		case s.Name < d.site.Name:
			before += rate
		case s.Name == d.site.Name:
			own = rate
		}
		total += rate
	}
	if own == 0 {
		return 0
	}
	upTo := func(part float64) int { return int(float64(n)*part/total + 0.5) }
	return upTo(before+own) - upTo(before)
}

// held adds what the site holds and has not begun, by a sample of its tasks.
func (d *demand) held() {
	waiting := d.site.unstarted()
	if waiting == 0 {
		return
	}
	leases := read(d.Leases().OfSite(d.site.Name))
	var sample []task.ID
	for i := len(leases) - 1; i >= 0 && len(sample) < maxDemandSample; i-- { // of the newest, most have not begun
		tasks := read(d.Tasks().InLease(leases[i].ID))
		for k := len(tasks) - 1; k >= 0 && len(sample) < maxDemandSample; k-- {
			sample = append(sample, tasks[k].ID)
		}
	}
	d.specs.load(sample...)
	for i, id := range sample {
		if spec := d.specs.held[id]; spec != nil {
			d.add(spec, waiting*(i+1)/len(sample)-waiting*i/len(sample))
		}
	}
}

// pilots adds the site's pilots, and tells which classes a live one can run.
func (d *demand) pilots() {
	found := read(d.Pilots().OfSite(d.site.Name))
	for i := range found {
		p := &found[i]
		if p.State.Present() || d.Wall.Sub(p.Ended) < demandMemory && p.Reason != visited {
			d.out.Pilots = append(d.out.Pilots, *p)
		}
		if d.out.Silent || !p.State.Present() || p.Drain || p.Stopped != "" {
			continue
		}
		for k := range d.out.Classes {
			c := &d.out.Classes[k]
			c.Live = c.Live || !c.Refused && p.Resources.Fits(c.Resources) && p.Ends.Sub(d.Wall) >= c.Walltime
		}
	}
}
