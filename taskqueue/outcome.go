package taskqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// outcomes judges what attempts report: which one counts, and what a failure costs.
type outcomes struct {
	*records
	life      *lifecycle
	catalogue *catalogue
	classes   *classes
	givenUp   []*task.Outcome // failures that may decide nothing, see takeGivenUp
}

// judgement is the work on one batch of outcomes.
type judgement struct {
	*records
	outcomes *outcomes
	site     *SiteRecord
	batch    []task.Outcome
	of       map[task.ID][]int // outcomes by task
	judged   []bool
	acks     []task.Ack // in the order judged
}

// take judges outcomes that pilots of a site report. Outcomes are
// facts: they are judged whatever term delivers them, makers before readers,
// each once, if the site held the lease that they name, be it long over. One that has to wait for the outcome of a maker of its inputs is
// not acknowledged; its pilot keeps it and sends it again.
func (j *outcomes) take(site *SiteRecord, batch []task.Outcome) []task.Ack {
	if len(batch) == 0 {
		return nil
	}
	b := &judgement{records: j.records, outcomes: j, site: site, batch: batch, of: make(map[task.ID][]int), judged: make([]bool, len(batch))}
	b.load()
	for i := range batch {
		b.visit(i)
	}
	j.sites.touch(site.Name)
	return b.acks
}

// load brings in everything the batch touches, table by table.
func (j *judgement) load() {
	var ids []task.ID
	var attempts []task.AttemptID
	var pilots []task.PilotID
	for i := range j.batch {
		attempt := j.batch[i].Attempt
		ids, attempts, pilots = append(ids, attempt.Task), append(attempts, attempt), append(pilots, attempt.Pilot)
		j.of[attempt.Task] = append(j.of[attempt.Task], i)
	}
	j.tasks.load(ids...)
	j.attempts.load(attempts...)
	j.pilots.load(pilots...)
	var leases []task.LeaseID
	for _, id := range ids {
		if s := j.tasks.held[id]; s != nil && s.Lease != 0 {
			leases = append(leases, s.Lease)
		}
	}
	j.leases.load(leases...)
	j.loadInputs(ids)
	j.loadOutputs(ids)
}

// visit judges the outcomes of the makers of an outcome's inputs, then it.
func (j *judgement) visit(i int) {
	if j.judged[i] {
		return
	}
	j.judged[i] = true
	if spec := j.specs.held[j.batch[i].Attempt.Task]; spec != nil {
		for _, in := range spec.Inputs {
			f := j.files.held[in.LFN]
			if f == nil || f.ProducerTask == "" {
				continue
			}
			for _, maker := range j.of[f.ProducerTask] {
				j.visit(maker)
			}
		}
	}
	j.judge(&j.batch[i])
}

func (j *judgement) ack(o *task.Outcome, verdict task.AckVerdict, winner task.AttemptID) {
	j.acks = append(j.acks, task.Ack{Attempt: o.Attempt, Verdict: verdict, Winner: winner})
}

// judge decides on one outcome.
func (j *judgement) judge(o *task.Outcome) {
	s, spec := j.tasks.held[o.Attempt.Task], j.specs.held[o.Attempt.Task]
	pilot := j.pilots.held[o.Attempt.Pilot]
	if s == nil || spec == nil || pilot == nil || pilot.Site != j.site.Name {
		j.ack(o, task.AckUnknown, task.AttemptID{})
		return
	}
	if known := j.attempts.held[o.Attempt]; known != nil {
		if verdict := known.State.verdict(); verdict != 0 {
			winner := s.Winner
			if s.State != task.Done {
				winner = task.AttemptID{}
			}
			j.ack(o, verdict, winner)
			return
		}
	}
	if !j.outcomes.ran(j.site.Name, o.Attempt) {
		j.ack(o, task.AckUnknown, task.AttemptID{})
		return
	}
	if known := j.attempts.held[o.Attempt]; known != nil {
		o.Number = known.Outcome.Number
		if known.State == AttemptLost && !o.OK { // it is booked; how long it took and its logs are news
			o.Site = j.site.Name
			j.site.Sums.Wasted += max(0, o.Run) - max(0, known.Outcome.Run)
			if known.Outcome.Failure == task.PilotLost { // nobody has told of it yet
				j.use(o, false)
			}
			j.record(o, AttemptLost)
			j.ack(o, task.AckAccepted, task.AttemptID{})
			j.outcomes.givenUp = append(j.outcomes.givenUp, o)
			return
		}
	} else {
		j.outcomes.number(o)
	}
	o.Site = j.site.Name
	for i := range o.Outputs {
		if !j.site.holds(o.Outputs[i].URL) {
			o.Outputs[i].URL = "" // a copy elsewhere is none that we know of
		}
	}
	switch {
	case o.Attempt.Generation < s.Generation:
		j.waste(o, AttemptRejected, task.AckStale, task.AttemptID{})
		return
	case s.State == task.Done:
		j.waste(o, AttemptDuplicate, task.AckDuplicate, s.Winner)
		return
	case s.State.Terminal():
		j.waste(o, AttemptDuplicate, task.AckDuplicate, task.AttemptID{})
		return
	case o.OK:
		j.success(s, spec, o)
		return
	}
	j.failure(s, o)
}

