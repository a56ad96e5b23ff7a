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
		limits := Limits{InAll: rapid.IntRange(6, 20).Draw(t, "inAll"), Strangers: rapid.IntRange(2, 6).Draw(t, "strangers"), PerParty: rapid.IntRange(2, 9).Draw(t, "perParty"), BytesInAll: 60, BytesPerParty: 40}
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
			// What connections bring: the one with the most of the party with the most goes.
			if len(open) > 0 {
				heavy := rapid.SampledFrom(open).Draw(t, "heavy")
				bytes := rapid.Int64Range(-b.bytes[heavy], 30).Draw(t, "bytes")
				b.open(heavy, rapid.IntRange(-b.calls[heavy], 3).Draw(t, "calls"))
				calls, callsOf := 0, make(map[party]int)
				for c, n := range b.calls {
					calls += n
					callsOf[b.of[c]] += n
				}
				for p, n := range b.callsOf {
					if n != callsOf[p] || calls != b.callsAll {
						t.Fatalf("%v has %d calls of %d, booked are %d of %d", p, callsOf[p], calls, n, b.callsAll)
					}
				}
				out, over := b.bring(heavy, bytes)
				sums, all := make(map[party]int64), int64(0)
				for c, bytes := range b.bytes {
					sums[b.of[c]] += bytes
					all += bytes
				}
				for p, sum := range sums {
					if sum != b.bytesOf[p] || p == b.of[heavy] && bytes > 0 && sum > limits.BytesPerParty && (!over || all <= limits.BytesInAll && b.of[out] != p) {
						t.Fatalf("%v has brought %d bytes, booked are %d, %d went: %v", p, sum, b.bytesOf[p], out, over)
					}
					if over && all > limits.BytesInAll && sum > sums[b.of[out]] {
						t.Fatalf("%v lost a connection with %d bytes, %v has %d", b.of[out], sums[b.of[out]], p, sum)
					}
				}
				if all != b.bytesAll || bytes > 0 && all > limits.BytesInAll && !over {
					t.Fatalf("%d bytes were brought, booked are %d", all, b.bytesAll)
				}
				if over {
					for _, c := range b.holders[b.of[out]] {
						if b.bytes[c] > b.bytes[out] {
							t.Fatalf("connection %d with %d bytes went, another one has %d", out, b.bytes[out], b.bytes[c])
						}
					}
					drop(out)
				}
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
