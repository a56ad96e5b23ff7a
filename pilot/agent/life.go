package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
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
	if err := a.writeState(); err != nil {
		a.log.Warn("cannot write the pilot's state file", "error", err)
	}
	findings := a.ground.Fit(ctx)
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
	if a.config.Ready != nil {
		a.config.Ready(a.self.ID, a.self.Site)
	}
	end := time.NewTimer(time.Until(a.ends.Add(-a.config.Margin)))
	defer end.Stop()
	pause := observeEvery
	if a.config.Accept != "" {
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

// goAtOnce ends a pilot that nobody at queue or site listens to any more.
func (a *Agent) goAtOnce(why error) error {
	a.log.Error("the pilot has to go", "error", why)
	workerEvents(a.roles.workerEvents).tell(worker.Drain{Reason: "its membership was revoked"})
	a.waitDrained(0)
	a.removeState()
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
	now, stop := a.ground.Observe()
	changed := worker.PilotChanged{Conditions: now, Lifetime: time.Until(a.ends), Stop: stop}
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
		a.removeState()
		return nil
	}
	goodbye, done := context.WithTimeout(root, leaveTime)
	defer done()
	if err := a.node.Leave(goodbye); err != nil {
		a.log.Warn("could not say goodbye to the site", "error", err)
	}
	a.removeState()
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

// stateFile tells people and scripts about a pilot.
const stateFile = "pilot.json"

// removeState tells that the pilot is gone.
func (a *Agent) removeState() {
	if a.config.Folder != "" {
		_ = os.Remove(filepath.Join(a.config.Folder, stateFile))
	}
}

// writeState writes the state file, for a pilot that has a folder.
func (a *Agent) writeState() error {
	if a.config.Folder == "" {
		return nil
	}
	state := struct {
		ID        task.PilotID `json:"id"`
		PID       int          `json:"pid"`
		Site      task.Site    `json:"site"`
		Ports     []string     `json:"ports"` // of the overlay and of the data server
		Addresses []string     `json:"addresses"`
		DataURL   string       `json:"data_url"`
		Folder    string       `json:"folder"`
		Ends      time.Time    `json:"ends"`
	}{a.self.ID, os.Getpid(), a.self.Site, a.network.ports(a.footing.DataURL), a.node.Addresses(), a.footing.DataURL, a.config.Folder, a.ends.UTC()}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.config.Folder, stateFile), append(data, '\n'), 0o600)
}
