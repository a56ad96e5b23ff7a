package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
)

// ErrUnfit tells that the self-check found the node unfit for work.
var ErrUnfit = errors.New("this node takes no work")

// The times of an end, in order. With the default grace they stay below the
// 30 s that batch systems leave between SIGTERM and SIGKILL.
const (
	killTime  = 3 * time.Second // for killed payloads to be reported
	leaveTime = 3 * time.Second // for each goodbye
)

// The node is looked at so often, and more often for a policy of the pilot's
// own.
const (
	observeEvery = 10 * time.Second
	acceptEvery  = 2 * time.Second
)

// live waits for the end of the pilot's life, drains, and says farewell.
func (a *Agent) live(ctx context.Context) error {
	findings := a.check(ctx)
	a.reach.withoutPeers(ctx, findings)
	failed := refusal(findings)
	if ctx.Err() != nil {
		return a.farewell("told to stop", true)
	}
	if failed != "" {
		if err := a.farewell(failed, true); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", ErrUnfit, failed)
	}
	if brief := a.config.brief(); brief != "" {
		a.log.Warn("this pilot lives very short", "lifetime", a.config.Lifetime, "why", brief)
	}
	a.roles.files.announce(a.roles.files.cache.Entries())
	idle := worker.Idleness{Most: a.config.Idle}
	observe := func() { a.observe(&idle) }
	observe() // from now on it takes work
	a.config.Events(Joined{Pilot: a.self.ID, Site: a.self.Site})
	end := time.NewTimer(time.Until(a.config.Ends().Add(-a.config.Margin)))
	defer end.Stop()
	pause := observeEvery
	if a.config.Acceptance != nil {
		pause = acceptEvery
	}
	again := time.NewTicker(pause)
	defer again.Stop()
	reason, grace := "", a.config.Margin
	for reason == "" {
		select {
		case <-ctx.Done():
			reason, grace = "told to stop", a.config.Grace
		case <-end.C:
			reason = "its lifetime ends"
		case <-a.idled:
			reason = "it had nothing to do for " + a.config.Idle.String()
		case <-a.roles.draining.over:
			reason = "drained: " + a.roles.draining.ordered
		case <-again.C:
			observe()
		case err := <-a.expelled:
			return a.goAtOnce(err)
		case <-a.context.Done():
			return nil
		}
	}
	a.roles.workerEvents(func() []message.Event {
		a.log.Info("the pilot drains", "reason", reason, "grace", grace, "running", a.roles.worker.Running())
		return []message.Event{worker.Drain{Reason: reason, Within: grace}}
	})
	return a.farewell(reason, a.waitDrained(grace))
}

// visit looks whether the pilot could work, and leaves.
func (a *Agent) visit(ctx context.Context) error {
	a.check(ctx)
	return a.farewell("self-check only", true)
}

// check looks whether the pilot can work here.
func (a *Agent) check(ctx context.Context) []Finding {
	if a.parts.Check == nil {
		return nil
	}
	return a.parts.Check(ctx)
}

// goAtOnce ends a pilot that nobody at queue or site listens to any more.
func (a *Agent) goAtOnce(why error) error {
	a.log.Error("the pilot has to go", "error", why)
	workerEvents(a.roles.workerEvents).tell(worker.Drain{Reason: "its membership was revoked"})
	a.waitDrained(0)
	return why
}

// refusal says why a pilot takes no work; empty when all is well.
func refusal(findings []Finding) string {
	for _, finding := range findings {
		if !finding.OK {
			return finding.What + ": " + finding.Detail
		}
	}
	return ""
}

// observe tells the worker what has changed about the node.
func (a *Agent) observe(idle *worker.Idleness) {
	changed := worker.PilotChanged{Lifetime: time.Until(a.config.Ends())}
	if a.parts.Observe != nil {
		changed.Conditions, changed.Stop = a.parts.Observe()
	}
	reads := a.roles.files.fetcher.SEReads()
	a.loop.Post(func() {
		if idle.Over(time.Now(), len(a.roles.payloads.inHand)) {
			select {
			case a.idled <- struct{}{}:
			default:
			}
		}
		a.roles.observed(changed)
		if len(reads) > 0 {
			a.roles.stepWorker(worker.SERead{Reads: reads})
		}
	})
}

// waitDrained lets payloads and uploads end; those that do not within the
// grace are killed. It tells whether all have ended, and their outcomes are heard.
func (a *Agent) waitDrained(grace time.Duration) bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.roles.draining.over:
		return true
	case <-a.context.Done():
		return false
	case <-timer.C:
	}
	a.loop.Post(func() { a.roles.payloads.killAll("the pilot ends before its payload") })
	timer.Reset(killTime)
	select {
	case <-a.roles.draining.over:
		return true
	case <-a.context.Done():
	case <-timer.C:
		a.log.Warn("the pilot goes with work unfinished: the queue will give it to others")
	}
	return false
}

// farewell tells master, contacts and queue, each with a time of its own: who
// does not answer must not cost the others their goodbye.
func (a *Agent) farewell(reason string, finished bool) error {
	unfinished := !finished || a.roles.uploads.pending() // what ends from now on nobody may have heard of
	root := context.WithoutCancel(a.context)
	resigns, term := a.network.leads()
	if resigns || a.settings.get().Central() {
		settling, cancel := context.WithTimeout(root, office.SettleTime)
		a.waitSettled(settling)
		cancel()
	}
	leaving, cancel := context.WithTimeout(root, leaveTime)
	defer cancel()
	unfinished = unfinished || a.roles.uploads.pending()
	err := a.queue.Leave(leaving, Leaving{Reason: oneLine(reason), Last: a.node.Size() < 2, Resigns: resigns, Term: term, Unfinished: unfinished})
	if err != nil {
		a.log.Warn("could not say goodbye to the queue: its master will report the departure", "error", err)
	}
	if !a.network.inside() {
		return nil
	}
	goodbye, done := context.WithTimeout(root, leaveTime)
	defer done()
	if err := a.node.Leave(goodbye); err != nil {
		a.log.Warn("could not say goodbye to the site", "error", err)
	}
	return nil
}

// mostReason bounds a reason in bytes: the queue refuses longer ones, and ones
// of several lines.
const mostReason = 1000

// oneLine makes a reason fit for a table.
func oneLine(reason string) string {
	reason = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(reason, "?"), func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason-3], "") + "..."
	}
	return reason
}

// waitSettled lets a leaving master hand everything to the queue first.
func (a *Agent) waitSettled(ctx context.Context) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		settled := make(chan bool, 1)
		a.loop.Post(func() { settled <- a.roles.master.Settled() })
		select {
		case done := <-settled:
			if done {
				return
			}
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
