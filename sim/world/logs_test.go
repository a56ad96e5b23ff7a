package world

import (
	"testing"
	"time"
)

// Logs of payloads stay while the queue is away, whoever becomes master, and
// leave their nodes once the queue has their ends.
func TestLogsLeaveTheirNodes(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 5, 2)
		flow := w.submit("flow", tree(60)...)
		w.run(5 * time.Second)
		w.queue.stop()
		w.run(time.Second)
		before := logsKept(s)
		w.run(5 * time.Second)
		s.master().kill()
		w.run(15 * time.Second)
		if kept := logsKept(s); kept < before || kept == 0 {
			t.Errorf("seed %d: %d logs are kept while the queue is away, %d before", seed, kept, before)
		}
		w.queue.start()
		w.finish(flow, 20*time.Minute)
		w.run(time.Minute)
		if kept := logsKept(s); kept > 0 {
			t.Errorf("seed %d: %d logs stay although the queue has judged all attempts", seed, kept)
		}
	}
}

func logsKept(s *site) (kept int) {
	for _, n := range s.live() {
		kept += len(n.logs)
	}
	return kept
}
