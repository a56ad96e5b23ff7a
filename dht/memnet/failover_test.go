package memnet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
)

// failover lets a site lose its master and returns for how long it had none
// that everybody follows and the queue has in office.
func failover(t *testing.T, net *memnet.Net, lose func(*memnet.Node), limit time.Duration) time.Duration {
	t.Helper()
	registry := net.Registry
	old, _ := registry.Office()
	granted := len(registry.Granted)
	lose(old)
	fallen := net.Now()
	following := 0 // so many of the members do
	settled := func() bool {
		master, term := registry.Office()
		for master != old && following < net.Len() {
			node := net.Node(following)
			if _, its := node.Overlay.Master(); !node.Closed && node != old && its != term {
				return false
			}
			following++
		}
		return following == net.Len()
	}
	if !net.Run(limit, settled) {
		t.Fatalf("no new master within %s", limit)
	}
	for i := range net.Len() {
		if node := net.Node(i); !node.Closed && node != old {
			net.Run(100*time.Millisecond, func() bool { return sameMembers(node, net) })
			if !sameMembers(node, net) {
				t.Errorf("%s has another roster than its master", node.Overlay)
			}
		}
	}
	if len(registry.Granted) != granted+1 {
		t.Errorf("the queue granted %v", registry.Granted[granted:])
	}
	return net.Now().Sub(fallen)
}

func sameMembers(node *memnet.Node, net *memnet.Net) bool {
	master, _ := net.Registry.Office()
	same := func(a, b dht.Member) bool { return a.Peer == b.Peer }
	return slices.EqualFunc(node.Overlay.Members(), master.Overlay.Members(), same)
}

// DESIGN section 4: a killed master is replaced within 5 s, a hung one within
// 15 s. The queue waits for 2 s after a broken connection, and for 3 s of silence.
func TestFailoverTimesOf200(t *testing.T) {
	var killed, hung []time.Duration
	entries := 0 // of rosters that are sent while masters change
	for seed := range uint64(20) {
		net := memnet.New(seed, dht.Config{})
		memnet.NewRegistry(net, 3*time.Second, 2*time.Second)
		for range 200 {
			net.Join()
		}
		complete := 0 // so many have the whole roster
		everybodyListed := func() bool {
			for complete < 200 && net.Node(complete).Overlay.Size() == 200 {
				complete++
			}
			return complete == 200
		}
		if !net.Run(5*time.Second, everybodyListed) {
			t.Fatalf("seed %d: not everybody is on the roster", seed)
		}
		net.Run(time.Duration(seed)*100*time.Millisecond, nil) // each another moment between two Syncs
		net.OnAction = func(_ *memnet.Node, action dht.Action) {
			send, _ := action.(dht.Send)
			switch m := send.Message.(type) {
			case dht.Cast:
				entries += len(m.Roster.Add)
			case dht.Welcome:
				entries += len(m.Roster.Add)
			}
		}
		killed = append(killed, failover(t, net, net.Close, 2500*time.Millisecond))
		net.Run(time.Second, nil)
		hung = append(hung, failover(t, net, net.Hang, 15*time.Second))
	}
	if entries > 0 {
		t.Errorf("%d members of rosters were sent, and everybody had the dead masters'", entries)
	}
	for name, times := range map[string][]time.Duration{"killed": killed, "hung": hung} {
		slices.Sort(times)
		t.Logf("%s: shortest %s, median %s, longest %s", name, times[0], times[10], times[19])
	}
}
