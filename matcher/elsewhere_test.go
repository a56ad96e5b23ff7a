package matcher

import "testing"

// Whatever a task requires, its nodes are left out and nothing else changes.
func TestElsewhere(t *testing.T) {
	pilot := samplePilot() // of node7
	for require, fits := range map[string]bool{
		"": true, "pilot.cores >= 4": true, "pilot.cores > 4": false, "pilot.cores > 4 || true": true,
		"pilot.cores >= 4 // enough": true, "false || false": false,
	} {
		for _, c := range []struct {
			nodes []string
			here  bool
		}{
			{nil, true}, {[]string{"node7"}, false}, {[]string{"node8"}, true}, {[]string{"node8", "node7"}, false},
			{[]string{`no"de\7 && \x`, "nöde"}, true},
		} {
			text := Elsewhere(require, c.nodes)
			requirement, err := CompileRequirement(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			verdict := requirement.Check(Facts{Pilot: pilot, Task: sampleFacts().Task})
			if want := fits && c.here; verdict.Feasible != want {
				t.Errorf("%s: feasible %v, want %v", text, verdict.Feasible, want)
			}
		}
	}
}
