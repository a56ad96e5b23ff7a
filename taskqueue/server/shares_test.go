package server

import (
	"testing"
	"time"
)

// TestAGreedyIdentityWaitsInItsOwnLine floods the store from one identity, with calls of
// some cost, while another one calls now and then: the flood never has more than a few
// calls at work, nobody else waits for its line, and alone it may have many.
func TestAGreedyIdentityWaitsInItsOwnLine(t *testing.T) {
	for _, cost := range []time.Duration{20 * time.Microsecond, 300 * time.Microsecond, 5 * time.Millisecond} {
		var s shares
		now := time.Unix(0, 0)
		var line []<-chan struct{}
		inside := 0
		call := func() {
			if turn := s.begin("greedy", now); turn == nil {
				inside++
			} else {
				line = append(line, turn)
			}
		}
		step := func() { // all that are inside end, as a common commit does
			for range inside {
				now = now.Add(cost)
				s.end("greedy", cost, now)
			}
			inside = 0
			for len(line) > 0 {
				select {
				case <-line[0]:
					line = line[1:]
					inside++
					continue
				default:
				}
				break
			}
		}
		for range 1000 {
			call()
		}
		for range 600 {
			if !s.comes("greedy", now) {
				t.Fatalf("cost %s: calls are refused although nobody else calls", cost)
			}
		}
		s.of["greedy"].coming = 0
		for range 20 {
			if step(); inside != mostAtOnce && len(line) > 0 {
				t.Fatalf("cost %s: alone, %d calls work at once, %d wait", cost, inside, len(line))
			}
			for len(line) < 500 {
				call()
			}
		}
		for i := range 100 {
			if s.begin("other", now) != nil {
				t.Fatalf("cost %s: who calls now and then waits for somebody else's flood", cost)
			}
			s.end("other", cost, now)
			for len(line) < 500 {
				call()
			}
			admitted := 0
			for s.comes("greedy", now) {
				admitted++
			}
			if admitted != comingBesideOthers || !s.comes("other", now) {
				t.Fatalf("cost %s: %d calls of a flood are admitted beside another identity, %d should be, and of the other one", cost, admitted, comingBesideOthers)
			}
			s.of["other"].coming--
			s.of["greedy"].coming = 0
			if step(); i > 0 && inside > besideOthers {
				t.Fatalf("cost %s: %d calls of a flood work at once beside another identity, at most %d should", cost, inside, besideOthers)
			}
		}
		if after := s.refuse("greedy"); after < 100*time.Millisecond || after > longestRetry {
			t.Errorf("cost %s: come again in %s", cost, after)
		}
		// Who has gone does not take a turn.
		if gone := line[len(line)-1]; !s.drop("greedy", gone) || s.drop("greedy", gone) {
			t.Errorf("cost %s: a call that was given up stays in line", cost)
		}
		now = now.Add(3 * aroundFor)
		call()
		now = now.Add(3 * aroundFor)
		if call(); len(s.of) != 1 {
			t.Errorf("cost %s: %d identities are remembered", cost, len(s.of))
		}
	}
}
