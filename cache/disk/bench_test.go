package disk

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

var benchSizes = []task.Bytes{4 * task.KiB, task.MiB, 64 * task.MiB}

// stamp makes content differ from one iteration to the next, so that each is a
// file of its own.
func stamp(data []byte, i int) { binary.LittleEndian.PutUint64(data, uint64(i)+1) }

func benchEach(b *testing.B, run func(b *testing.B, c *Cache, data []byte)) {
	for _, size := range benchSizes {
		b.Run(size.String(), func(b *testing.B) {
			// Small enough that old files leave, as in a cache that is full.
			c := openCache(b, Config{Capacity: 4 * max(size, 64*task.MiB)})
			data := someBytes(1, int(size))
			b.SetBytes(int64(size))
			b.ResetTimer()
			run(b, c, data)
		})
	}
}

// BenchmarkPlainCopy is what the others are to be compared with: write a file
// and rename it, without reservation, hash or metadata.
func BenchmarkPlainCopy(b *testing.B) {
	benchEach(b, func(b *testing.B, c *Cache, data []byte) {
		dir := b.TempDir()
		for i := range b.N {
			stamp(data, i)
			part, whole := filepath.Join(dir, fmt.Sprint("part", i)), filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(part, data, 0o644); err != nil {
				b.Fatal(err)
			}
			if err := os.Rename(part, whole); err != nil {
				b.Fatal(err)
			}
			if old := filepath.Join(dir, fmt.Sprint(i-4)); i >= 4 {
				if err := os.Remove(old); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkPublish writes, verifies and publishes.
func BenchmarkPublish(b *testing.B) {
	benchEach(b, func(b *testing.B, c *Cache, data []byte) {
		for i := range b.N {
			stamp(data, i)
			w, err := c.Create(task.FileKey(fmt.Sprintf("lfn:%d", i)), task.Bytes(len(data)))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := w.WriteAt(data, 0); err != nil {
				b.Fatal(err)
			}
			if _, err := w.Publish(Expect{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAdopt includes the payload's own writing of its output.
func BenchmarkAdopt(b *testing.B) {
	benchEach(b, func(b *testing.B, c *Cache, data []byte) {
		path := filepath.Join(b.TempDir(), "out")
		for i := range b.N {
			stamp(data, i)
			if err := os.WriteFile(path, data, 0o644); err != nil {
				b.Fatal(err)
			}
			if _, err := adopt(b.Context(), c, path, false); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPin is what each input of a task costs when it is cached.
func BenchmarkPin(b *testing.B) {
	c := openCache(b, Config{})
	data := someBytes(1, 1000)
	put(b, c, keyOf(data), data)
	key := keyOf(data)
	for b.Loop() {
		pinned, err := c.Pin(key)
		if err != nil {
			b.Fatal(err)
		}
		pinned.Release()
	}
}

// BenchmarkOpenAndRead is a peer's read through the cache.
func BenchmarkOpenAndRead(b *testing.B) {
	benchEach(b, func(b *testing.B, c *Cache, data []byte) {
		key := keyOf(data)
		put(b, c, key, data)
		for b.Loop() {
			pinned, err := c.Pin(key)
			if err != nil {
				b.Fatal(err)
			}
			file, err := pinned.Open()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, file); err != nil {
				b.Fatal(err)
			}
			file.Close()
			pinned.Release()
		}
	})
}
