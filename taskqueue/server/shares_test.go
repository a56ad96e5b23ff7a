package server

import (
	"fmt"
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
			if admitted != comingOfMost && i > 0 || admitted > comingBesideOthers || !s.comes("other", now) {
				t.Fatalf("cost %s: %d calls of a flood are admitted beside another identity, %d should be, and of the other one", cost, admitted, comingOfMost)
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

// TestNobodyIsRefusedForTheFloodOfAnother has eight users call evenly, with and without a
// flood, while the store stalls now and then for as long as a commit may take on a busy
// machine: they wait, and none of their calls is refused. The flood has few calls on their
// way, but for its first moments.
func TestNobodyIsRefusedForTheFloodOfAnother(t *testing.T) {
	const users, each = 8, 180 // a second
	for _, flood := range []int{0, each * 3, each * 10, each * users * 10} {
		var s shares
		start := time.Unix(0, 0)
		made, refused, most := make(map[string]int), make(map[string]int), 0
		for ms := range 10_000 {
			now := start.Add(time.Duration(ms) * time.Millisecond)
			call := func(identity string, perSecond int) {
				for due := perSecond * (ms + 1) / 1000; made[identity] < due; made[identity]++ {
					if !s.comes(identity, now) {
						refused[identity]++
						s.refuse(identity)
					}
				}
			}
			call("flood", flood)
			for user := range users {
				call(fmt.Sprint("user ", user), each)
			}
			if of := s.of["flood"]; of != nil && ms > 1500 {
				most = max(most, of.coming)
			}
			if ms%2000 >= 500 { // it is back, and takes what waits
				for _, of := range s.of {
					of.coming -= min(of.coming, 2)
				}
			}
		}
		for user := range users {
			if n := refused[fmt.Sprint("user ", user)]; n > 0 {
				t.Errorf("flood of %d a second: %d calls of user %d are refused", flood, n, user)
			}
		}
		if flood > 2*each && (most > comingOfMost || refused["flood"] == 0) {
			t.Errorf("flood of %d a second: %d of its calls are on their way, %d are refused", flood, most, refused["flood"])
		}
	}
}