// verdict is the answer to an outcome that is known already; 0 if it is not.
func (a AttemptState) verdict() task.AckVerdict {
	switch a {
	case AttemptSucceeded, AttemptFailedState:
		return task.AckAccepted
	case AttemptDuplicate:
		return task.AckDuplicate
	case AttemptRejected:
		return task.AckStale
	}
	return 0
}

// record keeps an attempt as it ended, its logs apart. Copies that were
// reported before the outcome join its outputs.
func (j *judgement) record(o *task.Outcome, state AttemptState) {
	if before := j.attempts.held[o.Attempt]; before != nil && len(before.Outcome.Outputs) > 0 {
		made := byName(o.Outputs)
		for _, early := range before.Outcome.Outputs {
			if p := made[early.LFN]; p != nil && p.URL == "" {
				p.URL = early.URL
			}
		}
	}
	if len(o.Stdout)+len(o.Stderr) > 0 {
		check(j.Attempts().SaveLog(o.Attempt, tail(o.Stdout), tail(o.Stderr)))
	}
	j.outcomes.auditAttempt(AuditRan, j.site.Name, o, state)
	kept := *o
	kept.Stdout, kept.Stderr = nil, nil
	j.attempts.put(o.Attempt, &Attempt{State: state, Outcome: kept, Known: j.Clock})
	j.attempts.touch(o.Attempt)
}

// byName finds outputs, of which there may be thousands, by their names.
func byName(outputs []task.Produced) map[task.LFN]*task.Produced {
	made := make(map[task.LFN]*task.Produced, len(outputs))
	for i := range outputs {
		made[outputs[i].LFN] = &outputs[i]
	}
	return made
}

func tail(stream []byte) []byte { return stream[max(0, len(stream)-task.LogTail):] }

// waste books an outcome that changes nothing any more; what it uploaded is
// to be deleted.
func (j *judgement) waste(o *task.Outcome, state AttemptState, verdict task.AckVerdict, winner task.AttemptID) {
	j.record(o, state)
	j.use(o, false)
	j.site.Sums.Duplicates++
	j.site.Sums.Wasted += max(0, o.Run)
	j.discard(o, o.Outputs...)
	j.ack(o, verdict, winner)
}

// discard has an attempt's own copies deleted of those outputs of its task that it has
// made.
func (j *judgement) discard(o *task.Outcome, made ...task.Produced) {
	own := byName(made)
	outputs := slices.DeleteFunc(slices.Clone(j.specs.held[o.Attempt.Task].Outputs), func(out task.Output) bool { return own[out.LFN] == nil })
	j.outcomes.catalogue.discardOutputs(j.site, o.Attempt, outputs)
}

// inputsMatch tells whether an outcome read the catalogue's files. An input
// that nobody has won yet, of an attempt that may still be reported, makes the
// outcome wait.
func (j *judgement) inputsMatch(spec *task.Task, o *task.Outcome) (match, wait bool) {
	read := make(map[task.LFN]*task.Read, len(o.Reads))
	for i := range o.Reads {
		read[o.Reads[i].LFN] = &o.Reads[i]
	}
	for _, in := range spec.Inputs {
		f, r := j.files.held[in.LFN], read[in.LFN]
		if f == nil || f.ProducerTask == "" || r == nil {
			continue
		}
		if r.Producer == f.Producer && !r.Producer.IsZero() || !r.Digest.IsZero() && r.Digest == f.Digest {
			continue
		}
		maker := j.tasks.held[f.ProducerTask]
		if f.Producer.IsZero() && maker != nil && !maker.State.Terminal() && j.mayBeTold(maker, r.Producer) {
			wait = true
			j.outcomes.life.awaited[maker.Lease] = struct{}{}
			continue
		}
		return false, false
	}
	return !wait, wait
}

