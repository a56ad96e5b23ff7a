package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestHeapMappingsAreThoseNearAnObject(t *testing.T) {
	const maps = `00400000-01ad8000 r-xp 00000000 fe:00 9977864                            /usr/bin/pilotage
03707000-03d39000 rw-p 03307000 fe:00 9977864                            /usr/bin/pilotage
c000000000-d400000000 rw-p 00000000 00:00 0
d400000000-d404000000 ---p 00000000 00:00 0
d404000000-d408000000 rw-p 00000000 00:00 0                              [anon: Go: heap]
7f1e2c000000-7f1e2c021000 rw-p 00000000 00:00 0
not a mapping
`
	want := []mapping{{0xc000000000, 0xd400000000}, {0xd404000000, 0xd408000000}}
	if got := heapMappings(strings.NewReader(maps), 0xd3ffffff00); !slices.Equal(got, want) {
		t.Errorf("found %x, want %x", got, want)
	}
}

// What this program makes lies in what is taken for its heap.
func TestHeapMappingsHoldTheHeap(t *testing.T) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = maps.Close() }()
	large := make([]byte, 256<<20)
	from := addressOf(large)
	found := heapMappings(maps, addressOf(new([64]byte)))
	if !slices.ContainsFunc(found, func(m mapping) bool { return m.start <= from && from+uint64(len(large)) <= m.end }) {
		t.Errorf("%d bytes from %x are in none of %x", len(large), from, found)
	}
	runtime.KeepAlive(large)
}

func TestTakingHugePagesEnds(t *testing.T) {
	takeHugePages()() // goleak looks whether anything is left
	adviseHugePages()
}
