package peer

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// More than the allowed transfers are told to come again, and to whom else
// they can go: those who took the file before.
func TestBusy(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{MaxTransfers: 1, RetryAfter: 300 * time.Millisecond})
	data := content(1, 1000)
	key := n.hold(t, data, "")
	first := v.client("siteA", "https://10.0.0.1:4711")
	d, _ := into(key, 1000)
	if _, err := first.Fetch(t.Context(), d, n.Holder); err != nil {
		t.Fatal(err)
	}
	for n.server.transfers() > 0 {
		<-time.After(time.Millisecond) // the answer is there before its handler has ended
	}
	if !n.server.enter("x") { // as a transfer would
		t.Fatal("no place is free")
	}
	d, _ = into(key, 1000)
	_, err := v.client("siteA", "").Fetch(t.Context(), d, n.Holder)
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("got %v", err)
	}
	want := cache.Holder{Peer: first.config.Own.Key.Peer(), DataURL: "https://10.0.0.1:4711"}
	if busy.RetryAfter != 300*time.Millisecond || len(busy.Others) != 1 || busy.Others[0] != want {
		t.Errorf("got %+v, want %+v in 300 ms", busy, want)
	}
	n.server.leave("x")
	d, _ = into(key, 1000)
	if _, err := v.client("siteA", "").Fetch(t.Context(), d, n.Holder); err != nil {
		t.Errorf("after the transfer: %v", err)
	}
}

func (s *Server) transfers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// ask has a pilot ask for a file; what comes is left to whoever reads the connection.
func (v *vo) ask(own identity.MemberCertificate, n *node, key task.FileKey) net.Conn {
	v.t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(n.DataURL, "https://"), identity.DataClientTLS(own, v.verifier, "siteA", n.Peer, time.Now))
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = connection.Close() })
	if _, err := connection.Write([]byte("GET /v1/files/" + string(key) + " HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		v.t.Fatal(err)
	}
	return connection
}

// One pilot that never reads leaves half of the places to others.
func TestOnePilotTakesHalfOfThePlaces(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{MaxTransfers: 4})
	data := content(1, int(disk.ChunkSize))
	key := n.hold(t, data, "")
	own := v.member("siteA")
	for range 6 {
		connection := v.ask(own, n, key)
		if _, err := io.ReadFull(connection, make([]byte, 15)); err != nil { // 200, or 429
			t.Fatal(err)
		}
	}
	if n.server.transfers() != 2 {
		t.Errorf("%d transfers of four for one pilot", n.server.transfers())
	}
	d, got := into(key, task.Bytes(len(data)))
	if _, err := v.client("siteA", "").Fetch(t.Context(), d, n.Holder); err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("another pilot: %v", err)
	}
}

// A reader that does not read loses its place to others.
func TestSlowReader(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{MaxTransfers: 1, AnswerTime: 300 * time.Millisecond, MinRate: task.GiB})
	key := n.hold(t, content(1, int(disk.ChunkSize)), "")
	v.ask(v.member("siteA"), n, key)
	for n.server.transfers() == 0 {
		<-time.After(time.Millisecond)
	}
	for n.server.transfers() > 0 { // for ever if it is not cut off
		<-time.After(time.Millisecond)
	}
}
