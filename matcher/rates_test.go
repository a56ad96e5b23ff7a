package matcher

import (
	"math"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// What was read counts for as long as the default rates say, and less as more is known.
func TestPace(t *testing.T) {
	var p Pace
	read := func(source task.Source, took time.Duration, times int) float64 {
		for range times {
			p.Learn([]task.Read{{Size: 100e6, Source: source}}, took)
		}
		return p.Times()
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%s: %.3f times as long, want %.3f", what, got, want)
		}
	}
	near("nothing read", p.Times(), 1)
	near("from the own cache", read(task.SourceLocal, time.Minute, 10), 1)
	near("ten seconds' worth from peers, twice as slowly", read(task.SourcePeer, 2*time.Second, 10), 1.5)
	near("much", read(task.SourcePeer, 2*time.Second, 2000), 2)
	near("then as much from a fast storage element", read(task.SourceSE, time.Second, 3000), 0.5)
}
