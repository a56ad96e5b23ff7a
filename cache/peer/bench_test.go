package peer

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// BenchmarkStream moves one file of 64 MiB from a cache into a file: by Fetch
// over HTTPS with every chunk verified, and, as the baseline of the same run,
// by plain HTTP and io.Copy without any verification. Loopback; say which
// congestion control was set beside the figures.
func BenchmarkStream(b *testing.B) {
	v := newVO(b)
	n := v.serve(ServerConfig{})
	data := content(1, 64<<20)
	key := n.hold(b, data, "")
	pinned, err := n.cache.Pin(key)
	if err != nil {
		b.Fatal(err)
	}
	defer pinned.Release()
	target, err := os.Create(b.TempDir() + "/target")
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()

	b.Run("peer over HTTPS, verified", func(b *testing.B) {
		c := v.client("siteA", "")
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			d := &Download{Key: key, Size: task.Bytes(len(data)), Create: func(task.Bytes) (io.WriterAt, error) { return target, nil }}
			if _, err := c.Fetch(b.Context(), d, n.Holder); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain HTTP, not verified", func(b *testing.B) {
		url, stop := servePlain(b, pinned.Path)
		defer stop()
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			response, err := client.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := target.Seek(0, io.SeekStart); err != nil {
				b.Fatal(err)
			}
			if written, err := io.Copy(target, response.Body); err != nil || written != int64(len(data)) {
				b.Fatal(written, err)
			}
			_ = response.Body.Close()
		}
	})
}

// BenchmarkSmallFiles fetches files of 4 KiB one after the other over a kept
// connection, with a plain HTTP GET as the baseline.
func BenchmarkSmallFiles(b *testing.B) {
	v := newVO(b)
	n := v.serve(ServerConfig{})
	key := n.hold(b, content(1, 4096), "")
	pinned, err := n.cache.Pin(key)
	if err != nil {
		b.Fatal(err)
	}
	defer pinned.Release()
	b.Run("peer over HTTPS, verified", func(b *testing.B) {
		c := v.client("siteA", "")
		for b.Loop() {
			d, _ := into(key, 4096)
			if _, err := c.Fetch(b.Context(), d, n.Holder); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain HTTP, not verified", func(b *testing.B) {
		url, stop := servePlain(b, pinned.Path)
		defer stop()
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		for b.Loop() {
			response, err := client.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				b.Fatal(err)
			}
			_ = response.Body.Close()
		}
	})
}

func servePlain(b *testing.B, path string) (url string, stop func()) {
	b.Helper()
	listener := listen(b)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, err := os.Open(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer file.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, file)
	})}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String() + "/", func() {
		_ = server.Shutdown(context.WithoutCancel(b.Context()))
		group.Wait()
	}
}
