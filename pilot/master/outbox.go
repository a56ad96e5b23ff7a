package master

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// outbox is what the queue has to be told, and how the calls stand. Nothing
// leaves it before the queue has acknowledged it.
type outbox struct {
	outcomes  map[task.AttemptID]*pendingOutcome
	ofTask    map[task.ID][]*pendingOutcome
	starts    []task.Start
	returns   []task.Returned
	stored    map[task.OutputID]pendingStored
	lost      []loss
	departed  []task.Departure
	joined    map[task.PilotID]uint64 // with the number of the last call before
	pauses    map[task.PilotID]string // why pilots take no new work by now; "" is that they do
	refused   []task.Refusal
	confirmed []task.Revoked
	confirms  map[task.Revoked]bool     // the same
	reads     map[task.Site]task.SERead // not in a report yet
	replicas  task.ReplicaSum           // neither
	report    task.SiteReport           // sent until it is acknowledged
	orders    uint64

	call calls
}

// calls are how what is in the outbox gets to the queue.
type calls struct {
	due       time.Time // content is to be sent by then
	poll      time.Time // an empty Sync is due, if those with content let it
	carried   time.Time // when the last call with content was answered
	failures  int
	again     time.Time // outcomes that wait are asked about again
	vain      int       // calls in a row that brought no verdict on those
	number    uint64    // number of the last call
	telling   uint64    // number of the last call with content
	roll      uint64    // the queue's, in this term
	answered  uint64    // highest number of an answered call
	flight    *flight   // call that carries content
	parked    parked    // call that waits for the queue's news
	lastReady int       // at the last call
}

type pendingOutcome struct {
	outcome task.Outcome
	seal    *task.Seal // that it came under; passed on unopened
	from    task.PeerID
	order   uint64
	asked   uint64 // number of the call that brought no verdict on it; 0: it does not wait
}

// pendingStored is a copy of which the queue is to know. It is told once, and again with
// each call that brings the outcome of its attempt: the queue may be back at a backup.
type pendingStored struct {
	stored task.Stored
	from   []task.PeerID // who wants to know that the queue knows
	told   bool          // and it does; its attempt's outcome is not judged yet
}

// loss is a file that nobody has any more, or a bad copy, of which the queue is to know.
type loss struct {
	task.LostFile
	bereft []keeper // those who were to keep it hear when the queue knows, and tell a new master until then
}

// parked is an empty call under way; number 0 is none.
type parked struct {
	number uint64
	sent   time.Time
}

// flight remembers what a call carries, so that just that is acknowledged.
type flight struct {
	number    uint64
	sent      time.Time
	outcomes  []task.Outcome
	starts    int
	returns   int
	stored    []task.Stored
	lost      int
	departed  int
	joined    []task.PilotID
	pauses    []task.Pause
	refused   int
	confirmed int
	report    uint64
	summary   uint64 // version of the cache summary
}

func (o *outbox) reset() {
	*o = outbox{
		outcomes: make(map[task.AttemptID]*pendingOutcome),
		ofTask:   make(map[task.ID][]*pendingOutcome),
		stored:   make(map[task.OutputID]pendingStored),
		reads:    make(map[task.Site]task.SERead),
		joined:   make(map[task.PilotID]uint64),
		pauses:   make(map[task.PilotID]string),
		confirms: make(map[task.Revoked]bool),
		report:   task.SiteReport{Seq: o.report.Seq}, call: calls{number: o.call.number, telling: o.call.telling, answered: o.call.number},
	}
}

// begin starts the calls of a term; answers to older ones do not count.
func (o *outbox) begin(now time.Time) {
	o.call.flight, o.call.parked, o.call.failures = nil, parked{}, 0
	o.call.answered = o.call.number
	o.call.poll = now
	o.call.again, o.call.vain, o.call.roll = now, 0, 0
}

// empty tells whether the queue has all that must not be lost.
func (o *outbox) empty() bool { return len(o.outcomes) == 0 && len(o.joined) == 0 && o.emptyBeside() }

// emptyBeside tells it of all but outcomes and members.
func (o *outbox) emptyBeside() bool {
	return len(o.starts) == 0 && len(o.returns) == 0 && len(o.untold()) == 0 &&
		len(o.lost) == 0 && len(o.departed) == 0 && len(o.refused) == 0 && len(o.confirmed) == 0
}

// addOutcome keeps an outcome and tells whether it is new.
func (o *outbox) addOutcome(from task.PeerID, outcome task.Outcome, seal *task.Seal) bool {
	if pending := o.outcomes[outcome.Attempt]; pending != nil {
		pending.from = from
		return false
	}
	o.orders++
	pending := &pendingOutcome{outcome: outcome, seal: seal, from: from, order: o.orders}
	o.outcomes[outcome.Attempt] = pending
	o.ofTask[outcome.Attempt.Task] = append(o.ofTask[outcome.Attempt.Task], pending)
	return true
}

