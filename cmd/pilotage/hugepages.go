package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hugePagesSetting says which programs the kernel gives huge pages.
	hugePagesSetting = "/sys/kernel/mm/transparent_hugepage/enabled"
	// hugePagesEvery is how often a growing heap is looked at.
	hugePagesEvery = time.Second
	// heapSpan is how far from an object of the heap its mappings are looked for.
	heapSpan = 64 << 30
)

// takeHugePages asks the kernel for huge pages under the heap, until stop is
// called, if it gives them on request: with millions of records a third of the
// time goes into finding pages. Without them the program is slower, nothing else.
func takeHugePages() (stop func()) {
	setting, err := os.ReadFile(hugePagesSetting)
	if err != nil || !strings.Contains(string(setting), "[madvise]") {
		return func() {}
	}
	ended := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
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
	})
	return func() {
		close(ended)
		asking.Wait()
	}
}

func adviseHugePages() {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	for _, mapping := range heapMappings(maps, addressOf(new([64]byte))) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(mapping.start), uintptr(mapping.end-mapping.start), unix.MADV_HUGEPAGE)
	}
}

func addressOf(object any) uint64 { return uint64(reflect.ValueOf(object).Pointer()) }

type mapping struct{ start, end uint64 }

// heapMappings finds the mappings of a heap in the form of /proc/PID/maps: those
// that may be written and are not far from one of its objects.
func heapMappings(maps io.Reader, object uint64) (found []mapping) {
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var m mapping
		var rights string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &m.start, &m.end, &rights); n < 3 || rights != "rw-p" {
			continue
		}
		if m.start <= object+heapSpan && object <= m.end+heapSpan {
			found = append(found, m)
		}
	}
	return found
}