// mayBeTold tells whether somebody may still report an attempt of a task: the master that
// holds the task by the same lease, or its pilot, unless that is to leave. An attempt that
// was acknowledged before the queue was put back to a backup is never told again, and
// pilots that wait for each other's would not leave.
func (j *judgement) mayBeTold(s *TaskState, made task.AttemptID) bool {
	pilot := j.pilots.one(made.Pilot)
	return s.Generation == made.Generation &&
		(s.State == task.Leased && s.Lease == made.Lease || pilot != nil && pilot.State == PilotAlive)
}

// success judges an attempt that made all its outputs.
func (j *judgement) success(s *TaskState, spec *task.Task, o *task.Outcome) {
	made := byName(o.Outputs)
	for _, out := range spec.Outputs {
		if p := made[out.LFN]; p == nil || p.Digest.IsZero() || p.Size < 0 {
			o.OK, o.Failure = false, task.PayloadFailed
			o.Reason = fmt.Sprintf("the outcome names no size and digest of the output %s", out.LFN.Local())
			j.failure(s, o)
			return
		}
	}
	match, wait := j.inputsMatch(spec, o)
	if wait {
		return
	}
	holds := s.State == task.Leased && s.Lease == o.Attempt.Lease
	if !match {
		j.waste(o, AttemptRejected, task.AckStale, task.AttemptID{})
		if holds {
			j.outcomes.life.reopen(s, task.Return, "an attempt read an input that is not the accepted one")
			return
		}
		return
	}
	if s.State == task.Leased && !holds {
		j.outcomes.life.revoke(s.Site, s.Lease, s.ID, true)
	}
	if len(spec.Outputs) > 0 && !s.knows(o.Site, o.Attempt.Lease) {
		// The queue was put back to a backup, and may have refused this outcome before it
		// leased the task to the site anew: then its maker has let go of the outputs.
		j.site.CheckUntil = j.Clock
		j.sites.look(j.site)
	}
	j.record(o, AttemptSucceeded)
	j.outcomes.life.move(s, task.Succeed, "")
	s.Winner, s.Site = o.Attempt, o.Site
	j.publish(spec, o)
	j.learnReads(o)
	if s.Number > 2 {
		j.outcomes.catalogue.discardLosers(s)
	}
	j.book(o, j.config.HandOut.Sample)
	j.noteEnd(s, o)
	j.ack(o, task.AckAccepted, o.Attempt)
}

// publish enters a winner's outputs into the catalogue. An output of an
// earlier generation that still exists stays as it is.
func (j *judgement) publish(spec *task.Task, o *task.Outcome) {
	made := byName(o.Outputs)
	var there []task.Produced
	for _, out := range spec.Outputs {
		f, p := j.files.held[out.LFN], made[out.LFN]
		if f == nil {
			end(fmt.Errorf("output %s of %s is not in the catalogue: the store is damaged", out.LFN, spec.ID))
		}
		delete(made, out.LFN)
		if exists(f) {
			there = append(there, *p)
			continue
		}
		j.outcomes.catalogue.announce(f, o.Site)
		if !j.pilots.held[o.Attempt.Pilot].State.Present() {
			j.sites.look(j.site) // nobody may be left who stores it
		}
		f.Size, f.Digest, f.Exec, f.Producer = p.Size, p.Digest, p.Exec, o.Attempt
		j.outcomes.catalogue.replicate(f, task.Replica{Site: o.Site, URL: p.URL})
	}
	if len(there) > 0 {
		j.discard(o, there...)
	}
}

// learnReads keeps the digest of external files at their first read, and trusts
// copies that were read. The word of one site binds that site alone, until another one
// reads the same; where it reads something else, its word takes the place.
func (j *judgement) learnReads(o *task.Outcome) {
	for i := range o.Reads {
		f, from := j.files.held[o.Reads[i].LFN], o.Reads[i].Source
		if f != nil && (from == task.SourceSE || from == task.SourceRemote) && o.Reads[i].Digest == f.Digest {
			j.outcomes.catalogue.trust(f)
			if f.Strikes > 0 {
				f.Strikes = 0
				j.files.touch(f.LFN)
			}
		}
		if f == nil || f.ProducerTask != "" || o.Reads[i].Digest.IsZero() {
			continue
		}
		switch alone := f.LearnedAt != "" && f.LearnedAt != o.Site; {
		case f.Digest.IsZero() || alone && f.Digest != o.Reads[i].Digest:
			f.Digest, f.Learned, f.LearnedAt = o.Reads[i].Digest, true, o.Site
		case alone:
			f.LearnedAt = ""
		default:
			continue
		}
		j.files.touch(f.LFN)
	}
}

