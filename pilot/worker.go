package pilot

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Worker is the core of a pilot that runs tasks: it stages inputs in, starts
// payloads when a slot is free, publishes outputs, and keeps every outcome
// until the queue's acceptance is echoed.
type Worker struct {
	config    Config
	self      matcher.Pilot
	peer      task.PeerID
	prefill   int
	now       time.Time
	out       []Action
	evaluator *matcher.Evaluator

	master   task.PeerID // "" while nobody is in office
	term     task.Term
	orphaned time.Time // since when there is no master to report to

	counter  uint64
	work     map[task.AttemptID]*work
	free     task.Resources
	slots    int
	freed    []time.Time // when each free slot's last payload ended
	outcomes map[task.AttemptID]*task.Outcome
	stored   map[task.LFN]task.Stored
	copies   map[task.LeaseID]task.Lease

	report   Report
	due      time.Time // when the report is to be sent; zero: nothing to say
	deliver  time.Time // when outcomes go to the queue directly
	cache    CacheReport
	draining bool
	drained  bool
	stopped  string // why no new work is taken; "" when it is
}

// phase of an assignment at its worker.
type workPhase uint8

const (
	staging    workPhase = iota // inputs are being fetched
	staged                      // ready to start, waits for a slot
	running                     // payload started
	publishing                  // payload ended well, outputs go to the cache
)

type work struct {
	attempt task.AttemptID
	Assignment
	phase    workPhase
	order    uint64
	received time.Time
	reads    []task.Read
	stageIn  time.Duration
	delay    time.Duration
	started  time.Time
	killed   string // why it is being killed
	holding  bool   // holds a slot and resources
}

// NewWorker makes a worker for a pilot. local tells which files its cache
// holds, by any of their keys.
func NewWorker(config Config, self matcher.Pilot, peer task.PeerID, evaluator *matcher.Evaluator) *Worker {
	return &Worker{
		config: config.withDefaults(), self: self, peer: peer, prefill: 1, evaluator: evaluator,
		free: self.Resources, slots: self.Slots,
		work:     make(map[task.AttemptID]*work),
		outcomes: make(map[task.AttemptID]*task.Outcome),
		stored:   make(map[task.LFN]task.Stored),
		copies:   make(map[task.LeaseID]task.Lease),
	}
}

