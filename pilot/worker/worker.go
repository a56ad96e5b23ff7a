package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Worker is the core of a pilot that runs tasks: it stages inputs in, starts
// payloads when a slot is free, publishes outputs, and keeps every outcome
// until the queue's acceptance is echoed.
type Worker struct {
	config    Config
	self      matcher.Pilot
	peer      task.PeerID
	now       time.Time
	out       []message.Action
	evaluator *matcher.Evaluator

	master task.PeerID // "" while nobody is in office
	boss   task.PeerID // master of the term, also while it is in doubt
	term   task.Term
	seen   uint64       // serial number of the last Assign or Want of the term
	early  []FromMaster // of a term that the overlay has not told of yet

	said     uint64 // number of the last state or report
	counter  uint64
	work     map[task.AttemptID]*work
	free     task.Resources
	slots    int
	freed    []time.Time // when each free slot's last payload ended
	crowd    int         // jobs that wait for room in the cache
	roomier  bool        // there may be more room than when the last one found none
	outcomes map[task.AttemptID]*task.Outcome
	stored   map[task.OutputID]task.Stored
	sole     map[task.OutputID]*soleCopy
	gone     map[task.OutputID]task.File // sole copies that have left the cache
	handOver time.Time                   // when a leaving pilot hands sole copies over; zero: only what cannot be uploaded
	copies   keptCopies
	copying  copying

	live  matcher.Live       // as the evaluator was told
	bound map[task.Bound]int // jobs that hold a slot, by what limits them

	report   message.Report
	due      time.Time // when the report is to be sent; zero: nothing to say
	delivery delivery
	cache    message.CacheReport
	storage  bool // the site has a storage element
	draining bool
	drained  bool
	stopped  string // why no new work is taken; "" when it is
	checking bool   // it is not known yet whether it can be
	unfit    string // what the node says of that
	declines string // what the pilot's own policy says
	rest     rest   // and what its failures do
	policy   *matcher.Acceptance
	repeat   time.Time     // when what is not acknowledged is told again
	patient  time.Duration // after so long without an answer
}

// New makes a worker for a pilot; the evaluator knows its cache.
func New(config Config, self matcher.Pilot, peer task.PeerID, evaluator *matcher.Evaluator) *Worker {
	w := &Worker{
		config: cmp.Or(config, DefaultConfig()), self: self, peer: peer, evaluator: evaluator, policy: &matcher.Acceptance{},
		free: self.Resources, slots: self.Slots,
		work:     make(map[task.AttemptID]*work),
		outcomes: make(map[task.AttemptID]*task.Outcome),
		stored:   make(map[task.OutputID]task.Stored),
		sole:     make(map[task.OutputID]*soleCopy),
		gone:     make(map[task.OutputID]task.File),
		bound:    make(map[task.Bound]int),
		copying:  copying{underWay: make(map[task.FileKey]task.File)},
	}
	w.copies.reset()
	w.passLive()
	return w
}

// AcceptBy has a policy of the pilot's own decide when it takes new work (001,
// section 2.3). It is asked with every PilotChanged.
func (w *Worker) AcceptBy(policy *matcher.Acceptance) { w.policy = policy }