// judged takes an outcome out that the queue has judged.
func (o *outbox) judged(attempt task.AttemptID) *pendingOutcome {
	pending := o.outcomes[attempt]
	if pending == nil {
		return nil
	}
	delete(o.outcomes, attempt)
	for _, output := range pending.outcome.Outputs {
		if id := (task.OutputID{Attempt: attempt, LFN: output.LFN}); o.stored[id].told {
			delete(o.stored, id)
		}
	}
	rest := slices.DeleteFunc(o.ofTask[attempt.Task], func(other *pendingOutcome) bool { return other == pending })
	if o.ofTask[attempt.Task] = rest; len(rest) == 0 {
		delete(o.ofTask, attempt.Task)
	}
	return pending
}

// decides returns the outcome under way to the queue that ends a leased task:
// a success of its generation, or else a failure under its lease.
func (o *outbox) decides(lease task.LeaseID, t task.LeasedTask) *task.Outcome {
	var failure *task.Outcome
	for _, pending := range o.ofTask[t.Task.ID] {
		switch outcome := &pending.outcome; {
		case outcome.Attempt.Generation != t.Generation:
		case outcome.OK:
			return outcome
		case outcome.Attempt.Lease == lease:
			failure = outcome
		}
	}
	return failure
}

// untold lists the outputs of which the queue is to be told that they are stored: those
// that it was not told of, and all of the given outcomes.
func (o *outbox) untold(with ...task.Outcome) (outputs []task.OutputID) {
	for output, pending := range o.stored {
		if !pending.told || slices.ContainsFunc(with, func(w task.Outcome) bool { return w.Attempt == output.Attempt }) {
			outputs = append(outputs, output)
		}
	}
	slices.SortFunc(outputs, task.OutputID.Compare)
	return outputs
}

func (o *outbox) addStored(from task.PeerID, s task.Stored) {
	pending := o.stored[s.Output()]
	if pending.stored != s { // whoever told of another place tells it again
		pending = pendingStored{stored: s}
	}
	if !slices.Contains(pending.from, from) {
		pending.from = append(pending.from, from)
	}
	pending.told = false
	o.stored[s.Output()] = pending
}

// confirm adds a revocation that was carried out, once.
func (o *outbox) confirm(at *step, hand *handout, r task.Revoked) {
	if !o.confirms[r] {
		o.confirms[r] = true
		o.confirmed = append(o.confirmed, r)
	}
	o.syncSoon(at, hand.gatherDelay(at))
}

// lossOf is the loss of a file that the queue is to know of; nil: of none.
func (o *outbox) lossOf(file task.File) *loss {
	for i := range o.lost {
		if l := &o.lost[i]; l.LFN == file.LFN && l.Digest == file.Digest && l.URL == "" {
			return l
		}
	}
	return nil
}

// lostFile has the queue told that nobody holds a file any more, and those who were to
// keep it when it knows.
func (o *outbox) lostFile(at *step, file task.File, reason string, keepers ...keeper) {
	o.lost = append(o.lost, loss{LostFile: task.LostFile{LFN: file.LFN, Digest: file.Digest, Reason: reason}, bereft: keepers})
	o.syncSoon(at, 0)
}

func (o *outbox) addSEReads(at *step, reads []task.SERead) {
	for _, r := range reads {
		sum := o.reads[r.Owner]
		sum.Owner = r.Owner
		sum.Files += r.Files
		sum.Bytes += r.Bytes
		o.reads[r.Owner] = sum
	}
	if len(reads) > 0 {
		o.syncSoon(at, at.config.Queue.Every) // with other news, if there are any before
	}
}

// Bounds of the outcomes in one call, in number and in bytes.
const (
	maxOutcomes  = 1000
	syncOutcomes = 2 << 20
)

// sends tells whether a call carries an outcome now: one that waits is not asked
// about again before its time.
func (o *outbox) sends(p *pendingOutcome, now time.Time) bool {
	return p.asked == 0 || !now.Before(o.call.again)
}

// pressing tells whether there is something to send now. Of members that have been asked
// for their state a call cannot tell: one that hangs would have the master call on and on.
func (o *outbox) pressing(now time.Time, roster *roster) bool {
	if !o.emptyBeside() {
		return true
	}
	for id := range o.joined {
		if roster.members[id].talk.asked.IsZero() {
			return true
		}
	}
	for _, p := range o.outcomes {
		if o.sends(p, now) {
			return true
		}
	}
	return false
}

// nextOutcome is when outcomes are to be sent.
func (o *outbox) nextOutcome(now time.Time) time.Time {
	for _, p := range o.outcomes {
		if p.asked == 0 {
			return now
		}
	}
	return o.call.again
}

// inOrder lists outcomes, as many as one call takes: those that the queue can
// judge before those that are to wait for others, as far as is known, each oldest
// first, and at last those that do wait, asked about longest ago first. So what
// waits takes no place from what can go on.
func (o *outbox) inOrder(now time.Time, waits func(*task.Outcome) bool) []task.Outcome {
	type candidate struct {
		*pendingOutcome
		waits int
	}
	var pending []candidate
	for _, p := range o.outcomes {
		if !o.sends(p, now) {
			continue
		}
		c := candidate{pendingOutcome: p}
		if p.asked == 0 && waits(&p.outcome) {
			c.waits = 1
		}
		pending = append(pending, c)
	}
	slices.SortFunc(pending, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.waits, b.waits), cmp.Compare(a.order, b.order))
	})
	var outcomes []task.Outcome
	for _, p := range pending[:min(len(pending), maxOutcomes)] {
		outcomes = append(outcomes, p.outcome)
	}
	return outcomes[:message.SplitOutcomes(outcomes, syncOutcomes)]
}

