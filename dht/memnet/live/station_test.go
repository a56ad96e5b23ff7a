package live

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/identity"
)

// A process that is killed is gone at one moment. What is left of the node sees its
// connections break one after the other, and reaches nobody by those that stand.
func TestWhatIsLeftOfAKilledNodeReachesNobody(t *testing.T) {
	carrier, err := NewCarrier(Memory, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = carrier.Close() }()
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.Decode(string(key.Peer()))
	if err != nil {
		t.Fatal(err)
	}
	dying := &station{carrier: carrier, id: id, ip: invented(1), cables: make(map[*cable]struct{})}
	carrier.stations[id] = dying
	heard := make(chan string, 10)
	var mouths []*stream
	for i := range uint32(3) {
		other := &station{carrier: carrier, ip: invented(i + 2), cables: make(map[*cable]struct{})}
		l := newCable(dying, other, other.origin())
		if !l.open() {
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
		l.near.whenGone(func() {
			for _, mouth := range mouths {
				_, _ = mouth.Write([]byte("they left"))
			}
			<-time.After(50 * time.Millisecond) // to be read, if it can be
		})
	}
	carrier.Kill(key.Peer())
	select {
	case text := <-heard:
		t.Errorf("after its end a pilot said %q", text)
	default:
	}
}