// failure books a failed attempt and decides what becomes of the task.
func (j *judgement) failure(s *TaskState, o *task.Outcome) {
	o.OK = false
	if o.Failure == task.NoFailure {
		o.Failure = task.PayloadFailed
	}
	state := AttemptFailedState
	if o.Failure == task.PilotLost {
		state = AttemptLost
	}
	j.record(o, state)
	j.discard(o, o.Outputs...)
	j.book(o, 0)
	j.noteEnd(s, o)
	j.ack(o, task.AckAccepted, task.AttemptID{})
	if s.State != task.Leased || s.Lease != o.Attempt.Lease {
		return // a late failure of a lapsed lease decides nothing
	}
	if j.attempts.started(s) {
		j.outcomes.givenUp = append(j.outcomes.givenUp, o) // the other attempt decides, unless it is lost
		return
	}
	j.outcomes.failed(j.site, s, o)
}

// book adds an accepted outcome to the sums of site and pilot.
func (j *judgement) book(o *task.Outcome, sample int) {
	if s := j.tasks.held[o.Attempt.Task]; s.Losses == 0 {
		j.site.Fates.add(o.Failure == task.PilotLost)
	}
	j.site.addOutcome(o, sample)
	j.use(o, o.OK)
	j.pilots.held[o.Attempt.Pilot].Sums.add(o)
	j.pilots.touch(o.Attempt.Pilot)
}

// failed decides what becomes of a LEASED task after a failure.
func (j *outcomes) failed(site *SiteRecord, s *TaskState, o *task.Outcome) {
	switch o.Failure {
	case task.KilledByUser:
		j.life.reopen(s, task.Return, o.Reason)
		return
	case task.PilotLost:
		if j.countLoss(site, []*TaskState{s}, 0); s.State == task.Leased {
			j.life.reopen(s, task.Return, o.Reason) // whoever ends it has it no more
		}
		return
	case task.PilotFailed:
		if s.PilotFaults++; s.PilotFaults <= j.config.Retry.PilotFaults {
			j.life.retryLater(s, s.PilotFaults, o.Reason)
			return
		}
	case task.StorageFailed:
		if s.StorageFaults++; s.StorageFaults <= j.config.Retry.StorageFaults {
			j.life.retryLater(s, s.StorageFaults, o.Reason)
			return
		}
	}
	s.Failures++
	if j.lastFailure(s, j.specs.held[s.ID].Retries) {
		attempts := j.attempts.ofTask(s.ID)
		attempts = slices.DeleteFunc(attempts, func(a *Attempt) bool { return a.Outcome.Attempt.Generation != s.Generation })
		j.life.giveUp(s, fmt.Sprintf("%s after %s: %s", o.Failure, task.Counted(len(attempts), "attempt"), o.Reason))
		return
	}
	j.life.retryLater(s, s.Failures, o.Reason)
}

// takeGivenUp decides on failures of attempts beside which the site may have
// begun the task anew, when the starts and departures of the same Sync are
// booked: of pilots that were held for dead and are there again, and of those
// that were told to leave the task to another. Whoever runs it decides; if nobody
// does, the master that reports the failure has given the task up. What a pilot
// delivers itself says nothing of its master.
func (j *outcomes) takeGivenUp(site *SiteRecord) {
	for _, o := range j.givenUp {
		s := j.tasks.held[o.Attempt.Task]
		switch {
		case s.State != task.Leased || s.Lease != o.Attempt.Lease || s.Generation != o.Attempt.Generation || j.attempts.started(s):
		case j.attempts.held[o.Attempt].State == AttemptLost:
			j.life.reopen(s, task.Return, o.Reason)
		default:
			j.failed(site, s, o)
		}
	}
}

// retryLater makes a task wait before it is handed out again.
func (l *lifecycle) retryLater(s *TaskState, failures int, reason string) {
	l.reopen(s, task.AttemptFailed, reason)
	s.NotBefore = l.Clock.Add(l.config.Retry.backoff(l.Random, failures))
}

// backoff returns a random time up to twice as long after each failure.
func (c *RetryConfig) backoff(random Random, failures int) time.Duration {
	lowest := c.BackoffMin
	ceiling := min(c.BackoffMax, lowest<<min(failures, 20))
	if ceiling <= lowest {
		return lowest
	}
	return lowest + time.Duration(random.Uint64()%uint64(ceiling-lowest+1))
}

// reopen takes a LEASED task back to where its inputs allow it to be.
func (l *lifecycle) reopen(s *TaskState, event task.Event, reason string) {
	l.move(s, event, reason)
	s.NotBefore = max(s.NotBefore, l.Clock)
	l.review(s.ID)
}
