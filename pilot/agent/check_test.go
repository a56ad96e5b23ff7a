package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/task"
)

// TestJudgeProbes: only what speaks against this pilot's own ports keeps it
// from work.
func TestJudgeProbes(t *testing.T) {
	refused := fmt.Errorf("ask pilot: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	unreachable := fmt.Errorf("pilot p-1 cannot connect to port 20000: %w", node.ErrUnreachable)
	late := fmt.Errorf("ask pilot: %w", context.DeadlineExceeded)
	dropped := fmt.Errorf("ask pilot: %w", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})
	busy := errors.New("pilot p-1 does not probe: too many probes")
	for _, c := range []struct {
		name    string
		errs    []error
		against bool
		want    string
	}{
		{"nobody there", nil, false, "no other pilot"},
		{"one has left", []error{refused}, false, "p-0 did not answer"},
		{"all have left or are busy", []error{refused, busy, refused}, false, "p-0, p-1, p-2"},
		{"a peer could not connect back", []error{refused, unreachable}, true, "port 20000"},
		{"nothing comes back", []error{late}, true, "--port-range"},
		{"packets are dropped", []error{dropped}, true, "--advertise"},
	} {
		var answers []probeAnswer
		for i, err := range c.errs {
			answers = append(answers, probeAnswer{pilot: task.PilotID(fmt.Sprintf("p-%d", i)), err: err})
		}
		detail, err := judgeProbes(answers)
		if err != nil {
			detail = err.Error()
		}
		if (err != nil) != c.against || !strings.Contains(detail, c.want) {
			t.Errorf("%s: %q (against the pilot: %v), want %q (%v)", c.name, detail, err != nil, c.want, c.against)
		}
	}
}

// TestPortsAreTriedAgain: a pilot that no peer reaches at first, because all
// are busy starting, takes work when one does; one that nobody ever reaches
// does not, and asks no more often than it may.
func TestPortsAreTriedAgain(t *testing.T) {
	peers := []dht.Member{{Pilot: "p-0"}, {Pilot: "p-1"}}
	for _, c := range []struct {
		needed, asked int
		against       bool
	}{{1, 1, false}, {2, 2, false}, {3, 3, false}, {6, 6, false}, {7, 6, true}} {
		asked := 0
		detail, err := askForProbes(t.Context(), peers, func(dht.Member) error {
			if asked++; asked >= c.needed {
				return nil
			}
			return context.DeadlineExceeded
		})
		if (err != nil) != c.against || asked != c.asked {
			t.Errorf("reached by probe %d: %q, %v after %d probes", c.needed, detail, err, asked)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	asked := 0
	if _, err := askForProbes(over, peers, func(dht.Member) error { asked++; cancel(); return over.Err() }); asked != 1 {
		t.Errorf("out of time: %v after %d probes, want 1", err, asked)
	}
}

// TestOneLine: whatever a pilot goes for, the queue takes it as a reason.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"told to stop":             "told to stop",
		"no way\n  * first\n\t* b": "no way * first * b",
		"bad \xff byte":            "bad ? byte",
		strings.Repeat("ö ", 5000): strings.Repeat("ö ", 332) + "...",
	} {
		got := oneLine(text)
		if len(text) < 100 && got != want || len(got) > mostReason || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("oneLine(%.40q) is %.80q with %d bytes, want %.40q", text, got, len(got), want)
		}
	}
}
