package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"
)

// hugePagesEvery is how often a growing heap is looked at.
const hugePagesEvery = time.Second

// takeHugePages asks the kernel for huge pages under the heap until stop is
// called, where it gives them on request only ("madvise"): with millions of
// records a third of the time goes into finding pages. Where it cannot be had, the
// program is slower and nothing else.
func takeHugePages() (stop func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(hugePagesEvery)
		defer tick.Stop()
		for {
			adviseHugePages()
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// heapSpan is how far from any of its objects a heap reaches at most.
const heapSpan = 64 << 30

// adviseHugePages returns how many bytes of heap it has asked for.
func adviseHugePages() (asked uint64) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0
	}
	defer func() { _ = maps.Close() }()
	object := uint64(reflect.ValueOf(new([64]byte)).Pointer())
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var start, end uint64
		var rights string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &start, &end, &rights)
		if n < 3 || rights != "rw-p" || max(start, object)-min(start, object) > heapSpan {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_HUGEPAGE); errno == 0 {
			asked += end - start
		}
	}
	return asked
}
