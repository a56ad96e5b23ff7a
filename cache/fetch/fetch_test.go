package fetch

import (
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// One storage element read per file and site while somebody
// is already reading it.
func TestEightPilotsReadTheStorageOnce(t *testing.T) {
	for name, digestKnown := range map[string]bool{"by digest": true, "by name": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			pilots := s.joinMany(8, options{patient: true})
			data := content(1, 3<<20)
			file := s.store("input", data, digestKnown)
			var group sync.WaitGroup
			sources := make([]task.Source, len(pilots))
			for i, p := range pilots {
				group.Go(func() {
					var err error
					if sources[i], err = p.read(t.Context(), file, data); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			count := map[task.Source]int{}
			for _, source := range sources {
				count[source]++
			}
			if count[task.SourceSE] != 1 || count[task.SourcePeer] != 7 {
				t.Errorf("sources %v, want one from the storage element and 7 from peers", count)
			}
			if reads := s.storageReads(); reads != 1 {
				t.Errorf("%d reads from the storage element, want 1", reads)
			}
			if source, err := pilots[0].read(t.Context(), file, data); err != nil || source != task.SourceLocal {
				t.Errorf("read again from %s, %v", source, err)
			}
		})
	}
}
