package taskqueue

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Explain says why a task is where it is, with counts.
//
// Errors: ErrNotFound.
func (r *Rules) Explain(t *Turn, id task.ID) (_ Explanation, err error) {
	defer catch(&err)
	q := r.open(t)
	s := q.tasks.need(id)
	q.ready.loadReview([]task.ID{id})
	e := Explanation{State: *s, Task: *q.specs.one(id), Attempts: read(q.Attempts().OfTask(id))}
	why := &explaining{q.records, &q.catalogue, &q.classes}
	switch s.State {
	case task.Blocked:
		why.explainBlocked(&e)
	case task.Ready:
		why.explainReady(&e)
	case task.Leased:
		why.explainLeased(&e)
	}
	return e, nil
}

// explaining words why a task is where it is.
type explaining struct {
	*records
	catalogue *catalogue
	classes   *classes
}

// explainBlocked lists the inputs that keep a task from running.
func (why *explaining) explainBlocked(e *Explanation) {
	w := why.workflows.need(e.State.ID.Workflow())
	if !w.Sealed {
		e.State.Reason = fmt.Sprintf("its workflow is not complete: %s came, the last has not", task.Counted(w.Parts, "part"))
		return
	}
	names := inputs(&e.Task)
	if e.State.Missing > 0 {
		for _, name := range names {
			if f := why.files.held[name]; !exists(f) {
				e.Missing = append(e.Missing, why.explainMissing(name, f))
			}
		}
		return
	}
	for _, name := range names {
		f := why.files.held[name]
		set := why.catalogue.readersOf(f)
		input := MissingInput{LFN: name, Producer: f.ProducerTask, State: task.Done}
		for i, site := range why.sites.names {
			if set.has(i) {
				input.Where = append(input.Where, site)
			}
		}
		if len(input.Where) == len(why.sites.names) {
			continue
		}
		input.Why = fmt.Sprintf("readable at %d of %s, no site can read all %s", len(input.Where), task.Counted(len(why.sites.names), "site"), task.Counted(len(names), "input"))
		if len(f.Replicas) == 0 {
			input.Why += ": it is in caches only and waits for its upload to a storage element"
		}
		e.Missing = append(e.Missing, input)
	}
}

func (why *explaining) explainMissing(name task.LFN, f *FileRecord) MissingInput {
	input := MissingInput{LFN: name}
	if f == nil || f.ProducerTask == "" {
		input.Why = "nothing makes it and it has no copy: register it as " + string(name)
		return input
	}
	input.Producer = f.ProducerTask
	maker := why.tasks.held[f.ProducerTask]
	if maker == nil {
		input.Why = "its maker is gone"
		return input
	}
	input.State = maker.State
	input.Why = fmt.Sprintf("task %s, which makes it, is %s", maker.ID.Name(), maker.State)
	if maker.State == task.Leased {
		input.Why += " to site " + string(maker.Site)
		input.Where = []task.Site{maker.Site}
	}
	if f.Lost {
		input.Why += fmt.Sprintf("; it was made before and lost (generation %d is to make it)", maker.Generation)
	}
	return input
}

// explainReady says of each site whether it may run the task and what it
// waits for.
func (why *explaining) explainReady(e *Explanation) {
	s := &e.State
	ahead := read(why.Tasks().ReadyBefore(s.Class, s.Priority, s.Seq))
	e.Ahead = ahead
	e.BackoffUntil = max(0, s.NotBefore.Sub(why.Clock))
	for site := range why.sites.all() {
		e.Sites = append(e.Sites, why.explainSite(e, site))
	}
}

