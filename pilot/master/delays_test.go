package master

import (
	"testing"
	"time"
)

// Small sites are served at once; a large one's master gathers changes, within
// the delay between tasks that pilots may see.
func TestSolvePauseGrowsWithTheSite(t *testing.T) {
	for members, want := range map[int]time.Duration{
		0: 0, 99: 0, 100: 2 * time.Millisecond, 750: 15 * time.Millisecond, 20_000: 50 * time.Millisecond,
	} {
		if got := SolvePause(members); got != want {
			t.Errorf("%d members: %s, want %s", members, got, want)
		}
	}
}
