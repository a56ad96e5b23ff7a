package connlimit

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestAFloodDisplacesItsOwnConnections plays connections that come and go, and one
// party that opens many: no limit is ever exceeded, and a party loses a connection
// only while no other one of its kind has more.
func TestAFloodDisplacesItsOwnConnections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{InAll: rapid.IntRange(6, 20).Draw(t, "inAll"), Strangers: rapid.IntRange(2, 6).Draw(t, "strangers"), PerParty: rapid.IntRange(2, 9).Draw(t, "perParty")}
		b := newBook[int](limits)
		var open []int
		drop := func(c int) {
			b.remove(c)
			for i := range open {
				if open[i] == c {
					open = append(open[:i], open[i+1:]...)
					return
				}
			}
			t.Fatalf("connection %d had to go and was not there", c)
		}
		for c := range 80 {
			p := party{name: fmt.Sprint(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3}).Draw(t, "party")), stranger: rapid.Bool().Draw(t, "stranger")}
			if len(open) > 0 && rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				c = rapid.SampledFrom(open).Draw(t, "which") // it goes, or has shown who it is
				if p.stranger {
					drop(c)
					continue
				}
			} else {
				open = append(open, c)
			}
			out, over := b.add(c, p)
			if over {
				loser := b.of[out]
				for other, held := range b.holders {
					if other.stranger == loser.stranger && len(held) > len(b.holders[loser]) && len(b.holders[loser]) <= limits.PerParty {
						t.Fatalf("%v lost a connection and has %d, %v has %d", loser, len(b.holders[loser]), other, len(held))
					}
				}
				drop(out)
			}
			strangers := 0
			for p, held := range b.holders {
				if len(held) > limits.PerParty || len(held) == 0 {
					t.Fatalf("%v has %d connections", p, len(held))
				}
				if p.stranger {
					strangers += len(held)
				}
			}
			if len(b.of) > limits.InAll || strangers > limits.Strangers || strangers != b.strangers || len(b.of) != len(open) {
				t.Fatalf("%d connections, %d of strangers (%d booked), %d open", len(b.of), strangers, b.strangers, len(open))
			}
		}
	})
}
