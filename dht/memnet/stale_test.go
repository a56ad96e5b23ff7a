package memnet_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
)

// The new master knows its routing table only; the others reply and say their names.
func TestBroadcastAtOnceAfterAnElection(t *testing.T) {
	net := site(t, 8, 60)
	net.Close(net.Node(0))
	heir := lowest(net)
	net.OnAction = nil
	if !net.Run(10*time.Second, agreed(net, heir)) {
		t.Fatal("no new master")
	}
	done, _ := cast(t, net, heir, 10*time.Second)
	if len(done.Data) != 59 || len(done.Missed) != 0 {
		t.Errorf("at once after the election: %d replies, missed %v", len(done.Data), done.Missed)
	}
}

// Members that joined since the last beat are covered by the next broadcast.
func TestBroadcastReachesTheNewest(t *testing.T) {
	net := site(t, 9, 40)
	net.Run(500*time.Millisecond, nil)
	var newest []*memnet.Node
	for range 40 {
		node := net.Join()
		node.AutoReply = func([]byte) []byte { return []byte(node.Member.Pilot) }
		newest = append(newest, node)
	}
	net.Run(4*time.Millisecond, nil)
	cast(t, net, net.Node(0), 10*time.Second)
	for _, node := range newest {
		if node.Delivered == 0 {
			t.Errorf("%s was not reached", node.Member.Pilot)
		}
	}
}

// A member that is only slow is reached, if late, and stays on the roster.
func TestASlowMemberIsNotMissed(t *testing.T) {
	net := site(t, 10, 60)
	slow := net.Node(17)
	net.Hang(slow)
	master := net.Node(0)
	var done *dht.Done
	var downs []dht.MemberDown
	net.OnAction = func(node *memnet.Node, action dht.Action) {
		switch a := action.(type) {
		case dht.Done:
			done = &a
		case dht.MemberDown:
			downs = append(downs, a)
		}
	}
	net.Do(master, dht.Broadcast{N: 1, Payload: []byte("list"), Reply: true})
	net.Run(700*time.Millisecond, nil)
	net.Resume(slow)
	if done != nil || !net.Run(time.Second, func() bool { return done != nil }) {
		t.Fatalf("done too early, or never: %v", done)
	}
	if done.Reached != 60 || len(done.Missed) != 0 || len(done.Data) != 60 {
		t.Errorf("reached %d with %d replies, missed %v", done.Reached, len(done.Data), done.Missed)
	}
	net.Run(20*time.Second, nil)
	if len(downs) != 0 {
		t.Errorf("taken for dead: %v", downs)
	}
}

func TestJoiningIsQuick(t *testing.T) {
	net := site(t, 12, 100)
	start := net.Now()
	var newcomers []*memnet.Node
	for range 100 {
		newcomers = append(newcomers, net.Join())
	}
	introduced := func() bool { return len(net.Node(0).Overlay.Members()) == 200 }
	if !net.Run(200*time.Millisecond, introduced) {
		t.Fatal("the master does not know everybody within 200 ms")
	}
	t.Logf("100 at once: the master knows all after %s", net.Now().Sub(start))
	done, _ := cast(t, net, newcomers[50], 10*time.Second)
	net.Run(100*time.Millisecond, nil)
	for _, node := range net.Nodes() {
		if node != newcomers[50] && node.Delivered == 0 {
			t.Errorf("%s is not reached from a newcomer, which reached %d", node.Member.Pilot, done.Reached)
		}
	}
}

// A restless network declares nobody dead: every member stops for up to two
// seconds now and then.
func TestPausesKillNobody(t *testing.T) {
	net := site(t, 13, 40)
	var downs int
	net.OnAction = func(_ *memnet.Node, action dht.Action) {
		if _, down := action.(dht.MemberDown); down {
			downs++
		}
	}
	for round := range 30 {
		paused := net.Node(round%39 + 1)
		net.Hang(paused)
		net.Do(net.Node(0), dht.Broadcast{N: uint64(round), Payload: []byte("list"), Reply: true})
		net.Run(2*time.Second, nil)
		net.Resume(paused)
		net.Run(100*time.Millisecond, nil)
	}
	if downs != 0 {
		t.Errorf("%d members were taken for dead", downs)
	}
}
