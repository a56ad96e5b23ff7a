package office

import (
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
)

const (
	// TrialLead is how long the other pilots may take to hear of a trial and to
	// enter the network.
	TrialLead = 2 * time.Second
	// TrialSpread is over how long they begin after that.
	TrialSpread = 8 * time.Second
	// TrialPeers is how many others a pilot tries: that most of them are reached
	// is to mean that of most of all.
	TrialPeers = 8
)

// SettleTime is how long the outbox of a master that leaves may take to reach the queue.
const SettleTime = 2 * time.Second

// heedTrial answers a trial of a site that has fallen back to isolated, once: this pilot
// and some others connect to each other. It works on meanwhile.
func (o *Office) heedTrial() []message.Action {
	trial := o.settings.Trial
	if trial == 0 || trial == o.tried {
		return nil
	}
	o.tried = trial
	return []message.Action{Try{trial}}
}

// JudgeTrial tells whether most of the pilots that were tried are reached, and whether
// anything is to be told. Who has no time proves nothing, and is in neither number.
func JudgeTrial(good, bad int) (told, reached bool) { return good+bad > 0, good > bad }

const (
	// cutOffAfter is how long a pilot is refused the mastership, since the master
	// that it cannot reach is in office, until it tells the queue so.
	cutOffAfter = 20 * time.Second
	// cutOffAgain is how long it waits until it tells it again.
	cutOffAgain = time.Minute
	// cutOffPause ends a row of refusals: claims are repeated at pauses that grow
	// to dht.Config.ClaimMost, 10 s.
	cutOffPause = 20 * time.Second
)

// refusals notices that a pilot is refused the mastership for long.
type refusals struct {
	since time.Time // of the first refusal of the row
	last  time.Time
	quiet time.Time // nothing is told before
}

// add takes a refusal and tells whether it is time to tell the queue.
func (r *refusals) add(now time.Time) bool {
	if now.Sub(r.last) > cutOffPause {
		r.since = now
	}
	r.last = now
	if now.Sub(r.since) < cutOffAfter || now.Before(r.quiet) {
		return false
	}
	r.quiet = now.Add(cutOffAgain)
	return true
}
