package world

import (
	"bytes"
	"testing"

	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
)

// The journals of all masters of a storm, replayed, give every task to the same pilot in
// the same step.
func TestMastersOfAStormReplayTheSame(t *testing.T) {
	type recorded struct {
		*journal.Writer
		bytes bytes.Buffer
	}
	assigned := 0
	for seed := range uint64(3) {
		journals := make(map[*node]*recorded)
		plan := DrawPlan(100+seed, false)
		s := newStorm(t, &plan, func(w *world) {
			w.step = func(n *node, event message.Event) []message.Action {
				j := journals[n]
				if j == nil {
					j = &recorded{}
					journals[n] = j
					var err error
					j.Writer, err = journal.NewWriter(&j.bytes, journal.Header{Version: "test", Site: n.site.name, Pilot: n.id, Config: master.DefaultConfig()})
					if err != nil {
						t.Fatal(err)
					}
				}
				actions, err := j.Step(n.master, n.clock(), event)
				if err != nil {
					t.Fatal(err)
				}
				return actions
			}
		})
		s.blow()
		for n, j := range journals {
			result, err := journal.Replay{}.Run(&j.bytes)
			if err != nil || result.First != nil || result.Cut || result.Same != result.Recorded || result.Changed != 0 {
				t.Errorf("seed %d: replay of %s: %+v, %v", plan.Seed, n.id, result, err)
			}
			assigned += result.Recorded
		}
	}
	if assigned < 100 {
		t.Errorf("%d assignments in all", assigned)
	}
}
