package live_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

// overlay is what the model and a real node have in common.
type overlay interface {
	Members() []dht.Member
	Nearest(file task.FileKey, n int) []dht.Member
}

// likeness says how Kademlia serves a site.
type likeness struct {
	known   float64 // members that one knows, on average
	buckets float64 // of those in which there are members, how many know some
	nearest float64 // of files looked for, those of which the asker then knows the three nearest
}

// measure looks at all members but the first, the master, who knows everybody.
func measure(t *testing.T, members []overlay, self func(int) dht.Member, locate func(asker int, file task.FileKey)) (l likeness) {
	t.Helper()
	filled, all, right, asked := 0, 0, 0, 0
	for i, m := range members {
		if i == 0 {
			continue
		}
		own := dht.KeyOfPeer(self(i).Peer)
		there, knows := make(map[int]bool), make(map[int]bool)
		for j := range members {
			if j != i {
				there[own.Common(dht.KeyOfPeer(self(j).Peer))] = true
			}
		}
		for _, other := range m.Members() {
			knows[own.Common(dht.KeyOfPeer(other.Peer))] = true
		}
		for bits := range there {
			all++
			if knows[bits] {
				filled++
			}
		}
		l.known += float64(len(m.Members())) / float64(len(members)-1)
		for n := range 3 {
			file := task.FileKey(fmt.Sprintf("nobody's-%d-%d", i, n))
			locate(i, file)
			key := dht.KeyOfFile(file)
			var want []dht.Member
			for j := range members {
				want = append(want, self(j))
			}
			slices.SortFunc(want, func(a, b dht.Member) int {
				if key.Closer(dht.KeyOfPeer(a.Peer), dht.KeyOfPeer(b.Peer)) {
					return -1
				}
				return 1
			})
			asked++
			if slices.EqualFunc(m.Nearest(file, 3), want[:3], func(a, b dht.Member) bool { return a.Peer == b.Peer }) {
				right++
			}
		}
	}
	l.buckets, l.nearest = float64(filled)/float64(all), float64(right)/float64(asked)
	return l
}

// likeEnough is which part of buckets and of nearest members is to be known.
const likeEnough = 0.97

// The model of kad-dht that carries sites on virtual time is like the library.
func TestModelOfKademlia(t *testing.T) {
	const size = 40
	s := newLive(t)
	pilots := s.join(size)
	s.settled(time.Minute, pilots)
	var real, model []overlay
	for _, p := range pilots {
		real = append(real, p)
	}
	s.await(time.Minute, "tables at everyone", func() bool {
		return !slices.ContainsFunc(real, func(o overlay) bool { return len(o.Members()) < size/3 })
	})
	var theirs likeness
	for tries := 0; tries < 3 && theirs.nearest < likeEnough; tries++ { // a loaded machine cuts lookups short
		theirs = measure(t, real, func(i int) dht.Member { return pilots[i].self }, func(asker int, file task.FileKey) {
			if _, err := pilots[asker].Locate(t.Context(), []task.FileKey{file}, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	net := memnet.New(1, dht.Config{})
	for range size {
		net.Join()
		net.Run(2*time.Millisecond, nil)
	}
	net.Run(10*time.Second, nil)
	for _, node := range net.Nodes() {
		model = append(model, node.Overlay)
	}
	ours := measure(t, model, func(i int) dht.Member { return net.Node(i).Member }, func(asker int, file task.FileKey) {
		net.Do(net.Node(asker), dht.Locate{N: 1, Files: []task.FileKey{file}})
		net.Run(5*time.Second, nil)
	})
	t.Logf("the library: %+v; the model: %+v", theirs, ours)
	if ratio := ours.known / theirs.known; ratio < 0.7 || ratio > 1.4 {
		t.Errorf("members know %.0f others in the model, %.0f with the library", ours.known, theirs.known)
	}
	for name, l := range map[string]likeness{"model": ours, "library": theirs} {
		if l.buckets < likeEnough || l.nearest < likeEnough {
			t.Errorf("the %s: %+v", name, l)
		}
	}
}
