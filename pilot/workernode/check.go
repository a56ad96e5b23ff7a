package workernode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	osexec "os/exec"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

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

// check looks at disk, clock, storage element, ports and the
// VO's own command.
func (n *workerNode) check(ctx context.Context) []agent.Finding {
	checks := []struct {
		what string
		run  func(context.Context) (string, error)
	}{
		{"disk", n.checkDisk},
		{"clock", n.checkClock},
		{"storage element", n.checkStorage},
		{agent.PortsCheck, n.pilot.CheckPorts},
		{"walls of payloads", n.checkWalls},
		{"check command", n.checkCommand},
		{"accept policy", n.checkAcceptance},
	}
	findings := make([]agent.Finding, 0, len(checks))
	for _, check := range checks {
		limited, cancel := context.WithTimeout(ctx, checkTime)
		detail, err := check.run(limited)
		cancel()
		if err != nil {
			detail = err.Error()
		}
		findings = append(findings, agent.Finding{What: check.what, OK: err == nil, Detail: detail})
	}
	return findings
}

func (n *workerNode) checkDisk(context.Context) (string, error) {
	free, err := exec.FreeDisk(n.config.Folder)
	if err != nil {
		return "", err
	}
	if free < minimumDisk {
		return "", fmt.Errorf("only %s are free in %s: at least %s are needed; give another folder with --cache", free, n.config.Folder, minimumDisk)
	}
	return fmt.Sprintf("%s free in %s, cache %s", free, n.config.Folder, n.cache.Usage().Capacity), nil
}

func (n *workerNode) checkClock(context.Context) (string, error) {
	if n.pilot.Skew.Abs() > clockSlack {
		return "", fmt.Errorf("this node's clock is %s away from the queue's: run a time service on the node", n.pilot.Skew.Round(time.Second))
	}
	return fmt.Sprintf("%s from the queue's", n.pilot.Skew.Round(time.Millisecond)), nil
}

// checkStorage asks for a name that is not there: "not found" is what a
// working storage element says.
func (n *workerNode) checkStorage(ctx context.Context) (string, error) {
	se := n.pilot.Settings().SE
	if se == "" {
		return "the site has none", nil
	}
	element, err := n.storage.Element(se)
	if err != nil {
		return "", err
	}
	_, err = element.Head(ctx, "pilotage-check/"+string(n.pilot.Pilot))
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	return se, nil
}

func (n *workerNode) checkWalls(context.Context) (string, error) { return n.walls.String(), nil }

// checkAcceptance says what the pilot's own policy thinks of the moment. One
// that declines now is no fault.
func (n *workerNode) checkAcceptance(context.Context) (string, error) {
	policy := cmp.Or(n.config.Acceptance, &matcher.Acceptance{})
	now, _ := n.observe()
	if accepts, _ := policy.Accepts(now); !accepts {
		return fmt.Sprintf("%s: declines work now (load %.2f, %s of memory and %s of disk free)", policy, now.Load, now.FreeMemory, now.FreeDisk), nil
	}
	return fmt.Sprintf("%s: accepts work now", policy), nil
}

func (n *workerNode) checkCommand(ctx context.Context) (string, error) {
	if strings.TrimSpace(n.config.CheckCommand) == "" {
		return "none given", nil
	}
	command := osexec.CommandContext(ctx, "/bin/sh", "-c", n.config.CheckCommand)
	command.Dir = n.config.Folder
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	said := strings.TrimSpace(string(bytes.ToValidUTF8(output[max(0, len(output)-checkOutput):], []byte("?"))))
	said = cmp.Or(said, "it printed nothing")
	if err != nil {
		return "", fmt.Errorf("%q failed: %w: %s", n.config.CheckCommand, err, said)
	}
	return fmt.Sprintf("%q: %s", n.config.CheckCommand, said), nil
}
