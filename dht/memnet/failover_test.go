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
	master, _ := registry.Office()
	if !net.Run(time.Second, func() bool { return len(master.Overlay.Members()) >= running(net) }) {
		t.Errorf("the new master knows %d of %d", len(master.Overlay.Members()), running(net))
	}
	if len(registry.Granted) != granted+1 {
		t.Errorf("the queue granted %v", registry.Granted[granted:])
	}
	return net.Now().Sub(fallen)
}

func running(net *memnet.Net) (count int) {
	for _, node := range net.Nodes() {
		if !node.Closed && !node.Hung {
			count++
		}
	}
	return count
}

// A killed master is replaced within 5 s, a hung one within
// 15 s. The queue waits for 2 s after a broken connection, and for 3 s of silence.
func TestFailoverTimesOf200(t *testing.T) {
	var killed, hung []time.Duration
	for seed := range uint64(20) {
		net := memnet.New(seed, dht.Config{})
		memnet.NewRegistry(net, 3*time.Second, 2*time.Second)
		for range 200 {
			net.Join()
		}
		if !net.Run(5*time.Second, func() bool { return len(net.Node(0).Overlay.Members()) == 200 }) {
			t.Fatalf("seed %d: the master does not know everybody", seed)
		}
		net.Run(2*time.Second+time.Duration(seed)*100*time.Millisecond, nil) // each another moment between two Syncs
		killed = append(killed, failover(t, net, net.Close, 2500*time.Millisecond))
		net.Run(time.Second, nil)
		hung = append(hung, failover(t, net, net.Hang, 15*time.Second))
	}
	for name, times := range map[string][]time.Duration{"killed": killed, "hung": hung} {
		slices.Sort(times)
		t.Logf("%s: shortest %s, median %s, longest %s", name, times[0], times[10], times[19])
	}
}