// Step takes an event and returns what is to be done, in order.
func (w *Worker) Step(now time.Time, event message.Event) []message.Action {
	if now.After(w.now) {
		w.now = now
	}
	w.out = nil
	switch e := event.(type) {
	case message.MasterInOffice:
		w.masterInOffice(e)
	case FromMaster:
		w.fromMaster(e)
	case ListBroadcast:
		w.listBroadcast(e)
	case StagedIn:
		w.stagedIn(e)
	case StageFailed:
		w.stageFailed(e)
	case PayloadStarted:
		w.payloadStarted(e)
	case PayloadEnded:
		w.payloadEnded(e)
	case Published:
		w.published(e)
	case Uploaded:
		w.uploaded(e)
	case UploadFailed:
		w.uploadFailed(e.Output)
	case NotUploaded:
		w.notUploaded(e.Output)
	case Kept:
		w.kept(e)
	case Recovered:
		w.keepSole(e.Outputs...)
	case CacheChanged:
		w.cacheChanged(e)
	case DeliveredToQueue:
		if len(e.Acks) > 0 {
			w.delivery.pause = w.config.ResendAfter
		}
		w.acknowledge(message.Acks{Acks: e.Acks, Stored: e.Stored})
	case BadCopy:
		w.report.BadCopies = append(w.report.BadCopies, e.Copy)
		w.soon(w.config.ReportDelay)
	case SERead:
		w.report.SEReads = append(w.report.SEReads, e.Reads...)
		w.soon(w.config.ReportDelay)
	case CopiedIn:
		w.copiedIn(e)
	case SiteChanged:
		w.storageIs(e.Settings.SE != "")
		w.replicates(e.Settings)
	case PilotChanged:
		w.pilotChanged(e)
	case Drain:
		if e.Within > 0 {
			w.handOver = w.now.Add(e.Within / 2)
		}
		w.drain(e.Reason)
	case message.Tick:
	}
	w.pass()
	return w.out
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (w *Worker) Deadline() time.Time {
	first := w.due
	if w.master == "" {
		first = time.Time{}
	}
	for _, due := range []time.Time{w.delivery.due, w.handOverDeadline(), w.rest.until, w.repeatDue()} {
		if !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// Idle tells whether nothing is in hand, every outcome is accepted, and no
// output waits for a storage element, or for another keeper when this pilot
// leaves.
func (w *Worker) Idle() bool {
	return len(w.work) == 0 && len(w.outcomes) == 0 && len(w.stored) == 0 && (len(w.sole) == 0 || !w.storage && !w.draining)
}

// Running is the number of payloads that run.
func (w *Worker) Running() int {
	n := 0
	for _, job := range w.work {
		if job.phase == running {
			n++
		}
	}
	return n
}

func (w *Worker) act(a message.Action) { w.out = append(w.out, a) }

func (w *Worker) tellMaster(m message.Message) { w.act(message.Tell{To: w.boss, Message: m}) }

// soon has the report sent after a delay at most; 0 is now.
func (w *Worker) soon(delay time.Duration) {
	due := w.now.Add(delay)
	if w.due.IsZero() || due.Before(w.due) {
		w.due = due
	}
}

// pass starts what fits and sends what is due.
func (w *Worker) pass() {
	w.passRest()
	w.passAwaiting()
	w.startWhatFits()
	w.passLive()
	w.passCrowd()
	w.passHandOver()
	w.passCopying()
	w.passRepeat()
	w.passReport()
	if w.draining && !w.drained && w.Idle() {
		w.drained = true
		w.act(Drained{})
	}
}

// masterInOffice takes the overlay's word on who is master. A new term begins
// with an empty task list, and hears again of everything that the queue has
// not acknowledged: the census may have missed it.
func (w *Worker) masterInOffice(e message.MasterInOffice) {
	if e.Peer == "" {
		w.master = ""
		w.delivery = delivery{due: w.now.Add(w.config.ResendAfter), pause: w.config.ResendAfter}
		return
	}
	w.delivery = delivery{}
	w.master, w.boss = e.Peer, e.Peer
	if e.Term == w.term {
		return
	}
	w.term, w.seen = e.Term, 0
	w.evaluator.Reset(matcher.ListSnapshot{Version: matcher.ListVersion{Term: w.term}, Rates: matcher.DefaultRates()})
	w.report.Row, w.report.Updates, w.report.WantList = nil, nil, false
	w.report.Outcomes, w.report.Stored = w.pendingOutcomes(), w.pendingStored()
	for _, kept := range w.sole {
		kept.offered = time.Time{}
	}
	w.soon(0)
	early := w.early
	w.early = nil
	for _, said := range early {
		w.fromMaster(said)
	}
}

// maxEarly bounds the messages kept of a master that is not in office yet.
const maxEarly = 1000

// fromMaster handles a message of the master in office; a lower term is
// ignored (DESIGN section 4), a higher one waits until the overlay tells of it.
func (w *Worker) fromMaster(e FromMaster) {
	if term, has := termOf(e.Message); has && w.term.Less(term) {
		if len(w.early) < maxEarly {
			w.early = append(w.early, e)
		}
		return
	} else if has && term != w.term {
		return
	}
	if acks, facts := e.Message.(message.Acks); facts {
		w.acknowledge(acks) // whoever brings them
		return
	}
	if e.From != w.boss {
		return
	}
	switch m := e.Message.(type) {
	case message.Assign:
		if m.Serial <= w.seen {
			return // overtaken by what was said since: the master counts it as lost
		}
		w.seen = m.Serial
		for _, assignment := range m.Tasks {
			w.assigned(assignment)
		}
	case message.Retract:
		w.retract(m)
	case message.Kill:
		w.kill(m)
	case message.Snapshot:
		w.snapshot(m.List)
	case message.Want:
		w.wanted(m)
	case message.KeepCopy:
		w.copies.keep(w.now, m)
	case message.StoreOrder:
		w.takeOver(m.File)
	case message.Replicate:
		w.replicate(m)
	case message.DrainOrder:
		w.drain(m.Reason)
	}
}

// termOf returns the term that a message names.
func termOf(m message.Message) (task.Term, bool) {
	switch m := m.(type) {
	case message.Assign:
		return m.Term, true
	case message.Retract:
		return m.Term, true
	case message.Kill:
		return m.Term, true
	case message.Want:
		return m.Term, true
	case message.KeepCopy:
		return m.Term, true
	case message.Replicate:
		return m.Term, true
	case message.Snapshot:
		return m.List.Version.Term, true
	}
	return task.Term{}, false
}

// snapshot takes a whole list, unless a newer one is at hand by now.
func (w *Worker) snapshot(list matcher.ListSnapshot) {
	if at := w.evaluator.Version(); at.Term != list.Version.Term || at.N < list.Version.N {
		w.evaluator.Reset(list)
	}
	w.tellRow()
}

func (w *Worker) wanted(m message.Want) {
	w.seen = max(w.seen, m.Serial)
	if m.State {
		state := w.state(directOutcomes)
		if m.Copies {
			w.copies.tell(w.now, &state)
		}
		w.tellMaster(state)
	}
	if m.Row {
		w.tellRow()
	}
}

func (w *Worker) tellRow() {
	row := w.evaluator.Row()
	w.report.Row, w.report.Updates = &row, nil
	w.soon(0)
}

// listBroadcast applies the list's changes and answers with this pilot's row.
func (w *Worker) listBroadcast(e ListBroadcast) {
	answer := message.Answer{Pilot: w.self.ID, Peer: w.peer, Have: e.Have}
	if e.From == w.boss && e.List.Delta.Version.Term == w.term {
		switch update, err := w.evaluator.Apply(e.List.Delta); {
		case err == nil:
			answer.Update = &update
		case w.evaluator.Version().N < e.List.Delta.Version.N:
			w.report.WantList = true
			w.soon(0)
		}
	}
	if e.List.Census {
		state := w.state(censusOutcomes)
		if e.List.Copies {
			w.copies.tell(w.now, &state)
		}
		answer.State = &state
	}
	w.act(AnswerBroadcast{ID: e.ID, Answer: answer})
}

// acknowledge forgets what the queue has accepted, or judged otherwise: every
// verdict is final. What an attempt has made that does not count need not be
// kept.
func (w *Worker) acknowledge(m message.Acks) {
	for _, ack := range m.Acks {
		if w.outcomes[ack.Attempt] != nil {
			delete(w.outcomes, ack.Attempt)
			w.act(DropLogs{Attempt: ack.Attempt})
		}
		if ack.Verdict != task.AckAccepted {
			w.forsake(ack.Attempt)
		}
	}
	for _, output := range m.Stored {
		delete(w.stored, output)
	}
	w.letGo(m.Relieved...)
	w.expectAnswer()
}

func oldestFirst(a, b *work) int { return cmp.Compare(a.order, b.order) }

func (w *Worker) inOrder() []*work {
	jobs := make([]*work, 0, len(w.work))
	for _, job := range w.work {
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, oldestFirst)
	return jobs
}