func (why *explaining) explainSite(e *Explanation, site *SiteRecord) SiteExplanation {
	x := site.explained()
	var unreadable []string
	count := 0
	for _, name := range inputs(&e.Task) {
		if !site.Reads(why.files.held[name]) {
			if count++; count <= 3 {
				unreadable = append(unreadable, name.Local())
			}
		}
	}
	for i := range site.Refused {
		if r := &site.Refused[i]; r.Class == e.Task.Class() && why.Clock.Sub(r.At) < why.config.HandOut.RefusalHold {
			x.Clauses = r.Clauses
			x.Why = r.Why()
		}
	}
	silence := why.Clock.Sub(site.LastHeard())
	switch {
	case count > 0:
		x.Why = fmt.Sprintf("cannot read %d of %s (%s), neither from its caches nor from a storage element that it may read",
			count, task.Counted(len(inputs(&e.Task)), "input"), strings.Join(unreadable, ", "))
	case site.Draining:
		x.Why = "is being drained"
	case site.Pilots == 0:
		x.Why = "has 0 live pilots"
	case silence >= why.config.Site.LiveFor:
		x.Why = fmt.Sprintf("%s was not heard for %s", site.speaker(), silence.Round(1e9))
	case x.Why != "": // refused
	case site.slots() == 0 && site.Capacity.Stopped > 0:
		x.Eligible = true
		x.Why = "takes no work at the moment: "
		x.addPauses(site)
	case why.leavesTask(site, e):
		x.Why = "leaves it to sites that have a storage element: it makes final outputs, which this one could not keep"
	case e.BackoffUntil > 0:
		x.Eligible = true
		x.Why = fmt.Sprintf("waits %s before the next attempt", e.BackoffUntil.Round(1e6))
	case site.idle() <= 0:
		x.Eligible = true
		x.Why = fmt.Sprintf("0 free slots of %d; %s there, %d ahead in the queue", site.slots(), task.Counted(x.Waiting, "waiting task"), e.Ahead)
		if site.Capacity.Stopped > 0 {
			x.Why += "; "
			x.addPauses(site)
		}
	default:
		x.Eligible = true
		x.Why = fmt.Sprintf("gets it with its next hand-out; %s ahead", task.Counted(e.Ahead, "task"))
		if other, until := why.givenTo(e, site); other != "" {
			x.Why = fmt.Sprintf("leaves it for at most %s to site %s, as it has failed at all nodes here", until.Sub(why.Clock).Round(time.Millisecond), other)
		} else if holder, left := why.leftTo(e, site); left > 0 {
			x.Why = fmt.Sprintf("leaves it for at most %s to site %s, which has most bytes of its inputs; %s ahead", left.Round(time.Millisecond), holder, task.Counted(e.Ahead, "task"))
		}
	}
	return x
}

// explained is what every explanation says of a site.
func (s *SiteRecord) explained() SiteExplanation {
	return SiteExplanation{
		Site: s.Name, Pilots: s.Pilots, FreeSlots: s.Capacity.FreeSlots, Waiting: s.unstarted(), Fallback: s.Fallback,
	}
}

// occupation says what a site's slots do, as it was last reported. Tasks that
// were given early, and those whose payload has ended, hold no slot.
func (s *SiteRecord) occupation() string {
	c := &s.Capacity
	slots, free := s.slots(), max(0, c.FreeSlots)
	running := min(c.Running, max(0, slots-free)+c.StoppedSlots)
	text := fmt.Sprintf("%s, %d of them free; %s", task.Counted(slots, "slot"), free, task.Counted(running, "running task"))
	if over := c.Running - running; over > 0 {
		text += fmt.Sprintf(", %d have run and are being reported", over)
	}
	if c.Assigned > 0 {
		text += fmt.Sprintf(", %d are with pilots, where they stage in or wait for a slot", c.Assigned)
	}
	return text
}

// mayBeLeft tells whether a task that a site holds waits, as far as the queue
// knows, because free slots leave it to others: a slot that has been free for
// the wait takes any task that has been ready for it.
func (why *explaining) mayBeLeft(e *Explanation, site *SiteRecord, wait time.Duration) bool {
	choice, err := matcher.ParseSolver(site.Solver)
	return err == nil && choice.Waits() && site.Capacity.FreeSlots > 0 &&
		e.State.Missing == 0 && len(e.Task.Inputs) > 0 && why.Wall.Sub(e.State.Changed) < 2*wait
}

