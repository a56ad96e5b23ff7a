package tables

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPartiesTakeTurns has parties that always have Updates waiting, of costs of their own,
// and one that has one now and then. The first get the same share of the writer's time, and
// the other does not wait for more than one Update of each of them.
func TestPartiesTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		parties := rapid.IntRange(1, 5).Draw(t, "parties")
		longest := make(map[string]time.Duration)
		had := make(map[string]time.Duration)
		add := func(party string) *update {
			u := &update{party: party}
			l.add(u)
			return u
		}
		for i := range parties {
			party := fmt.Sprint("greedy ", i)
			longest[party] = time.Duration(rapid.IntRange(1, 50_000).Draw(t, party)) * time.Microsecond
			for range rapid.IntRange(1, 100).Draw(t, "waiting") {
				add(party)
			}
		}
		waited, passing := 0, (*update)(nil)
		for range rapid.IntRange(100, 500).Draw(t, "turns") {
			if passing == nil && rapid.IntRange(0, 9).Draw(t, "calls") == 0 {
				passing, waited = add("passing"), 0
			}
			u, place := l.first()
			l.take(place)
			if u == passing {
				passing = nil
				l.charge(u.party, time.Microsecond)
				continue
			}
			if waited++; passing != nil && waited > parties {
				t.Fatalf("who calls now and then waits for %d Updates of %d parties", waited, parties)
			}
			took := time.Duration(rapid.IntRange(1, int(longest[u.party]/time.Microsecond)).Draw(t, "took")) * time.Microsecond
			l.charge(u.party, took)
			had[u.party] += took
			add(u.party)
			for one := range longest {
				for other := range longest {
					if had[one] > had[other]+longest[one]+longest[other] {
						t.Fatalf("of parties that always wait %s has had %s, %s only %s", one, had[one], other, had[other])
					}
				}
			}
		}
		if len(l.had) > parties+1 {
			t.Errorf("%d parties are remembered", len(l.had))
		}
	})
}

// TestPartiesAreForgotten has parties that come once.
func TestPartiesAreForgotten(t *testing.T) {
	var l line
	for i := range 10_000 {
		l.add(&update{party: fmt.Sprint(i)})
		u, place := l.first()
		l.take(place)
		l.charge(u.party, time.Millisecond)
		l.add(&update{party: "steady"})
		_, place = l.first()
		l.take(place)
		l.charge("steady", time.Millisecond)
	}
	if len(l.had) > 2*forgottenBeyond {
		t.Errorf("%d parties are remembered", len(l.had))
	}
}
