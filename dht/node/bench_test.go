package node

import (
	"testing"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// BenchmarkBroadcast measures a broadcast of 10 kB over 20 nodes of one
// process on loopback, until the last aggregated reply is in.
func BenchmarkBroadcast(b *testing.B) {
	s := newSite(b, "siteA")
	pilots := joinMany(b, s, 20)
	payload := make([]byte, 10_000)
	number := uint64(0)
	round := func() {
		number++
		pilots[0].Broadcast(number, payload, true)
		done := waitFor(b, pilots[0], "the end of a broadcast", func(d dht.Done) bool { return d.N == number })
		if done.Reached != len(pilots) {
			b.Fatalf("reached %d of %d", done.Reached, len(pilots))
		}
	}
	for range 2 * len(pilots) {
		round() // each takes other hops: now all are connected
	}
	for b.Loop() {
		round()
	}
}

// BenchmarkLocate measures one question for 100 files, of which each has one
// holder among 10 nodes.
func BenchmarkLocate(b *testing.B) {
	s := newSite(b, "siteA")
	pilots := joinMany(b, s, 10)
	var files []task.FileKey
	for i := range 100 {
		files = append(files, task.FileKey("lfn:file."+string(rune('a'+i%26))+string(rune('a'+i/26))))
	}
	pilots[1].Announce(files...)
	found := func() bool {
		holders, err := pilots[2].Locate(b.Context(), files, nil)
		return err == nil && len(holders) == len(files)
	}
	eventually(b, "all locations", found)
	for b.Loop() {
		if !found() {
			b.Fatal("locations went missing")
		}
	}
}
