package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// ErrUnfit tells that the self-check found the node unfit for work.
var ErrUnfit = errors.New("this node takes no work")

// The times of an end, in order. With the default grace they stay below the
// 30 s that batch systems leave between SIGTERM and SIGKILL.
const (
	killTime   = 3 * time.Second // for killed payloads to be reported
	settleTime = 2 * time.Second // for a master's outbox to reach the queue
	leaveTime  = 3 * time.Second // for each goodbye
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
	a.withoutPeers(ctx, findings)
	failed := a.refusal(findings)
	if ctx.Err() != nil {
		return a.farewell("told to stop")
	}
	if failed != "" {
		if err := a.farewell(failed); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", ErrUnfit, failed)
	}
	a.announceKept()
	a.observe() // from now on it takes work
	if a.config.Ready != nil {
		a.config.Ready(a.self.ID, a.site)
	}
	end := time.NewTimer(time.Until(a.ends.Add(-a.config.Margin)))
	defer end.Stop()
	pause := observeEvery
	if a.config.Accept != "" {
		pause = acceptEvery
	}
	observe := time.NewTicker(pause)
	defer observe.Stop()
	reason, grace := "", a.config.Margin
	for reason == "" {
		select {
		case <-ctx.Done():
			reason, grace = "told to stop", a.config.Grace
		case <-end.C:
			reason = "its lifetime ends"
		case <-a.idled:
			reason = "it had nothing to do for " + a.config.Idle.String()
		case <-a.drained:
			reason = "drained: " + a.ordered
		case <-observe.C:
			a.observe()
		case err := <-a.expelled:
			return a.goAtOnce(err)
		case <-a.context.Done():
			return nil
		}
	}
	a.log.Info("the pilot drains", "reason", reason, "grace", grace)
	a.mailbox.post(func() { a.stepWorker(worker.Drain{Reason: reason, Within: grace}) })
	a.waitDrained(grace)
	return a.farewell(reason)
}

// heed looks at what the queue refuses: a pilot whose membership was revoked
// has to go.
func (a *Agent) heed(err error) {
	if reason, _, _ := taskpb.Refusal(err); reason != taskpb.ReasonRevoked {
		return
	}
	select {
	case a.expelled <- err:
	default:
	}
}

// goAtOnce ends a pilot that nobody at queue or site listens to any more.
func (a *Agent) goAtOnce(why error) error {
	a.log.Error("the pilot has to go", "error", why)
	a.mailbox.post(func() { a.stepWorker(worker.Drain{Reason: "its membership was revoked"}) })
	a.waitDrained(0)
	a.removeState()
	return why
}

// refusal says why a pilot takes no work; empty when all is well.
func (a *Agent) refusal(findings []Finding) string {
	for _, finding := range findings {
		if !finding.OK {
			return finding.What + ": " + finding.Detail
		}
	}
	return ""
}

// announceKept tells the site of files that an earlier pilot has left in this
// folder, and has those uploaded that no storage element has: the queue counts
// them, or deletes what nobody wants.
func (a *Agent) announceKept() {
	var keys, names []task.FileKey
	var recovered worker.Recovered
	for _, entry := range a.cache.Entries() {
		keys = append(append(keys, entry.Key), entry.Names...)
		for _, id := range entry.Outputs {
			a.aliases.learn(id.LFN, entry.Digest)
			names = append(names, task.KeyOf(id.LFN, task.Digest{}))
			made := task.Produced{LFN: id.LFN, Size: entry.Size, Digest: entry.Digest, Exec: entry.Exec}
			recovered.Outputs = append(recovered.Outputs, message.Output{Attempt: id.Attempt, Produced: made})
		}
	}
	if len(keys) > 0 {
		a.announce(keys...)
		a.cacheChanged(append(keys, names...))
		a.mailbox.post(func() { a.stepWorker(recovered) })
	}
}

// observe tells the worker what has changed about the node.
func (a *Agent) observe() {
	now, stop := a.ground.Observe()
	left := time.Until(a.ends)
	reads := a.fetcher.SEReads()
	a.mailbox.post(func() {
		if a.idle.over(time.Now(), len(a.jobs)) {
			select {
			case a.idled <- struct{}{}:
			default:
			}
		}
		a.load = math.Round(10*now.Load) / 10 // finer differences would only have requirements judged again
		a.stepWorker(worker.PilotChanged{Conditions: now, Lifetime: left, Stop: stop})
		if len(reads) > 0 {
			a.stepWorker(worker.SERead{Reads: reads})
		}
	})
}

// waitDrained lets payloads and uploads end; those that do not within the
// grace are killed.
func (a *Agent) waitDrained(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.drained:
		return
	case <-a.context.Done():
		return
	case <-timer.C:
	}
	a.mailbox.post(func() {
		for _, j := range a.jobs {
			j.kill("the pilot ends before its payload")
		}
	})
	timer.Reset(killTime)
	select {
	case <-a.drained:
	case <-a.context.Done():
	case <-timer.C:
		a.log.Warn("the pilot goes with work unfinished: the queue will give it to others")
	}
}

// farewell tells master, contacts and queue, each with a time of its own: who
// does not answer must not cost the others their goodbye.
func (a *Agent) farewell(reason string) error {
	root := context.WithoutCancel(a.context)
	master, term := a.node.Master()
	resigns := master.Peer == a.peer
	if resigns || a.siteSettings().Central() {
		settling, cancel := context.WithTimeout(root, settleTime)
		a.waitSettled(settling)
		cancel()
	}
	leaving, cancel := context.WithTimeout(root, leaveTime)
	defer cancel()
	err := a.queue.Leave(leaving, Leaving{Reason: oneLine(reason), Last: a.node.Size() < 2, Resigns: resigns, Term: term})
	if err != nil {
		a.log.Warn("could not say goodbye to the queue: its master will report the departure", "error", err)
	}
	if !a.inOverlay() {
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
		a.mailbox.post(func() { settled <- a.master.Settled() })
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

// ports are the TCP ports of the overlay and of the data server.
func (a *Agent) ports() []string {
	var ports []string
	for _, address := range a.node.Addresses() {
		if _, port, found := strings.Cut(address, "/tcp/"); found {
			ports = append(ports, port)
		}
	}
	if _, port, err := net.SplitHostPort(strings.TrimPrefix(a.dataURL, "https://")); err == nil {
		ports = append(ports, port)
	}
	return ports
}

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
	}{a.self.ID, os.Getpid(), a.site, a.ports(), a.node.Addresses(), a.dataURL, a.config.Folder, a.ends.UTC()}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.config.Folder, stateFile), append(data, '\n'), 0o600)
}
