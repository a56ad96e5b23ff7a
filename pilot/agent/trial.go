package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
)

const (
	// trialLead is how long the other pilots may take to hear of a trial and to
	// enter the network; beyond it they begin spread over trialSpread.
	trialLead   = 2 * time.Second
	trialSpread = 8 * time.Second
	// trialPeers is how many others a pilot tries: that most of them are reached
	// is to mean that of most of all.
	trialPeers = 8
	// trialReasons is how many failures are told.
	trialReasons = 2
)

// heedTrial answers a trial of a site that has fallen back to isolated, once:
// this pilot and some others connect to each other. It works on meanwhile.
func (a *Agent) heedTrial(trial uint64) {
	if trial == 0 || trial == a.tried || a.checking {
		return
	}
	a.tried = trial
	a.enterOverlay()
	a.group.Go(func() error {
		select {
		case <-time.After(trialLead + rand.N(trialSpread)):
			a.answerTrial(trial)
		case <-a.context.Done():
		}
		return nil
	})
}

// answerTrial tries some other pilots and tells the queue.
func (a *Agent) answerTrial(trial uint64) {
	ctx, cancel := context.WithTimeout(a.context, checkTime)
	defer cancel()
	peers, err := a.queue.Peers(ctx)
	if err != nil {
		a.log.Warn("the other pilots of the site cannot be tried", "error", err)
		return
	}
	answers := probeAll(peers[:min(len(peers), trialPeers)], func(peer dht.Member) error { return a.node.Probe(ctx, peer, a.dataURL) })
	told, reached, reason := judgeTrial(answers)
	if !told {
		return
	}
	asked := time.Now()
	settings, err := a.queue.Tried(ctx, trial, reached, reason)
	if err != nil {
		a.log.Warn("the queue could not be told whether this pilot reaches the others", "error", err)
		return
	}
	a.log.Info("this pilot has tried the others of its site", "reached", reached, "reason", reason, "mode", settings.Mode)
	a.takeSettings(asked, settings)
}

// probeAll asks several peers at once to connect back.
func probeAll(peers []dht.Member, probe func(dht.Member) error) []probeAnswer {
	answers := make([]probeAnswer, len(peers))
	var group sync.WaitGroup
	for i, peer := range peers {
		group.Go(func() { answers[i] = probeAnswer{peer.Pilot, probe(peer)} })
	}
	group.Wait()
	return answers
}

// judgeTrial tells whether most of the peers that were tried reach this pilot and
// are reached, and how it failed else. Who has no time proves nothing; if nobody
// has, nothing is told.
func judgeTrial(answers []probeAnswer) (told, reached bool, reason string) {
	good, bad := 0, 0
	var failures []string
	for _, answer := range answers {
		switch {
		case answer.err == nil:
			good++
		case !errors.Is(answer.err, node.ErrBusy):
			if bad++; bad <= trialReasons {
				failures = append(failures, answer.err.Error())
			}
		}
	}
	if reached = good > bad; !reached {
		reason = oneLine(strings.Join(failures, "; "))
	}
	return good+bad > 0, reached, reason
}
