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

// The larger a site and the longer its payloads, the longer news is gathered: a
// call of a site where few end in a second would else tell of next to nothing.
func TestNewsIsGatheredByTheSizeAndItsPayloads(t *testing.T) {
	queue := DefaultConfig().Queue
	for _, c := range []struct {
		running int
		usual   time.Duration
		want    time.Duration
	}{
		{running: 10, want: 200 * time.Millisecond},
		{running: 10, usual: 5 * time.Second, want: 200 * time.Millisecond},
		{running: 10, usual: 10 * time.Second, want: 300 * time.Millisecond},
		{running: 300, usual: 10 * time.Second, want: 400 * time.Millisecond},
		{running: 10, usual: time.Hour, want: 600 * time.Millisecond},
		{running: 10_000, usual: time.Second, want: 600 * time.Millisecond},
	} {
		if got := queue.GatherDelay(c.running, c.usual); got != c.want {
			t.Errorf("%d payloads of usually %s: %s, want %s", c.running, c.usual, got, c.want)
		}
	}
}
