package cache

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Several pilots that cannot read a file spare the others the try; one that fails again
// and again does not, as its node may be at fault.
func TestOnePilotThatFailsSpeaksForNobodyElse(t *testing.T) {
	g := NewGrants(GrantsConfig{})
	now := time.Unix(1e9, 0)
	verdict := func(peer task.PeerID) Verdict {
		now = now.Add(100 * time.Millisecond)
		answers := g.Step(now, Ask{Key: "b3:f", From: peer, Number: 1})
		return answers[0].(Answer).Verdict
	}
	fails := func(peer task.PeerID) {
		g.Step(now, Finish{Key: "b3:f", From: Holder{Peer: peer}, End: ReadFailed})
	}
	for range 2 * g.config.GiveUpAfter {
		if got := verdict("bad"); got != Granted {
			t.Fatalf("a pilot that has failed is told %s", got)
		}
		fails("bad")
	}
	for _, peer := range []task.PeerID{"good", "other"} {
		if got := verdict(peer); got != Granted {
			t.Errorf("a pilot is told %s after another one has failed", got)
		}
		fails(peer)
	}
	if got := verdict("last"); got != GivenUp {
		t.Errorf("a pilot is told %s after three have failed", got)
	}
}
