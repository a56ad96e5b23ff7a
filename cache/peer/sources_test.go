package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// damage changes a cached file and its time, as a disk or a payload would.
func damage(t testing.TB, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("damage"), 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// rot changes a byte of a cached file in a way that only its content shows.
func rot(t testing.TB, n *node, key task.FileKey, offset int64) {
	t.Helper()
	pinned, err := n.cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	before, err := os.Stat(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pinned.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(pinned.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var one [1]byte
	if _, err := file.ReadAt(one[:], offset); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 1
	if _, err := file.WriteAt(one[:], offset); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(pinned.Path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// A wrong chunk is not counted; the chunks before it stay, the rest comes from
// another peer.
func TestCorruptPeer(t *testing.T) {
	v := newVO(t)
	bad, good := v.serve(ServerConfig{}), v.serve(ServerConfig{})
	data := content(1, int(disk.ChunkSize)+100_000)
	key := bad.hold(t, data, "")
	good.hold(t, data, "")
	rot(t, bad, key, int64(disk.ChunkSize)+5)
	c := v.client("siteA", "")
	d, got := into(key, task.Bytes(len(data)))
	_, err := c.Fetch(t.Context(), d, bad.Holder)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Peer != bad.Peer || corrupt.Key != key {
		t.Fatalf("got %v", err)
	}
	if d.Verified() != disk.ChunkSize {
		t.Errorf("%s verified, want the first chunk", d.Verified())
	}
	before := got.wrote
	if _, err := c.Fetch(t.Context(), d, good.Holder); err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("from the other peer: %v", err)
	}
	if again := got.wrote - before; again != 100_000 {
		t.Errorf("%d bytes came again, want those of the last chunk", again)
	}
}

// A small file is one request; a wrong one is not counted.
func TestCorruptSmallFile(t *testing.T) {
	v := newVO(t)
	bad := v.serve(ServerConfig{})
	data := content(1, 1000)
	key := bad.hold(t, data, "")
	rot(t, bad, key, 999)
	d, _ := into(key, 1000)
	_, err := v.client("siteA", "").Fetch(t.Context(), d, bad.Holder)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || d.Verified() != 0 {
		t.Errorf("%s verified, %v", d.Verified(), err)
	}
}

// liar serves one handler as a member of siteA.
func (v *vo) liar(handler http.HandlerFunc) cache.Holder {
	v.t.Helper()
	own := v.member("siteA")
	listener := listen(v.t)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second, ErrorLog: nil}
	config := identity.DataServerTLS(own, v.verifier, "siteA", time.Now)
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(tls.NewListener(listener, config)) })
	v.t.Cleanup(func() {
		_ = server.Close()
		group.Wait()
	})
	return cache.Holder{Peer: own.Key.Peer(), DataURL: "https://" + listener.Addr().String()}
}

// What a hostile peer may answer: each an error of its own, no crash.
func TestHostileAnswers(t *testing.T) {
	v := newVO(t)
	data := content(1, 1000)
	key := task.KeyOf("", blake3.Sum256(data))
	text := task.Digest(blake3.Sum256(data)).String()
	zeros := strings.Repeat("0", 64)
	header := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(headerManifest, text)
			_, _ = w.Write(data)
		}
	}
	for name, test := range map[string]struct {
		size    task.Bytes
		handler http.HandlerFunc
		corrupt bool
	}{
		"no manifest":        {1000, header(""), true},
		"no JSON":            {1000, header("{"), true},
		"negative size":      {1000, header(`{"size":-1,"chunk":16777216}`), true},
		"tiny chunks":        {1000, header(`{"size":1000,"chunk":1}`), true},
		"other size":         {1000, header(`{"size":999,"chunk":16777216,"chunks":["` + text + `"],"digest":"` + text + `"}`), true},
		"other digest":       {1000, header(`{"size":1000,"chunk":16777216,"chunks":["` + zeros + `"],"digest":"` + zeros + `"}`), true},
		"manifest of others": {-1, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"size":9e99}`)) }, true},
		"endless manifest": {-1, func(w http.ResponseWriter, _ *http.Request) {
			for range 6 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
		}, true},
		"redirect":     {1000, http.RedirectHandler("https://127.0.0.1:1/", http.StatusFound).ServeHTTP, false},
		"server error": {1000, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false},
		"breaks off": {1000, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(headerManifest, `{"size":1000,"chunk":16777216,"chunks":["`+text+`"],"digest":"`+text+`"}`)
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(data[:500])
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			from := v.liar(test.handler)
			d, _ := into(key, test.size)
			_, err := v.client("siteA", "").Fetch(t.Context(), d, from)
			var corrupt *CorruptError
			if err == nil || errors.As(err, &corrupt) != test.corrupt || !test.corrupt && !errors.Is(err, ErrUnreachable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A peer that stops sending is left after the stall time; one that dies in the
// middle leaves what was verified.
func TestStallAndDeath(t *testing.T) {
	v := newVO(t)
	good := v.serve(ServerConfig{})
	data := content(1, int(disk.ChunkSize)+1000)
	key := good.hold(t, data, "")
	pinned, err := good.cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := encodeManifest(pinned.Entry)
	pinned.Release()
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	for name, after := range map[string]func(w http.ResponseWriter){
		"stalls": func(http.ResponseWriter) { <-release },
		"dies":   func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"drips": func(w http.ResponseWriter) {
			for _, b := range data[disk.ChunkSize+10:] {
				_, _ = w.Write([]byte{b})
				if http.NewResponseController(w).Flush() != nil {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := v.liar(func(w http.ResponseWriter, r *http.Request) {
				if _, isManifest, _ := parseTarget(r.URL.EscapedPath()); isManifest {
					_, _ = w.Write(manifest)
					return
				}
				w.Header().Set("Content-Range", "bytes 0-16778215/16778216")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(data[:disk.ChunkSize+10])
				_ = http.NewResponseController(w).Flush()
				after(w)
			})
			c := v.client("siteA", "")
			c.config.Stall = 1500 * time.Millisecond
			d, got := into(key, task.Bytes(len(data)))
			if _, err := c.Fetch(t.Context(), d, from); !errors.Is(err, ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			if d.Verified() != disk.ChunkSize {
				t.Errorf("%s verified, want the first chunk", d.Verified())
			}
			if _, err := c.Fetch(t.Context(), d, good.Holder); err != nil || !bytes.Equal(got.data, data) {
				t.Errorf("resumed elsewhere: %v", err)
			}
		})
	}
	close(release)
}

// A peer that always sends something, but less than it could, is left as well.
func TestSlowPeer(t *testing.T) {
	v := newVO(t)
	data := content(1, int(disk.ChunkSize))
	good := v.serve(ServerConfig{})
	key := good.hold(t, data, "")
	from := v.liar(func(w http.ResponseWriter, _ *http.Request) {
		pinned, err := good.cache.Pin(key)
		if err != nil {
			return
		}
		defer pinned.Release()
		manifest, _ := encodeManifest(pinned.Entry)
		w.Header().Set(headerManifest, string(manifest))
		for part := range slices.Chunk(data, 64<<10) { // 12.8 s of them
			_, _ = w.Write(part)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	})
	c := v.client("siteA", "")
	c.config.Patience, c.config.MinRate = 200*time.Millisecond, 100*task.MiB
	d, got := into(key, task.Bytes(len(data)))
	if _, err := c.Fetch(t.Context(), d, from); !errors.Is(err, errSlow) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	if _, err := v.client("siteA", "").Fetch(t.Context(), d, good.Holder); err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("elsewhere: %v", err)
	}
}

// Where the size is not known, one for which there is no room may be made up: the fault of
// whoever tells it, not of this pilot.
func TestAPeerThatMakesUpASize(t *testing.T) {
	v := newVO(t)
	good := v.serve(ServerConfig{})
	data := content(1, 1000)
	key := good.hold(t, data, "made")
	from := v.liar(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(manifestText{Size: 1000 * disk.ChunkSize, Chunk: disk.ChunkSize, Chunks: make([]task.Digest, 1000)})
	})
	c := v.client("siteA", "")
	d, got := into(task.KeyOf("made", task.Digest{}), -1)
	room := d.Create
	d.Create = func(size task.Bytes) (io.WriterAt, error) {
		if size > 10*disk.ChunkSize {
			return nil, &cache.NoSpaceError{}
		}
		return room(size)
	}
	var corrupt *CorruptError
	if _, err := c.Fetch(t.Context(), d, from); !errors.As(err, &corrupt) || corrupt.Peer != from.Peer {
		t.Errorf("got %v", err)
	}
	if _, err := c.Fetch(t.Context(), d, good.Holder); err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("elsewhere (%s): %v", key, err)
	}
}

// Chunks come from several sources; one that fails on the way is made up for.
func TestSeveralSources(t *testing.T) {
	v := newVO(t)
	nodes := []*node{v.serve(ServerConfig{}), v.serve(ServerConfig{}), v.serve(ServerConfig{})}
	data := content(1, 2*int(disk.ChunkSize)+1)
	var key task.FileKey
	for _, n := range nodes {
		key = n.hold(t, data, "")
	}
	rot(t, nodes[1], key, int64(disk.ChunkSize)+1)
	sources := []cache.Holder{nodes[0].Holder, nodes[1].Holder, nodes[2].Holder, {Peer: nodes[0].Peer, DataURL: "https://127.0.0.1:1"}}
	d, got := into(key, task.Bytes(len(data)))
	var arrived atomic.Int64
	d.Progress = func(bytes task.Bytes) { arrived.Add(int64(bytes)) }
	failed, err := v.client("siteA", "").Fetch(t.Context(), d, sources...)
	if err != nil || !bytes.Equal(got.data, data) {
		t.Fatal(err)
	}
	if arrived.Load() != int64(got.wrote) || got.wrote < len(data) {
		t.Errorf("%d bytes shown, %d written of %d", arrived.Load(), got.wrote, len(data))
	}
	for _, one := range failed { // the rotten chunk may have come from another source
		var corrupt *CorruptError
		if errors.As(one, &corrupt) && one.Peer != nodes[1].Peer {
			t.Errorf("%v", one)
		}
	}
	if len(failed) == 0 {
		t.Error("the source that nobody can reach is not named")
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	v := newVO(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	from := v.liar(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	})
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		<-arrived
		cancel(why)
	}()
	d, _ := into("lfn:a", 10)
	if _, err := v.client("siteA", "").Fetch(ctx, d, from); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// Connections are kept: many small files take one handshake.
func TestConnectionsAreReused(t *testing.T) {
	v := newVO(t)
	own := v.member("siteA")
	inner := listen(t)
	counting := &countingListener{Listener: inner}
	files := openCache(t)
	server := NewServer(ServerConfig{Cache: files, Own: own, Verifier: v.verifier, Site: "siteA", Log: quiet, Grace: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := server.Run(ctx, counting); err != nil {
			t.Error(err)
		}
	})
	defer group.Wait()
	defer cancel()
	n := &node{Holder: cache.Holder{Peer: own.Key.Peer(), DataURL: "https://" + inner.Addr().String()}, cache: files}
	c := v.client("siteA", "")
	for i := range 100 {
		data := content(byte(i), 100+i)
		key := n.hold(t, data, "")
		d, got := into(key, task.Bytes(len(data)))
		if _, err := c.Fetch(t.Context(), d, n.Holder); err != nil || !bytes.Equal(got.data, data) {
			t.Fatal(err)
		}
		d, _ = into(task.KeyOf("none", task.Digest{}), 100)
		if _, err := c.Fetch(t.Context(), d, n.Holder); !errors.Is(err, ErrNotHeld) {
			t.Fatal(err)
		}
	}
	if count := counting.accepted.Load(); count != 1 {
		t.Errorf("%d connections for 200 requests one after the other", count)
	}
}

type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return connection, err
}
