package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// queue is the queue in one turn: its parts, and what flows between them.
type queue struct {
	*records
	life      lifecycle
	catalogue catalogue
	classes   classes
	ready     readiness
	leasing   leasing
	outcomes  outcomes
	members   members
	office    office
	clearing  clearing
}

// open begins a turn. A rule that changes something defers close.
func (r *Rules) open(t *Turn) *queue {
	if t.Effects == nil {
		t.Effects = &Effects{}
	}
	records := newRecords(t, &r.Config)
	q := &queue{records: records, life: newLifecycle(records), catalogue: newCatalogue(records), members: members{records}, office: office{records}}
	q.classes = classes{records: records, catalogue: &q.catalogue}
	q.ready = readiness{records, &q.life, &q.catalogue, &q.classes}
	q.leasing = leasing{records, &q.life, &q.catalogue}
	q.clearing = clearing{records: records, catalogue: &q.catalogue}
	q.outcomes = outcomes{records: records, life: &q.life, catalogue: &q.catalogue, classes: &q.classes}
	return q
}

// close ends a turn whose rule has opened it: it settles what follows from what was
// done and saves it, unless something has ended the turn before.
func (q *queue) close(err *error) {
	if broken := recover(); broken != nil {
		*err = whyEnded(broken)
		return
	}
	if *err == nil {
		*err = q.finish()
	}
}

func (q *queue) finish() (err error) {
	defer catch(&err)
	q.ready.settle()
	q.save()
	return nil
}

// save writes what changed; the turn may go on.
func (q *queue) save() {
	q.records.save()
	q.catalogue.forgetGone()
	q.life.saveLeases()
	q.life.saveRevocations()
	q.life.saveClosed()
}

// turnPage settles and saves what was done to a page of records, and forgets them, so
// that a long sweep does not grow.
func (q *queue) turnPage() {
	q.ready.settle()
	q.save()
	q.records.forget()
	q.catalogue.readable = nil
	q.life.walkable = nil
}

func (q *queue) submission(s *Submission) *submission {
	return &submission{
		records: q.records, life: &q.life, catalogue: &q.catalogue, classes: &q.classes,
		settle: q.ready.settle, turnPage: q.turnPage, Submission: s,
	}
}

func (q *queue) handing(site *SiteRecord, pilot task.PilotID) *handing {
	return &handing{
		records: q.records, life: &q.life, catalogue: &q.catalogue, classes: &q.classes, leasing: &q.leasing,
		elsewhere: elsewhere{records: q.records}, site: site, pilot: pilot,
	}
}

// takeOutcomes has outcomes judged that pilots of a site report. No lease that is given
// from now on has the number of one under which an outcome was refused.
func (q *queue) takeOutcomes(site *SiteRecord, outcomes []task.Outcome) []task.Ack {
	q.members.strangers(site, keysOf(outcomes, func(o *task.Outcome) task.PilotID { return o.Attempt.Pilot }))
	acks := q.outcomes.take(site, outcomes)
	var refused []task.LeaseID
	for i := range acks {
		if acks[i].Verdict == task.AckUnknown {
			refused = append(refused, acks[i].Attempt.Lease)
		}
	}
	q.leasing.numberBeyond(refused)
	return acks
}

// takeStarts books attempts that have begun.
func (q *queue) takeStarts(site *SiteRecord, starts []task.Start) {
	q.members.strangers(site, keysOf(starts, func(s *task.Start) task.PilotID { return s.Attempt.Pilot }))
	q.outcomes.takeStarts(site, starts)
}
