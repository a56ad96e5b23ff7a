package dht

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// Paper 004, section III-B: at most eight regions, which are the space.
func TestDivideCoversTheSpaceOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := New(Config{})
		o.Step(time.Unix(1e9, 0), Joined{Self: memberNamed(0), Master: memberNamed(0), Term: task.Term{Epoch: 1}})
		var unknown []Key
		for i := range rapid.IntRange(0, 60).Draw(t, "members") {
			if rapid.Bool().Draw(t, "known") {
				o.members.route(memberNamed(i + 1))
			} else {
				unknown = append(unknown, KeyOfPeer(memberNamed(i+1).Peer))
			}
		}
		space := WholeSpace()
		if rapid.Bool().Draw(t, "part") {
			a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
			if b.Less(a) {
				a, b = b, a
			}
			space = Range{a, b}
		}
		m := Cast{Space: space}
		for _, e := range o.members.known.within(space) {
			if rapid.IntRange(0, 9).Draw(t, "above") == 0 {
				m.Path = append(m.Path, e.key.Short())
			}
		}
		regions := o.broadcast.divide(&o.members, m)
		candidates := o.candidates(m, space)
		if len(regions) != min(o.broadcast.config.Broadcast.Fanout, candidates) {
			t.Fatalf("%d regions for %d candidates", len(regions), candidates)
		}
		if candidates == 0 {
			return
		}
		first := space.First
		for i, r := range regions {
			if r.First != first || r.Last.Less(r.First) {
				t.Fatalf("region %d begins at %v instead of %v", i, r.First, first)
			}
			if o.candidates(m, r) == 0 {
				t.Fatalf("region %d has no member that can be asked", i)
			}
			first = after(r.Last)
		}
		if regions[len(regions)-1].Last != space.Last {
			t.Fatal("the end of the space is left out")
		}
		for _, key := range unknown {
			held := 0
			for _, r := range regions {
				if r.Contains(key) {
					held++
				}
			}
			if space.Contains(key) != (held == 1) || held > 1 {
				t.Fatalf("an unknown member is in %d regions", held)
			}
		}
	})
}

func after(k Key) Key {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			break
		}
	}
	return k
}

func (o *Overlay) candidates(m Cast, space Range) int {
	count := 0
	for _, e := range o.members.known.within(space) {
		if mayCover(&o.members, e, m) {
			count++
		}
	}
	return count
}

func memberNamed(i int) Member {
	return Member{Peer: task.PeerID(fmt.Sprintf("peer-%d", i)), Pilot: task.PilotID(fmt.Sprintf("p-%d", i))}
}
