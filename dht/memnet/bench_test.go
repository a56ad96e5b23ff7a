package memnet_test

import (
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
