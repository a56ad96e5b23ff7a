package memnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

func site(t *testing.T, seed uint64, size int) *memnet.Net {
	t.Helper()
	net := memnet.New(seed, dht.Config{})
	for range size {
		node := net.Join()
		node.AutoReply = func([]byte) []byte { return []byte(node.Member.Pilot) }
		net.Run(2*time.Millisecond, nil)
	}
	if !net.Run(20*time.Second, func() bool { return len(net.Node(0).Overlay.Members()) == size }) {
		t.Fatalf("seed %d: not all %d members have introduced themselves", seed, size)
	}
	net.Run(3*time.Second, nil) // they have looked around
	return net
}

// cast broadcasts from a node and returns the result.
func cast(t *testing.T, net *memnet.Net, from *memnet.Node, limit time.Duration) (dht.Done, time.Duration) {
	t.Helper()
	var done *dht.Done
	net.OnAction = func(node *memnet.Node, action dht.Action) {
		if d, ok := action.(dht.Done); ok && node == from {
			done = &d
		}
	}
	start := net.Now()
	net.Do(from, dht.Broadcast{N: 7, Payload: []byte("list"), Reply: true})
	if !net.Run(limit, func() bool { return done != nil }) {
		t.Fatalf("no end of the broadcast within %s", limit)
	}
	return *done, net.Now().Sub(start)
}

// Paper 004, section III-B: eight regions, aggregated replies.
func TestBroadcastReachesAllOf200ThroughEightRegions(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			net := site(t, seed, 200)
			net.WatchHops = true
			done, took := cast(t, net, net.Node(0), 10*time.Second)
			if done.Reached != 200 || len(done.Missed) != 0 || len(done.Data) != 200 {
				t.Fatalf("reached %d, missed %v, %d replies", done.Reached, done.Missed, len(done.Data))
			}
			if done.Depth < 3 {
				t.Errorf("depth %d, want at least 3", done.Depth)
			}
			replies := make(map[string]int)
			for _, reply := range done.Data {
				replies[string(reply)]++
			}
			if len(replies) != 200 {
				t.Errorf("%d different replies", len(replies))
			}
			for _, node := range net.Nodes() {
				for id, peers := range node.Hops {
					if len(peers) > 8 {
						t.Errorf("%s sent broadcast %v to %d peers", node.Member.Pilot, id, len(peers))
					}
				}
			}
			if took > 200*time.Millisecond {
				t.Errorf("took %s of virtual time at 1-2 ms a hop", took)
			}
		})
	}
}

func TestBroadcastWithTenPercentHungReachesAllLiveAfterRepair(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			net := site(t, seed, 200)
			for i := 5; i < 200; i += 10 {
				net.Node(i).Hung = true
			}
			done, _ := cast(t, net, net.Node(0), 30*time.Second)
			for _, node := range net.Nodes() {
				if !node.Hung && node != net.Node(0) && node.Delivered == 0 {
					t.Errorf("%s is alive and was not reached", node.Member.Pilot)
				}
			}
			if done.Reached != 180 || len(done.Missed) != 20 {
				t.Errorf("reached %d, missed %d; want 180 and 20", done.Reached, len(done.Missed))
			}
		})
	}
}

func TestBroadcastWithTenPercentClosed(t *testing.T) {
	net := site(t, 11, 200)
	for i := 5; i < 200; i += 10 {
		net.Node(i).Closed = true // without telling anybody
	}
	done, _ := cast(t, net, net.Node(0), 30*time.Second)
	if done.Reached != 180 {
		t.Errorf("reached %d of 180", done.Reached)
	}
}

func lowest(net *memnet.Net) *memnet.Node {
	var best *memnet.Node
	for _, node := range net.Nodes() {
		if node.Closed || node.Hung {
			continue
		}
		if best == nil || dht.KeyOfPeer(node.Member.Peer).Less(dht.KeyOfPeer(best.Member.Peer)) {
			best = node
		}
	}
	return best
}

func agreed(net *memnet.Net, master *memnet.Node) func() bool {
	return func() bool {
		for _, node := range net.Nodes() {
			if node.Closed || node.Hung {
				continue
			}
			if m, _ := node.Overlay.Master(); m.Peer != master.Member.Peer {
				return false
			}
		}
		return true
	}
}

