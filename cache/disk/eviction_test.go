package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

func TestEvictionSparesPinsAndSoleCopies(t *testing.T) {
	var mu sync.Mutex
	var told []task.FileKey
	c := openCache(t, Config{Capacity: 1000, Evicted: func(keys []task.FileKey) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, keys...)
	}})
	pinnedFile, old := put(t, c, "lfn:pinned", someBytes(1, 300)), put(t, c, "lfn:old", someBytes(2, 300))
	output := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(output, someBytes(3, 300), 0o644); err != nil {
		t.Fatal(err)
	}
	sole, err := adopt(t.Context(), c, output, false, made("x"))
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := c.Pin("lfn:pinned")
	if err != nil {
		t.Fatal(err)
	}
	if c.Evict("lfn:pinned") || c.Evict(sole.Key) || c.Evict("lfn:never heard of") {
		t.Error("what must stay was evicted")
	}
	put(t, c, "lfn:new", someBytes(4, 300))
	if want := []task.FileKey{old.Key, "lfn:old"}; !slices.Equal(told, want) {
		t.Errorf("evicted %v, want %v", told, want)
	}
	// new goes next; pinned and sole stay, so 500 do not fit.
	var noSpace *cache.NoSpaceError
	if _, err := c.Create("lfn:large", 500); !errors.As(err, &noSpace) || noSpace.Pinned != 300 || noSpace.Sole != 300 {
		t.Fatalf("got %v", err)
	}
	pinned.Release()
	pinned.Release()
	c.LetGo(sole.Key, made("x"))
	c.LetGo("lfn:never heard of", made("x"))
	if !c.Evict("lfn:pinned") || c.Evict("lfn:pinned") {
		t.Error("what nobody needs was not evicted, or twice")
	}
	w, err := c.Create("lfn:large", 900)
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if usage := c.Usage(); usage.Used != 0 || usage.Evictions != 4 || usage.Sole != 0 {
		t.Errorf("usage %+v", usage)
	}
	if _, err := c.Pin(pinnedFile.Key); !errors.Is(err, ErrNotCached) {
		t.Errorf("pin of an evicted file: %v", err)
	}
	checkFolder(t, c)
}

// TestConcurrentUse lets goroutines publish, pin, drop and adopt a few files
// of few contents in a cache that is too small for all.
func TestConcurrentUse(t *testing.T) {
	var c *Cache
	c = openCache(t, Config{Capacity: 6000, Evicted: func(keys []task.FileKey) {
		c.Lookup(keys[0]) // must not deadlock
	}})
	work := t.TempDir()
	var wait sync.WaitGroup
	for worker := range 6 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for round := range 60 {
				data := someBytes(uint64(random.IntN(8)), 1000)
				key := keyOf(data)
				switch random.IntN(4) {
				case 0:
					path := filepath.Join(work, fmt.Sprintf("%d-%d", worker, round))
					if err := os.WriteFile(path, data, 0o600); err != nil {
						t.Error(err)
					}
					if _, err := adopt(context.Background(), c, path, false); err != nil && !isNoSpace(err) {
						t.Error(err)
					}
				case 1:
					if pinned, err := c.Pin(key); err == nil {
						file, err := pinned.Open()
						if err == nil {
							got, _ := io.ReadAll(file)
							if !bytes.Equal(got, data) {
								t.Error("other content came back")
							}
							file.Close()
						} else if !errors.Is(err, ErrNotCached) {
							t.Error(err)
						}
						pinned.Release()
					} else if !errors.Is(err, ErrNotCached) {
						t.Error(err)
					}
				case 2:
					if random.IntN(4) == 0 {
						if err := c.Drop(key); err != nil && !errors.Is(err, ErrNotCached) {
							t.Error(err)
						}
					}
				default:
					w, err := c.Create(key, 1000)
					if err != nil {
						if !errors.Is(err, ErrExists) && !isNoSpace(err) {
							t.Error(err)
						}
						continue
					}
					if _, err := w.WriteAt(data, 0); err != nil {
						t.Error(err)
					}
					if pinned, err := w.PublishPinned(Expect{}); err != nil {
						t.Error(err)
					} else {
						pinned.Release()
					}
				}
			}
		})
	}
	wait.Wait()
	checkFolder(t, c)
}

func isNoSpace(err error) bool {
	var noSpace *cache.NoSpaceError
	return errors.As(err, &noSpace)
}
