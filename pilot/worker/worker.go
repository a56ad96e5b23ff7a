package worker

import (
	"cmp"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Worker is the core of a pilot that runs tasks: it stages inputs in, starts
// payloads when a slot is free, publishes outputs, and keeps every outcome
// until the queue's acceptance is echoed.
type Worker struct {
	step
	self       matcher.Pilot
	peer       task.PeerID
	cache      message.CacheReport
	reports    uint64 // number of the last state or report
	row        row
	mastership mastership
	attempts   attempts
	unjudged   unjudged
	soles      soleCopies
	handOuts   handOutCopies
	replicas   replicas
	readiness  readiness
	drained    bool
}

// step is what every part may be given while an event is handled: the time and
// the timings, what is to be done, and what the master is to be told.
type step struct {
	config Config
	now    time.Time
	out    []message.Action
	news   message.Report
	due    time.Time // when the news are to be sent; zero: there are none
}

func (at *step) act(a message.Action) { at.out = append(at.out, a) }

// soon has the news sent after a delay at most; 0 is now.
func (at *step) soon(delay time.Duration) { at.due = earliest(at.due, at.now.Add(delay)) }

// later has them sent with others.
func (at *step) later() { at.soon(at.config.ReportDelay) }

// passed tells whether a time has come; zero never comes.
func (at *step) passed(due time.Time) bool { return !due.IsZero() && !at.now.Before(due) }

// earliest is the first of some times; zero is none.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// New makes a worker for a pilot; the evaluator knows its cache.
func New(config Config, self matcher.Pilot, peer task.PeerID, evaluator *matcher.Evaluator) *Worker {
	w := &Worker{
		step: step{config: cmp.Or(config, DefaultConfig())}, self: self, peer: peer, row: row{evaluator: evaluator},
		attempts:  attempts{inHand: make(map[task.AttemptID]*attempt), slots: newSlots(self)},
		unjudged:  unjudged{outcomes: make(map[task.AttemptID]task.Outcome), stored: make(map[task.OutputID]task.Stored)},
		soles:     soleCopies{kept: make(map[task.OutputID]*soleCopy), gone: make(map[task.OutputID]task.File)},
		readiness: readiness{policy: &matcher.Acceptance{}},
	}
	w.handOuts.reset()
	w.passLive()
	return w
}

// AcceptBy has a policy of the pilot's own decide when it takes new work (001,
// section 2.3). It is asked with every PilotChanged.
func (w *Worker) AcceptBy(policy *matcher.Acceptance) { w.readiness.policy = policy }

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
		w.attempts.started(&w.step, e)
	case PayloadEnded:
		w.payloadEnded(e)
	case Published:
		w.published(e)
	case Uploaded:
		w.uploaded(e.Stored...)
	case UploadFailed:
		w.soles.troubled(&w.step, e.Output)
	case NotUploaded:
		w.soles.lost(&w.step, w.self.Site, e.Output)
	case Kept:
		w.tookOver(e)
	case Recovered:
		w.soles.keep(&w.step, e.Outputs...)
	case CacheChanged:
		w.cache = e.Cache
		if len(e.Keys) > 0 {
			w.row.changed(&w.step, w.row.evaluator.FilesChanged(e.Keys...), w.config.ReportDelay)
		}
	case DeliveredToQueue:
		if len(e.Acks) > 0 {
			w.unjudged.delivery.pause = w.config.ResendAfter
		}
		w.acknowledge(message.Acks{Acks: e.Acks, Stored: e.Stored})
	case BadCopy:
		w.news.BadCopies = append(w.news.BadCopies, e.Copy)
		w.later()
	case SERead:
		w.news.SEReads = append(w.news.SEReads, e.Reads...)
		w.later()
	case CopiedIn:
		w.replicas.copiedIn(&w.step, e)
	case SiteChanged:
		w.soles.storageIs(&w.step, e.Settings.SE != "")
		w.tellFiles(e.Settings.Replicate != "" && !e.Settings.Central())
	case PilotChanged:
		w.pilotChanged(e)
	case Drain:
		if e.Within > 0 {
			w.soles.handOver = w.now.Add(e.Within / 2)
		}
		w.drain(e.Reason)
	case message.Tick:
	}
	w.pass()
	return w.out
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (w *Worker) Deadline() time.Time {
	first := earliest(w.unjudged.delivery.due, w.readiness.failures.until)
	if w.mastership.inOffice {
		first = earliest(first, w.due, w.unjudged.repeatDue(), w.soles.deadline(&w.step, w.readiness.draining, &w.unjudged))
	}
	return first
}

// Idle tells whether nothing is in hand, every outcome is accepted, and no
// output waits for a storage element, or for another keeper when this pilot
// leaves.
func (w *Worker) Idle() bool {
	return len(w.attempts.inHand) == 0 && w.unjudged.none() && (len(w.soles.kept) == 0 || !w.soles.storage && !w.readiness.draining)
}

// Running is the number of payloads that run.
func (w *Worker) Running() int {
	return w.attempts.count(func(a *attempt) bool { return a.phase == running })
}

// pass starts what fits and sends what is due.
func (w *Worker) pass() {
	w.readiness.passFailures(&w.step)
	w.attempts.passAwaiting(&w.step)
	w.attempts.startWhatFits(&w.step)
	w.passLive()
	w.attempts.passCrowded(&w.step)
	if w.mastership.inOffice {
		w.soles.passHandOver(&w.step, w.self.Site, w.readiness.draining, &w.unjudged)
	}
	w.replicas.pass(&w.step)
	if w.mastership.inOffice {
		w.unjudged.passRepeat(&w.step)
		w.passReport()
	} else {
		w.unjudged.passDelivery(&w.step, w.self.ID)
	}
	if w.readiness.draining && !w.drained && w.Idle() {
		w.drained = true
		w.act(Drained{})
	}
}

// passLive has ranks see what runs here by now (004, section II,
// micro-scheduling). A master that goes by them waits for the answer.
func (w *Worker) passLive() {
	if now := w.attempts.slots.live(); now != w.self.Live {
		w.self.Live = now
		w.row.changed(&w.step, w.row.evaluator.SetLive(now), 0)
	}
}

// pilotChanged asks the pilot's own policy, and judges the task list again:
// load and lifetime count for requirements and ranks.
func (w *Worker) pilotChanged(e PilotChanged) {
	if declines := w.readiness.observed(e); declines != "" {
		w.attempts.handBack(&w.step, declines, all)
	}
	w.readiness.restate(&w.step)
	w.self.Load, w.self.Lifetime = e.Load, e.Lifetime
	w.row.judgeAgain(&w.step, w.self)
}

// drain finishes what runs, gives back what waits, and takes nothing more.
func (w *Worker) drain(reason string) {
	if w.readiness.draining {
		return
	}
	w.readiness.draining, w.readiness.stopped = true, cmp.Or(reason, "it drains")
	w.attempts.handBack(&w.step, "the pilot drains: "+reason, all)
	w.soon(0)
}

// tellFiles has answers to the task list tell what this pilot has, where the
// site's master goes by that.
func (w *Worker) tellFiles(wanted bool) {
	if wanted == w.row.evaluator.TellsFiles() {
		return
	}
	if w.row.evaluator.TellFiles(wanted); wanted {
		w.row.tell(&w.step, 0)
	} else {
		w.replicas.forget(func(r replica) bool { return !r.begun })
	}
}
