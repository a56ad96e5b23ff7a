package main

import (
	"os"
	"runtime"
	"testing"
)

// A heap of several arenas is asked for whole, where the kernel has huge pages.
func TestHugePagesAreAskedForTheHeap(t *testing.T) {
	heap := make([]byte, 256<<20)
	for at := range heap {
		heap[at] = 1
	}
	want := uint64(len(heap))
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		want = 0
	}
	if asked := adviseHugePages(); asked < want || want == 0 && asked > 0 {
		t.Errorf("huge pages asked for %d bytes of a heap of at least %d", asked, want)
	}
	runtime.KeepAlive(heap)
}