// Step takes an event and returns what is to be done, in order.
func (w *Worker) Step(now time.Time, event Event) []Action {
	if now.After(w.now) {
		w.now = now
	}
	w.out = nil
	switch e := event.(type) {
	case MasterInOffice:
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
	case CacheChanged:
		w.cacheChanged(e)
	case DeliveredToQueue:
		w.acknowledge(Acks(e))
	case SERead:
		w.report.SEReads = append(w.report.SEReads, e.Reads...)
		w.soon(w.config.ReportDelay)
	case PilotChanged:
		w.pilotChanged(e)
	case Drain:
		w.drain(e.Reason)
	case Tick:
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
	if !w.deliver.IsZero() && (first.IsZero() || w.deliver.Before(first)) {
		first = w.deliver
	}
	return first
}

// Idle tells whether nothing is in hand and every outcome is accepted.
func (w *Worker) Idle() bool {
	return len(w.work) == 0 && len(w.outcomes) == 0 && len(w.stored) == 0
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

func (w *Worker) act(a Action) { w.out = append(w.out, a) }

// soon has the report sent after a delay at most; 0 is now.
func (w *Worker) soon(delay time.Duration) {
	due := w.now.Add(delay)
	if w.due.IsZero() || due.Before(w.due) {
		w.due = due
	}
}

// pass starts what fits and sends what is due.
func (w *Worker) pass() {
	w.startWhatFits()
	w.passReport()
	if w.draining && !w.drained && w.Idle() {
		w.drained = true
		w.act(Drained{})
	}
}

func (w *Worker) passReport() {
	if w.master == "" {
		if !w.deliver.IsZero() && !w.now.Before(w.deliver) {
			w.deliver = w.now.Add(w.config.ResendAfter)
			w.deliverToQueue()
		}
		return
	}
	if w.due.IsZero() || w.now.Before(w.due) {
		return
	}
	w.due = time.Time{}
	report := w.report
	report.Cache, report.Draining = w.cache, w.draining || w.stopped != ""
	w.report = Report{}
	w.act(Tell{To: w.master, Message: report})
}

// deliverToQueue takes the outcomes to the queue while no master does.
func (w *Worker) deliverToQueue() {
	if len(w.outcomes) == 0 && len(w.stored) == 0 {
		return
	}
	w.act(DeliverToQueue{Outcomes: w.pendingOutcomes(), Stored: w.pendingStored()})
}

func (w *Worker) masterInOffice(e MasterInOffice) {
	same := w.master == e.Peer && w.term == e.Term
	w.master, w.term = e.Peer, e.Term
	if e.Peer == "" {
		if w.orphaned.IsZero() {
			w.orphaned = w.now
		}
		w.deliver = w.now.Add(w.config.ResendAfter)
		return
	}
	w.orphaned, w.deliver = time.Time{}, time.Time{}
	if !same {
		w.report = Report{}
		w.due = time.Time{}
	}
}

// fromMaster handles a message of the master in office; a lower term is
// ignored (DESIGN section 4).
func (w *Worker) fromMaster(e FromMaster) {
	if e.From != w.master {
		return
	}
	switch m := e.Message.(type) {
	case Assign:
		if m.Term != w.term {
			return
		}
		for _, assignment := range m.Tasks {
			w.assigned(assignment)
		}
	case Retract:
		w.retract(m)
	case Kill:
		w.kill(m)
	case Acks:
		w.acknowledge(m)
	case Snapshot:
		if m.List.Version.Term == w.term {
			w.evaluator.Reset(m.List)
			w.tellRow()
		}
	case Want:
		w.wanted(m)
	case KeepCopy:
		w.keepCopy(m)
	case StoreOrder:
		w.act(Store(m))
	case DrainOrder:
		w.drain(m.Reason)
	}
}

func (w *Worker) wanted(m Want) {
	if m.State {
		w.act(Tell{To: w.master, Message: w.state()})
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

func (w *Worker) keepCopy(m KeepCopy) {
	for _, id := range m.Drop {
		delete(w.copies, id)
	}
	for _, lease := range m.Leases {
		w.copies[lease.ID] = lease
	}
}

// listBroadcast applies the list's changes and answers with this pilot's row.
func (w *Worker) listBroadcast(e ListBroadcast) {
	answer := Answer{Pilot: w.self.ID, Peer: w.peer}
	if e.From == w.master && e.List.Delta.Version.Term == w.term {
		update, err := w.evaluator.Apply(e.List.Delta)
		if err != nil {
			w.report.WantList = true
			w.soon(0)
		} else {
			answer.Update = &update
		}
	}
	if e.List.Census {
		state := w.state()
		answer.State = &state
	}
	answer.Have = e.Have
	w.act(AnswerBroadcast{ID: e.ID, Answer: answer})
}

// state is this pilot's whole state, for a census.
func (w *Worker) state() State {
	s := State{
		Pilot: w.self, Peer: w.peer, Draining: w.draining || w.stopped != "",
		Outcomes: w.pendingOutcomes(), Stored: w.pendingStored(), Cache: w.cache,
	}
	for _, job := range w.inOrder() {
		s.InHand = append(s.InHand, InHand{
			Attempt: job.attempt, Number: job.Number, Need: job.Task.Resources,
			Started: job.phase >= running, Prefill: !job.holding && job.phase < running,
		})
	}
	for _, id := range sortedKeys(w.copies) {
		s.Copies = append(s.Copies, w.copies[id])
	}
	w.report.Starts, w.report.Outcomes, w.report.Stored = nil, nil, nil // all of it is in the state
	return s
}

func (w *Worker) pendingOutcomes() []task.Outcome {
	pending := make([]task.Outcome, 0, len(w.outcomes))
	for _, outcome := range w.outcomes {
		pending = append(pending, *outcome)
	}
	slices.SortFunc(pending, func(a, b task.Outcome) int { return cmp.Compare(a.Attempt.Counter, b.Attempt.Counter) })
	return pending
}

func (w *Worker) pendingStored() []task.Stored {
	pending := make([]task.Stored, 0, len(w.stored))
	for _, name := range sortedKeys(w.stored) {
		pending = append(pending, w.stored[name])
	}
	return pending
}

// acknowledge forgets what the queue has accepted, or judged otherwise: every
// verdict is final.
func (w *Worker) acknowledge(m Acks) {
	for _, ack := range m.Acks {
		delete(w.outcomes, ack.Attempt)
	}
	for _, name := range m.Stored {
		delete(w.stored, name)
	}
}

func (w *Worker) inOrder() []*work {
	jobs := make([]*work, 0, len(w.work))
	for _, job := range w.work {
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b *work) int { return cmp.Compare(a.order, b.order) })
	return jobs
}

func (w *Worker) find(id task.ID, lease task.LeaseID) *work {
	for _, job := range w.inOrder() {
		if job.Task.ID == id && (lease == 0 || job.Lease == lease) {
			return job
		}
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
