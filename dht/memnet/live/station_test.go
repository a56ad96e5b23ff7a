package live

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// newPlace adds a station of a node that is not there.
func newPlace(t *testing.T, c *Carrier) (s *station, id task.PeerID) {
	t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := peer.Decode(string(key.Peer()))
	if err != nil {
		t.Fatal(err)
	}
	if s, err = newStation(c, decoded, invented(len(c.byIP)+1)); err != nil {
		t.Fatal(err)
	}
	c.stations[decoded], c.byIP[s.ip] = s, s
	return s, key.Peer()
}

// A process that is killed is gone at one moment. What is left of the node sees its
// connections break one after the other, and reaches nobody by those that stand.
func TestWhatIsLeftOfAKilledNodeReachesNobody(t *testing.T) {
	carrier, err := NewCarrier()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := carrier.Close(); err != nil {
			t.Error(err)
		}
	})
	dying, id := newPlace(t, carrier)
	heard := make(chan string, 10)
	var mouths []*stream
	for range 3 {
		other, _ := newPlace(t, carrier)
		l := newCable(dying, other, addressOf(other.ip, overlayPort))
		if !carrier.connect(l) {
			t.Fatal("the cable does not open")
		}
		near, far, err := newStreams(l.near, "")
		if err != nil {
			t.Fatal(err)
		}
		mouths = append(mouths, near)
		go func() {
			text := make([]byte, 10)
			if n, err := far.Read(text); err == nil {
				heard <- string(text[:n])
			}
		}()
	}
	dying.Network().Notify(&network.NotifyBundle{DisconnectedF: func(network.Network, network.Conn) {
		for _, mouth := range mouths {
			_, _ = mouth.Write([]byte("they left"))
		}
		<-time.After(50 * time.Millisecond) // to be read, if it can be
	}})
	carrier.Kill(id)
	select {
	case text := <-heard:
		t.Errorf("after its end a pilot said %q", text)
	default:
	}
}
