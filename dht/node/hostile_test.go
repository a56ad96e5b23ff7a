package node

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// memberHost is a member with a valid certificate and no manners.
func memberHost(t *testing.T, s *site, p *pilot) host.Host {
	t.Helper()
	key := newKey(t)
	h := rawHost(t, s, key, s.issue(key, "p-hostilee", s.name, time.Now().Add(time.Hour)))
	if err := h.Connect(t.Context(), infoOf(t, p)); err != nil {
		t.Fatal(err)
	}
	return h
}

func framed(t *testing.T, message dht.Message) []byte {
	t.Helper()
	frame, err := wire.Append(nil, message)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestGarbageOnEveryProtocol(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 2)
	h := memberHost(t, s, pilots[0])
	noise := make([]byte, 100_000)
	_, _ = rand.Read(noise)
	inputs := map[string][]byte{
		"noise":          noise,
		"a huge length":  binary.AppendUvarint(nil, 1<<40),
		"no message":     {3, 0xff, 0xff, 0xff},
		"half a message": {100, 1, 2},
		"foreign to it":  append(framed(t, dht.Find{N: 1, Files: []task.FileKey{"lfn:a"}}), framed(t, dht.App{Data: []byte("x")})...),
		"a liar's hello": framed(t, dht.Hello{Member: dht.Member{Peer: pilots[1].self.Peer}}),
		"nobody's cast": framed(t, dht.CastReply{
			ID: dht.CastID{Root: "nobody"}, Space: dht.WholeSpace(), Data: [][]byte{[]byte("x")},
		}),
	}
	prefix := protocolPrefix(s.name)
	for _, name := range []string{"/kad", "/round", "/location", "/membership", "/membership/probe"} {
		for what, input := range inputs {
			stream, err := h.NewStream(t.Context(), pilots[0].host.ID(), protocol.ID(prefix+name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = stream.SetDeadline(time.Now().Add(patience))
			_, _ = stream.Write(input) // may fail half way: the pilot has closed it
			_ = stream.CloseWrite()
			if _, err := io.Copy(io.Discard, stream); err != nil && isTimeout(err) {
				t.Errorf("%s on %s: the stream stays open", what, name)
			}
			_ = stream.Reset()
		}
	}
	settled(t, pilots)
	pilots[1].Broadcast(1, nil, true)
	done := waitFor(t, pilots[1], "a broadcast after the garbage", func(d dht.Done) bool { return d.N == 1 })
	if done.Reached != 2 {
		t.Errorf("reached %d of 2", done.Reached)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

func TestAHungPeerHoldsNobodyBack(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 3)
	master := pilots[0]
	h := memberHost(t, s, master)
	h.SetStreamHandler(roundChannel.protocol(s.name), func(network.Stream) {}) // never reads
	hung := task.PeerID(h.ID().String())
	block := make([]byte, 256<<10)
	_, _ = rand.Read(block)
	for i := range 400 { // 100 MiB: more than windows, sockets and queue hold
		master.Send(hung, block)
		if i%20 == 0 {
			master.Send(pilots[1].self.Peer, fmt.Appendf(nil, "%d", i))
		}
	}
	pilots[1].await(t, "all 20 messages beside the hung peer", func() bool {
		return len(pilots[1].inbound[master.self.Peer]) == 20
	})
	eventually(t, "the hung peer to be hung up on", func() bool {
		return master.host.Network().Connectedness(h.ID()) != network.Connected
	})
	if _, alive := master.Member(pilots[2].self.Peer); !alive {
		t.Error("another member was lost on the way")
	}
}

func TestBytesOfManyMebibytesArrive(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 2)
	list := bytes.Repeat([]byte("one task after the other; "), 400_000) // 10 MB before compression
	pilots[0].Send(pilots[1].self.Peer, list)
	pilots[1].await(t, "10 MB", func() bool { return len(pilots[1].inbound[pilots[0].self.Peer]) == 1 })
	if got := pilots[1].inbound[pilots[0].self.Peer][0]; got != string(list) {
		t.Errorf("%d bytes arrived, %d were sent, or they differ", len(got), len(list))
	}
}
