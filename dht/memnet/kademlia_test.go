package memnet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

// carried is what a site of 60 manages, of which the queue names three contacts to
// each newcomer.
type carried struct {
	elected bool // the live pilot with the lowest id, once and by all
	tree    bool // a broadcast reaches all from pilot to pilot
	found   bool // all files are found from everywhere
}

func siteOf60(t *testing.T, kademlia bool) *memnet.Net {
	t.Helper()
	net := memnet.New(60, dht.Config{})
	net.NoKademlia, net.Contacts = !kademlia, 3
	registry := memnet.NewRegistry(net, 3*time.Second, time.Second)
	for range 60 {
		node := net.Join()
		node.AutoReply = func([]byte) []byte { return []byte(node.Member.Pilot) }
		net.Run(10*time.Millisecond, nil)
	}
	registry.Reachable = func(*memnet.Node) bool { return false }
	net.Run(2*time.Minute, nil) // what the queue named is forgotten
	for i, node := range net.Nodes() {
		net.Do(node, dht.Announce{Files: []task.FileKey{task.FileKey(fmt.Sprintf("file-%02d", i))}})
	}
	net.Run(5*time.Second, nil)
	return net
}

// judge looks what a site manages.
func judge(t *testing.T, net *memnet.Net, master *memnet.Node) (c carried) {
	t.Helper()
	c.elected = agreed(net, master)()
	sent, direct := 0, 0
	observe := net.OnAction
	net.OnAction = func(_ *memnet.Node, action dht.Action) {
		if s, ok := action.(dht.Send); ok {
			if cast, ok := s.Message.(dht.Cast); ok && cast.Kind == dht.CastPayload {
				sent++
				if cast.Space.First == cast.Space.Last {
					direct++ // the master itself speaks with whoever no reply named
				}
			}
		}
	}
	net.Do(master, dht.Broadcast{N: 99, Payload: []byte("list"), Reply: true})
	net.Run(5*time.Second, nil)
	net.OnAction = observe
	c.tree = sent > 0 && direct == 0
	for _, node := range net.Nodes() {
		if node != master && !node.Closed && node.Delivered == 0 {
			c.tree = false
		}
	}
	var files []task.FileKey
	for i, node := range net.Nodes() {
		if !node.Closed {
			files = append(files, task.FileKey(fmt.Sprintf("file-%02d", i)))
		}
	}
	c.found = true
	for _, asker := range net.Nodes() {
		if found := 0; !asker.Closed {
			found = len(locate(t, net, asker, files...))
			if own := 1; found != len(files)-own {
				t.Logf("%s finds %d of %d", asker.Overlay, found, len(files)-own)
				c.found = false
			}
		}
	}
	net.OnAction = observe
	return c
}

// The library carries weight. Without it, tables stay empty and
// lookups return nobody.
func TestASiteOf60StandsOnKademlia(t *testing.T) {
	for _, kademlia := range []bool{true, false} {
		t.Run(fmt.Sprintf("kad-dht %v", kademlia), func(t *testing.T) {
			net := siteOf60(t, kademlia)
			first := judge(t, net, net.Node(0))
			if want := (carried{elected: true, tree: kademlia, found: kademlia}); first != want {
				t.Errorf("at first: %+v, want %+v", first, want)
			}
			// The master dies while the queue is away.
			net.Close(net.Node(0))
			masters := make(map[task.PeerID]bool)
			net.OnAction = func(node *memnet.Node, action dht.Action) {
				if changed, ok := action.(dht.MasterChanged); ok && changed.Self {
					masters[node.Member.Peer] = true
				}
			}
			heir := lowest(net)
			net.Run(15*time.Second, nil)
			second := judge(t, net, heir)
			if want := (carried{elected: kademlia, tree: kademlia, found: kademlia}); second != want || kademlia != (len(masters) == 1) {
				t.Errorf("after the master died: %+v, want %+v; masters were %d", second, want, len(masters))
			}
		})
	}
}

// A tenth of the members goes every minute, half of them killed, and others come.
func TestFilesAreFoundWhileMembersComeAndGo(t *testing.T) {
	net := siteOf60(t, true)
	net.Registry.Reachable = nil
	asked, found := 0, 0
	for minute := range 10 {
		for i := range 6 {
			node := net.Node(minute*6 + i)
			if i%2 == 0 {
				net.Do(node, dht.Leave{})
				net.Run(20*time.Millisecond, nil)
			}
			net.Close(node)
			newcomer := net.Join()
			net.Do(newcomer, dht.Announce{Files: []task.FileKey{task.FileKey(fmt.Sprintf("file-%02d", net.Len()-1))}})
			net.Run(5*time.Second, nil)
			var files []task.FileKey
			for j, holder := range net.Nodes() {
				if !holder.Closed {
					files = append(files, task.FileKey(fmt.Sprintf("file-%02d", j)))
				}
			}
			for j, asker := range net.Nodes() {
				if !asker.Closed && j%3 == i%3 {
					asked += len(files) - 1
					found += len(locate(t, net, asker, files...))
				}
			}
			net.OnAction = nil
			net.Run(5*time.Second, nil)
		}
	}
	t.Logf("%d of %d are found", found, asked)
	if asked-found > asked/1000 {
		t.Errorf("%d of %d are found, want 99.9 %%", found, asked)
	}
}

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

// The model of kad-dht that carries sites on virtual time is like the library.
func TestModelOfKademlia(t *testing.T) {
	const size = 40
	s := newLive(t, memnet.Light)
	pilots := s.join(size)
	s.settled(time.Minute, pilots)
	var real, model []overlay
	for _, p := range pilots {
		real = append(real, p)
	}
	s.await(time.Minute, "tables at everyone", func() bool {
		return !slices.ContainsFunc(real, func(o overlay) bool { return len(o.Members()) < size/3 })
	})
	theirs := measure(t, real, func(i int) dht.Member { return pilots[i].self }, func(asker int, file task.FileKey) {
		if _, err := pilots[asker].Locate(t.Context(), []task.FileKey{file}); err != nil {
			t.Fatal(err)
		}
	})
	net := site(t, 1, size)
	for _, node := range net.Nodes() {
		model = append(model, node.Overlay)
	}
	ours := measure(t, model, func(i int) dht.Member { return net.Node(i).Member }, func(asker int, file task.FileKey) {
		locate(t, net, net.Node(asker), file)
	})
	t.Logf("the library: %+v; the model: %+v", theirs, ours)
	if ratio := ours.known / theirs.known; ratio < 0.7 || ratio > 1.4 {
		t.Errorf("members know %.0f others in the model, %.0f with the library", ours.known, theirs.known)
	}
	for name, l := range map[string]likeness{"model": ours, "library": theirs} {
		if l.buckets < 0.97 || l.nearest < 0.97 {
			t.Errorf("the %s: %+v", name, l)
		}
	}
}