// Paper 004, section III-B: the pilot with the lowest identifier takes over.
func TestLowestLiveIdTakesOver(t *testing.T) {
	for name, fall := range map[string]func(*memnet.Net, *memnet.Node){
		"killed": func(net *memnet.Net, node *memnet.Node) { net.Close(node) },
		"hung":   func(_ *memnet.Net, node *memnet.Node) { node.Hung = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				net := site(t, seed, 40)
				var claims []task.PilotID
				fallen := net.Now()
				epoch := uint64(1)
				net.Queue = func(now time.Time, node *memnet.Node, claim dht.Claim) dht.ClaimAnswer {
					if now.Sub(fallen) < 3*time.Second || claim.Expected.Epoch != epoch {
						m, term := node.Overlay.Master()
						return dht.ClaimAnswer{Reached: true, Term: term, Master: m}
					}
					claims = append(claims, node.Member.Pilot)
					epoch++
					return dht.ClaimAnswer{Reached: true, Granted: true, Master: node.Member, Term: task.Term{Epoch: epoch, Peer: node.Member.Peer}}
				}
				fall(net, net.Node(0))
				heir := lowest(net)
				limit := 5 * time.Second
				if name == "hung" {
					limit = 15 * time.Second
				}
				if !net.Run(limit, agreed(net, heir)) {
					t.Fatalf("seed %d: no agreement on %s within %s; claims %v", seed, heir.Member.Pilot, limit, claims)
				}
				if len(claims) != 1 {
					t.Errorf("seed %d: granted claims %v", seed, claims)
				}
				t.Logf("seed %d: new master after %s", seed, net.Now().Sub(fallen))
			}
		})
	}
}

func TestElectionGoesOnWithoutTheQueue(t *testing.T) {
	net := site(t, 4, 20)
	reachable := false
	net.Queue = func(now time.Time, node *memnet.Node, claim dht.Claim) dht.ClaimAnswer {
		if !reachable {
			return dht.ClaimAnswer{}
		}
		if claim.Expected.Epoch != 1 {
			t.Errorf("claim expects %s, the queue granted epoch 1 last", claim.Expected)
		}
		return dht.ClaimAnswer{Reached: true, Granted: true, Master: node.Member, Term: task.Term{Epoch: 2, Peer: node.Member.Peer}}
	}
	net.Close(net.Node(0))
	heir := lowest(net)
	if !net.Run(5*time.Second, agreed(net, heir)) {
		t.Fatal("no provisional master within 5 s")
	}
	if _, term := heir.Overlay.Master(); term.Epoch != 1 || term.Ballot != 1 {
		t.Fatalf("term %s, want ballot 1 of epoch 1", term)
	}
	reachable = true
	confirmed := func() bool {
		for _, node := range net.Nodes() {
			if _, term := node.Overlay.Master(); !node.Closed && term.Epoch != 2 {
				return false
			}
		}
		return true
	}
	if !net.Run(5*time.Second, confirmed) {
		t.Fatal("the queue's term did not reach everybody")
	}
}

func locate(t *testing.T, net *memnet.Net, node *memnet.Node, files ...task.FileKey) map[task.FileKey][]dht.Holder {
	t.Helper()
	var located *dht.Located
	net.OnAction = func(at *memnet.Node, action dht.Action) {
		if l, ok := action.(dht.Located); ok && at == node {
			located = &l
		}
	}
	net.Do(node, dht.Locate{N: 1, Files: files})
	if located == nil && !net.Run(5*time.Second, func() bool { return located != nil }) {
		t.Fatal("no answer to a search")
	}
	return located.Holders
}

func TestLocationsAreFoundWithdrawnAndHandedOver(t *testing.T) {
	net := site(t, 5, 30)
	var files []task.FileKey
	for i := range 50 {
		files = append(files, task.FileKey(fmt.Sprintf("b3:%03d", i)))
	}
	net.Do(net.Node(3), dht.Announce{Files: files})
	net.Do(net.Node(4), dht.Announce{Files: files[:10]})
	net.Run(time.Second, nil)
	for _, asker := range []int{0, 3, 7, 29} {
		found := locate(t, net, net.Node(asker), files...)
		want := 50
		if asker == 3 {
			want = 10 // itself does not count
		}
		if len(found) != want {
			t.Errorf("node %d found %d of %d files", asker, len(found), want)
		}
		if asker == 0 && len(found[files[0]]) != 2 {
			t.Errorf("holders %v, want two", found[files[0]])
		}
	}
	net.Do(net.Node(4), dht.Withdraw{Files: files[:5]})
	net.Run(time.Second, nil)
	if holders := locate(t, net, net.Node(9), files[0])[files[0]]; len(holders) != 1 {
		t.Errorf("after the withdrawal: %v", holders)
	}
	// Members leave one after the other; the locations stay.
	for i := 10; i < 20; i++ {
		node := net.Node(i)
		net.Do(node, dht.Leave{})
		net.Run(100*time.Millisecond, nil)
		node.Closed = true
	}
	net.Run(2*time.Second, nil)
	if found := locate(t, net, net.Node(9), files...); len(found) != 50 {
		t.Errorf("after 10 of 30 left: %d of 50 files found", len(found))
	}
	if n := len(net.Node(0).Overlay.Members()); n != 20 {
		t.Errorf("the master knows %d members, want 20", n)
	}
	// A holder dies: nobody is pointed to it any more.
	net.Close(net.Node(3))
	net.Run(3*time.Second, nil)
	if found := locate(t, net, net.Node(9), files[20]); len(found) != 0 {
		t.Errorf("a dead holder is still named: %v", found)
	}
}
