package memnet_test

import (
	"fmt"
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
