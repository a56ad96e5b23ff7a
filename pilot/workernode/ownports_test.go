package workernode

import (
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/dht/node"
)

// A pilot closes the ports of its queue, of pilots and its own to payloads, and says of
// which of its own others cannot know.
func TestOwnPorts(t *testing.T) {
	queue, own := []string{"a.example:443", "[2001:db8::1]:7420"}, []string{"40001", "26501"}
	got := ownPorts(queue, own, node.PortRange{Low: 26500, High: 26502}, node.PortRange{})
	slices.Sort(got)
	if want := []int{443, 7420, 7421, 26500, 26501, 26501, 26502, 40001}; !slices.Equal(got, want) {
		t.Errorf("closed are %v, want %v", got, want)
	}
	for asked, want := range map[string][]string{node.DefaultPorts.String(): {"40001"}, "26500-26600": nil, "0": nil, "": nil} {
		if got := outside(own, asked); !slices.Equal(got, want) {
			t.Errorf("asked for %q: %v are outside, want %v", asked, got, want)
		}
	}
}
