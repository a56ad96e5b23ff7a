package fetch

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// Pilots that have one cache fetch a file once, from a storage element or from another
// pilot, however many of them want it at the same time.
func TestPilotsOfOneCacheFetchAFileOnce(t *testing.T) {
	s := newSite(t)
	other := s.join(options{})
	folder := t.TempDir()
	var together []*pilot
	for range 3 {
		together = append(together, s.join(options{folder: folder, shared: true, patient: true}))
	}
	files, contents := []task.File{}, [][]byte{}
	for i := range 8 {
		data := content(uint64(i), 20_000_000)
		if i%2 == 0 {
			files = append(files, other.hold(fmt.Sprint("held-", i), data))
		} else {
			files = append(files, s.store(fmt.Sprint("stored-", i), data, true))
		}
		contents = append(contents, data)
	}
	var group sync.WaitGroup
	for i, file := range files {
		for _, p := range together {
			group.Go(func() {
				if _, err := p.read(t.Context(), file, contents[i]); err != nil {
					t.Errorf("%s: %v", file.LFN, err)
				}
			})
		}
	}
	group.Wait()
	for i, file := range files {
		s.mu.Lock()
		holders := len(s.holders[file.Key()])
		s.mu.Unlock()
		if want := 1 + (i+1)%2; holders != want {
			t.Errorf("%s was announced by %d pilots, want %d", file.LFN, holders, want)
		}
	}
	if reads := s.storageReads(); reads != 4 {
		t.Errorf("the storage element was read %d times for 4 files", reads)
	}
}
