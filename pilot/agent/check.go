package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/task"
)

// Finding is one result of a pilot's self-check.
type Finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

const (
	// minimumDisk must be free for a pilot to take work.
	minimumDisk = 64 * task.MiB
	// clockSlack is how far a node's clock may be from the queue's: beyond it
	// certificates and log times mislead.
	clockSlack = 5 * time.Minute
	// checkTime bounds each check.
	checkTime = 20 * time.Second
	// checkOutput is how much a check command's output is quoted.
	checkOutput = 500
)

// Check registers as a visitor, which counts nowhere and cannot be master,
// looks at everything that work needs, and leaves again.
func Check(ctx context.Context, config Config) ([]Finding, error) {
	if err := config.Complete(os.Getenv, time.Now()); err != nil {
		return nil, err
	}
	a := newAgent(config)
	a.checking = true
	defer a.close()
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	var findings []Finding
	err := a.serveWhile(ctx, func(ctx context.Context) error {
		findings = a.ground.Fit(ctx)
		return a.farewell("self-check only")
	})
	return findings, err
}

// Fit satisfies Ground: it looks at disk, clock, storage element, ports and the
// VO's own command.
func (n *workerNode) Fit(ctx context.Context) []Finding {
	a := n.agent
	checks := []struct {
		what string
		run  func(context.Context) (string, error)
	}{
		{"disk", n.checkDisk},
		{"clock", a.checkClock},
		{"storage element", n.checkStorage},
		{portsCheck, a.checkPorts},
		{"sandbox", a.checkSandbox},
		{"check command", a.checkCommand},
		{"accept policy", n.checkAcceptance},
	}
	findings := make([]Finding, 0, len(checks))
	for _, check := range checks {
		limited, cancel := context.WithTimeout(ctx, checkTime)
		detail, err := check.run(limited)
		cancel()
		if err != nil {
			detail = err.Error()
		}
		findings = append(findings, Finding{What: check.what, OK: err == nil, Detail: detail})
	}
	return findings
}

func (n *workerNode) checkDisk(context.Context) (string, error) {
	free, err := freeDisk(n.config.Folder)
	if err != nil {
		return "", err
	}
	if free < minimumDisk {
		return "", fmt.Errorf("only %s are free in %s: at least %s are needed; give another folder with --cache", free, n.config.Folder, minimumDisk)
	}
	return fmt.Sprintf("%s free in %s, cache %s", free, n.config.Folder, n.cache.Usage().Capacity), nil
}

func (a *Agent) checkClock(context.Context) (string, error) {
	if a.skew.Abs() > clockSlack {
		return "", fmt.Errorf("this node's clock is %s away from the queue's: run a time service on the node", a.skew.Round(time.Second))
	}
	return fmt.Sprintf("%s from the queue's", a.skew.Round(time.Millisecond)), nil
}

// checkStorage asks for a name that is not there: "not found" is what a
// working storage element says.
func (n *workerNode) checkStorage(ctx context.Context) (string, error) {
	se := n.agent.siteSettings().SE
	if se == "" {
		return "the site has none", nil
	}
	element, err := n.storage.Element(se)
	if err != nil {
		return "", err
	}
	_, err = element.Head(ctx, "pilotage-check/"+string(n.agent.self.ID))
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	return se, nil
}

// checkPorts has a peer connect to both ports of this pilot.
func (a *Agent) checkPorts(ctx context.Context) (string, error) {
	if a.isolated() {
		return "not tried: the site is isolated", nil
	}
	return askForProbes(ctx, a.peersToAsk(), func(contact dht.Member) error {
		return a.node.Probe(ctx, contact, a.dataURL)
	})
}

// mostProbes bounds how many peers are asked in vain, probePasses how often.
const (
	mostProbes  = 3
	probePasses = 3
)

// peersToAsk are the first contacts that a probe can be asked of.
func (a *Agent) peersToAsk() []dht.Member {
	asked := map[task.PeerID]bool{a.peer: true}
	var peers []dht.Member
	for _, contact := range a.contacts {
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

func (a *Agent) checkSandbox(context.Context) (string, error) { return a.sandbox, nil }

// checkAcceptance says what the pilot's own policy thinks of the moment. One
// that declines now is no fault.
func (n *workerNode) checkAcceptance(context.Context) (string, error) {
	policy := n.agent.config.acceptance
	now, _ := n.Observe()
	if accepts, _ := policy.Accepts(now); !accepts {
		return fmt.Sprintf("%s: declines work now (load %.2f, %s of memory and %s of disk free)", policy, now.Load, now.FreeMemory, now.FreeDisk), nil
	}
	return fmt.Sprintf("%s: accepts work now", policy), nil
}

func (a *Agent) checkCommand(ctx context.Context) (string, error) {
	if strings.TrimSpace(a.config.CheckCommand) == "" {
		return "none given", nil
	}
	command := osexec.CommandContext(ctx, "/bin/sh", "-c", a.config.CheckCommand)
	command.Dir = a.config.Folder
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	said := strings.TrimSpace(string(bytes.ToValidUTF8(output[max(0, len(output)-checkOutput):], []byte("?"))))
	said = cmp.Or(said, "it printed nothing")
	if err != nil {
		return "", fmt.Errorf("%q failed: %w: %s", a.config.CheckCommand, err, said)
	}
	return fmt.Sprintf("%q: %s", a.config.CheckCommand, said), nil
}

// reachableContacts are the members that a newcomer may ask for a probe.
func reachableContacts(joined dht.Joined) []dht.Member {
	return append([]dht.Member{joined.Master}, joined.Contacts...)
}
