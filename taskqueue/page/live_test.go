package page

import (
	"runtime"
	"sync"
	"testing"
)

// TestAViewerMissesNothingThatIsStored stores outputs of attempts while a viewer reads on
// and on behind the newest number that it was told, as a stream does.
func TestAViewerMissesNothingThatIsStored(t *testing.T) {
	const all = keepBars / 2
	l := newLive()
	var storing sync.WaitGroup
	storing.Go(func() {
		for range all {
			runtime.Gosched()
			l.stored([]Out{{Site: "siteA", Attempt: "w/t/a1"}})
		}
	})
	seen, from := 0, uint64(0)
	for from < all {
		_, outs, newest := l.since("siteA", from, keepBars)
		seen, from = seen+len(outs), newest
	}
	storing.Wait()
	if seen != all {
		t.Errorf("a viewer was told of %d attempts, want all %d", seen, all)
	}
}