// givenTo names the site that gets the next turn with a READY task, and until when.
func (why *explaining) givenTo(e *Explanation, site *SiteRecord) (task.Site, Instant) {
	class, ok := why.classes.of(&e.Task)
	if !ok {
		return "", 0
	}
	places := elsewhere{records: why.records}
	return places.left(site, &e.State, &class)
}

// leftTo names the site that a site with free slots leaves a READY task to for
// a while, and for how long at most; "" if it does not.
func (why *explaining) leftTo(e *Explanation, site *SiteRecord) (task.Site, time.Duration) {
	class, ok := why.classes.of(&e.Task)
	holder := why.sites.held[class.Prefer]
	if !ok || holder == nil || holder == site || !why.sites.live(holder) {
		return "", 0
	}
	if holder.soon() == 0 {
		return "", 0
	}
	return holder.Name, why.config.HandOut.ShareWait - why.Clock.Sub(e.State.NotBefore)
}

// addPauses says how many pilots of a site take no new work, and apart from that why.
func (x *SiteExplanation) addPauses(s *SiteRecord) {
	c := &s.Capacity
	of := task.Counted(max(c.Pilots, c.Stopped, 1), "pilot")
	if c.Stopped == 1 {
		x.Why += fmt.Sprintf("1 of %s takes no new work", of)
		x.Quoted = ": " + c.StoppedWhy
		return
	}
	x.Why += fmt.Sprintf("%d of %s take no new work", c.Stopped, of)
	x.Quoted = "; one of them: " + c.StoppedWhy
}

// Why words it with the counts of the clauses that fail.
func (r *RefusedClass) Why() string {
	parts := make([]string, 0, len(r.Clauses))
	for _, c := range r.Clauses {
		verb := "fail"
		if c.Pilots == 1 {
			verb = "fails"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", c.Pilots, verb, c.Clause))
	}
	return fmt.Sprintf("0 of %s can run it: %s", task.Counted(r.Pilots, "pilot"), cmp.Or(strings.Join(parts, ", "), "no clause was reported"))
}

// explainLeased says whether a task waits or runs at its site.
func (why *explaining) explainLeased(e *Explanation) {
	site := why.sites.need(e.State.Site)
	x := site.explained()
	x.Eligible = true
	x.Why = fmt.Sprintf("waits at the site since %s with %s; %s",
		e.State.Changed.UTC().Format("15:04:05 UTC"), task.Counted(max(0, x.Waiting-1), "other"), site.occupation())
	if wait := why.config.leavesFor(site); why.mayBeLeft(e, site, wait) {
		x.Why += fmt.Sprintf("; a free slot leaves it, for at most %s from now, to a pilot where it starts sooner, as its inputs are there (the site's locality wait)", wait)
	}
	if site.Capacity.Stopped > 0 {
		x.Why += "; "
		x.addPauses(site)
	}
	if e.State.Missing > 0 {
		x.Why, x.Quoted = fmt.Sprintf("the site makes its %d missing inputs first", e.State.Missing), ""
	}
	for i := range e.Attempts {
		o := &e.Attempts[i].Outcome
		if e.Attempts[i].State == AttemptRunning && o.Attempt.Lease == e.State.Lease {
			x.Why, x.Quoted = fmt.Sprintf("runs on pilot %s as attempt a%d since %s", o.Attempt.Pilot, o.Number, o.Started.UTC().Format("15:04:05 UTC")), ""
		}
	}
	e.Sites = append(e.Sites, x)
	if e.State.Missing > 0 {
		for _, name := range inputs(&e.Task) {
			if f := why.files.held[name]; !exists(f) {
				e.Missing = append(e.Missing, why.explainMissing(name, f))
			}
		}
	}
}