// sealsOf are the seals that outcomes came under, each once.
func (o *outbox) sealsOf(outcomes []task.Outcome) []*task.Seal {
	var seals []*task.Seal
	taken := make(map[*task.Seal]bool)
	for i := range outcomes {
		if seal := o.outcomes[outcomes[i].Attempt].seal; seal != nil && !taken[seal] {
			taken[seal] = true
			seals = append(seals, seal)
		}
	}
	return seals
}

// resendMost is the longest time between two calls that ask about outcomes that
// wait.
const resendMost = 20 * time.Second

// unanswered notes which outcomes of an answered call wait, and returns the most
// time until they are asked about again: ever more, while there is no verdict on
// any of them.
func (o *outbox) unanswered(f *flight, least time.Duration) (most time.Duration, wait bool) {
	asked := false
	for i := range f.outcomes {
		if p := o.outcomes[f.outcomes[i].Attempt]; p != nil {
			asked = asked || p.asked != 0
			p.asked, wait = f.number, true
		}
	}
	if asked {
		o.call.vain++
	}
	return min(resendMost, least<<min(o.call.vain, 20)), wait
}

// letGoOn has outcomes sent again that have waited for tasks that are judged by
// now.
func (o *outbox) letGoOn(judged map[task.ID]bool) {
	for _, p := range o.outcomes {
		if p.asked != 0 && slices.ContainsFunc(p.outcome.Reads, func(r task.Read) bool { return judged[r.Producer.Task] }) {
			p.asked = 0
		}
	}
}

// mostListed bounds each list of a call; the rest comes with the next one. The queue
// refuses a call of more than 64 MiB.
const mostListed = 10_000

func someOf[E any](list []E) []E { return slices.Clone(list[:min(len(list), mostListed)]) }

// load takes as much content as a call carries, and returns what that is.
func (o *outbox) load(s *task.Sync, now time.Time, waits func(*task.Outcome) bool) *flight {
	s.Outcomes = o.inOrder(now, waits)
	s.Seals = o.sealsOf(s.Outcomes)
	s.Starts, s.Returns = someOf(o.starts), someOf(o.returns)
	for _, lost := range o.lost[:min(len(o.lost), mostListed)] {
		s.Lost = append(s.Lost, lost.LostFile)
	}
	s.Departed, s.Refused, s.Confirmed = someOf(o.departed), someOf(o.refused), someOf(o.confirmed)
	for pilot, why := range byKey(o.pauses) {
		s.Pauses = append(s.Pauses, task.Pause{Pilot: pilot, Why: why})
	}
	for _, output := range someOf(o.untold(s.Outcomes...)) {
		s.Stored = append(s.Stored, o.stored[output].stored)
	}
	if o.report.Empty() && o.unreported() {
		o.report.Seq++
		for _, sum := range byKey(o.reads) {
			o.report.SEReads = append(o.report.SEReads, sum)
		}
		o.report.Replicas = o.replicas
		clear(o.reads)
		o.replicas = task.ReplicaSum{}
	}
	if !o.report.Empty() {
		s.Report = o.report
	}
	return &flight{
		number: o.call.number, sent: now, outcomes: s.Outcomes, starts: len(s.Starts), returns: len(s.Returns), stored: s.Stored, lost: len(s.Lost),
		departed: len(s.Departed), joined: s.Joined, pauses: s.Pauses, refused: len(s.Refused), confirmed: len(s.Confirmed), report: s.Report.Seq,
	}
}

// delivered drops what a call has carried. Outcomes wait for their verdict.
func (o *outbox) delivered(f *flight) {
	o.starts = o.starts[f.starts:]
	o.returns = o.returns[f.returns:]
	o.lost = o.lost[f.lost:]
	o.departed = o.departed[f.departed:]
	for _, pilot := range f.joined {
		if o.joined[pilot] < f.number { // else it has left and come back since
			delete(o.joined, pilot)
		}
	}
	for _, told := range f.pauses {
		if o.pauses[told.Pilot] == told.Why { // else there is other news of it since
			delete(o.pauses, told.Pilot)
		}
	}
	o.refused = o.refused[f.refused:]
	for _, r := range o.confirmed[:f.confirmed] {
		delete(o.confirms, r)
	}
	o.confirmed = o.confirmed[f.confirmed:]
	if f.report != 0 && f.report == o.report.Seq {
		o.report.SEReads, o.report.Replicas = nil, task.ReplicaSum{}
	}
}

// unreported tells whether there is something for the next report.
func (o *outbox) unreported() bool { return len(o.reads) > 0 || o.replicas != (task.ReplicaSum{}) }
