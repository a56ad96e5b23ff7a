package memnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

func large(b *testing.B, size int) *memnet.Net {
	b.Helper()
	net := memnet.New(1, dht.Config{})
	for range size {
		net.Join()
	}
	settled := func() bool { return len(net.Node(0).Overlay.Members()) == size }
	if !net.Run(10*time.Second, settled) {
		b.Fatal("the master does not know everybody")
	}
	return net
}

// All 1,500 join at the same moment.
func BenchmarkJoin1500(b *testing.B) {
	for b.Loop() {
		large(b, 1500)
	}
}

// One second of 1,500 members that do nothing: beats and, every five seconds,
// a roll call.
func BenchmarkIdleSecondOf1500(b *testing.B) {
	net := large(b, 1500)
	net.Run(10*time.Second, nil)
	sent := net.Sent
	for b.Loop() {
		net.Run(time.Second, nil)
	}
	b.ReportMetric(float64(net.Sent-sent)/float64(b.N)/1500, "messages/member")
}

// A file of a site of 750: one member announces it, another finds it and announces that
// it has it, too. Connections are pairs of members of which none has said anything to the
// other before.
func BenchmarkFileAmong750(b *testing.B) {
	const size = 750
	net := large(b, size)
	net.Run(time.Minute, nil)
	met := make(map[[2]task.PeerID]bool)
	messages, connections, counts := 0, 0, false
	net.OnAction = func(node *memnet.Node, action dht.Action) {
		letter, ok := action.(dht.Send)
		if !ok {
			return
		}
		pair := [2]task.PeerID{min(node.Member.Peer, letter.To), max(node.Member.Peer, letter.To)}
		switch letter.Message.(type) {
		case dht.Put, dht.PutAck, dht.Find, dht.Found:
			messages++
			if counts && !met[pair] {
				connections++
			}
		}
		met[pair] = true
	}
	net.Run(10*time.Second, nil)
	messages, counts = 0, true
	files := 0
	for b.Loop() {
		for i := range size {
			file := task.FileKey(fmt.Sprintf("lfn:/data/%d", files))
			net.Do(net.Node(i), dht.Announce{Files: []task.FileKey{file}})
			net.Run(20*time.Millisecond, nil)
			reader := net.Node((i + 1 + files%7*100) % size)
			net.Do(reader, dht.Locate{N: uint64(files), Files: []task.FileKey{file}})
			net.Run(20*time.Millisecond, nil)
			net.Do(reader, dht.Announce{Files: []task.FileKey{file}})
			net.Run(20*time.Millisecond, nil)
			files++
		}
	}
	b.ReportMetric(float64(messages)/float64(files), "messages/file")
	b.ReportMetric(float64(connections)/float64(files), "connections/file")
}

// 10,000 held files cost an idle holder nothing.
func BenchmarkIdleSecondOf10000Files(b *testing.B) {
	net := large(b, 100)
	var files []task.FileKey
	for i := range 10_000 {
		files = append(files, task.FileKey(string(rune('a'+i%26))+time.Duration(i).String()))
	}
	net.Do(net.Node(7), dht.Announce{Files: files})
	net.Run(10*time.Second, nil)
	for b.Loop() {
		net.Run(time.Second, nil)
	}
}
