package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	trialTime    = 20 * time.Second // for a trial
	trialReasons = 2                // failures of a trial that are told
)

// reach finds out whether this pilot and the others of its site reach one another,
// and tells the queue.
type reach struct {
	*shell

	queue    Queue
	network  *network
	settings *siteSettings
	settle   settingsHeard
	dataURL  string
	contacts []dht.Member // known from the registration
	checking bool         // this pilot only looks whether the node is fit
}

// withoutPeers asks whether the site does without its network, if the
// self-check says that no peer reaches this pilot: then that is no reason to
// take no work.
func (r *reach) withoutPeers(ctx context.Context, findings []Finding) {
	for i := range findings {
		if f := &findings[i]; f.What == PortsCheck && !f.OK && r.tellUnreachable(ctx, f.Detail) {
			f.OK, f.Detail = true, "the site does without its network: "+f.Detail
		}
	}
}

// tellUnreachable tells the queue that this pilot cannot talk with the others
// of its site, and whether the site does without that from now on.
func (r *reach) tellUnreachable(ctx context.Context, reason string) bool {
	asked := time.Now()
	settings, err := r.queue.Unreachable(ctx, oneLine(reason))
	if err != nil {
		r.log.Warn("the queue could not be told that this pilot is cut off from the others", "error", err)
		return false
	}
	r.settle(asked, settings)
	isolated := settings.Mode == task.ModeIsolated
	r.log.Warn("this pilot is cut off from the others of its site", "reason", reason, "isolated", isolated)
	return isolated
}

// try answers a trial of a site that has fallen back to isolated.
func (r *reach) try(trial uint64) {
	if r.checking {
		return
	}
	_ = r.network.enter() // it has logged why not
	r.beside(func(ctx context.Context) {
		select {
		case <-time.After(office.TrialLead + rand.N(office.TrialSpread)):
			r.answerTrial(ctx, trial)
		case <-ctx.Done():
		}
	})
}

// answerTrial tries some other pilots and tells the queue.
func (r *reach) answerTrial(ctx context.Context, trial uint64) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	peers, err := r.queue.Peers(ctx)
	if err != nil {
		r.log.Warn("the other pilots of the site cannot be tried", "error", err)
		return
	}
	answers := probeAll(peers[:min(len(peers), office.TrialPeers)], func(peer dht.Member) error { return r.network.node.Probe(ctx, peer, r.dataURL) })
	told, reached, reason := judgeTrial(answers)
	if !told {
		return
	}
	asked := time.Now()
	settings, err := r.queue.Tried(ctx, trial, reached, reason)
	if err != nil {
		r.log.Warn("the queue could not be told whether this pilot reaches the others", "error", err)
		return
	}
	r.log.Info("this pilot has tried the others of its site", "reached", reached, "reason", reason, "mode", settings.Mode)
	r.settle(asked, settings)
}

// checkPorts has a peer connect to both ports of this pilot.
func (r *reach) checkPorts(ctx context.Context) (string, error) {
	if r.settings.isolated() {
		return "not tried: the site is isolated", nil
	}
	return askForProbes(ctx, r.peersToAsk(), func(contact dht.Member) error {
		return r.network.node.Probe(ctx, contact, r.dataURL)
	})
}

// mostProbes bounds how many peers are asked in vain, probePasses how often.
const (
	mostProbes  = 3
	probePasses = 3
)

// peersToAsk are the first contacts that a probe can be asked of.
func (r *reach) peersToAsk() []dht.Member {
	asked := map[task.PeerID]bool{r.network.peer: true}
	var peers []dht.Member
	for _, contact := range r.contacts {
		if asked[contact.Peer] || len(contact.Addresses) == 0 || len(peers) == mostProbes {
			continue
		}
		asked[contact.Peer] = true
		peers = append(peers, contact)
	}
	return peers
}

// askForProbes has one peer after the other connect to this pilot until one
// can. Peers whose answers speak against the pilot are asked again: while many
// pilots start on a loaded node, connecting takes longer than anybody waits.
func askForProbes(ctx context.Context, peers []dht.Member, probe func(dht.Member) error) (string, error) {
	for pass := 1; ; pass++ {
		var answers []probeAnswer
		for _, peer := range peers {
			err := probe(peer)
			if err == nil {
				return fmt.Sprintf("reached by %s", peer.Pilot), nil
			}
			answers = append(answers, probeAnswer{peer.Pilot, err})
			if ctx.Err() != nil {
				break
			}
		}
		detail, err := judgeProbes(answers)
		if err == nil || pass == probePasses || ctx.Err() != nil {
			return detail, err
		}
	}
}

// probeAnswer is how a peer failed to confirm this pilot's ports.
type probeAnswer struct {
	pilot task.PilotID
	err   error
}

// judgeProbes tells whether what peers answered speaks against this pilot. It
// does if they could not connect back, and if they do not answer at all, as
// behind a firewall. A peer that has just left, or is busy, proves nothing.
func judgeProbes(answers []probeAnswer) (string, error) {
	var against, gone []string
	for _, answer := range answers {
		var timeout net.Error
		text := fmt.Sprintf("%s: %v", answer.pilot, answer.err)
		switch {
		case errors.Is(answer.err, syscall.ECONNREFUSED):
			gone = append(gone, string(answer.pilot))
		case errors.Is(answer.err, node.ErrUnreachable), errors.Is(answer.err, context.DeadlineExceeded),
			errors.As(answer.err, &timeout) && timeout.Timeout():
			against = append(against, text)
		default:
			gone = append(gone, string(answer.pilot))
		}
	}
	switch {
	case len(against) > 0:
		return "", fmt.Errorf("no peer reaches this pilot's ports (%s): open them between the nodes, or set --port-range and --advertise", strings.Join(against, "; "))
	case len(gone) > 0:
		return fmt.Sprintf("not tried: %s did not answer", strings.Join(gone, ", ")), nil
	}
	return "no other pilot at the site to try", nil
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
	if told, reached = office.JudgeTrial(good, bad); !reached {
		reason = oneLine(strings.Join(failures, "; "))
	}
	return told, reached, reason
}
