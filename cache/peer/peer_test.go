package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"
	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vo is an authority with its members.
type vo struct {
	t         testing.TB
	authority *identity.Authority
	verifier  *identity.Verifier
	members   byte
}

func newVO(t testing.TB) *vo {
	t.Helper()
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, _ := authority.PEM()
	verifier, err := identity.NewVerifier(pem)
	if err != nil {
		t.Fatal(err)
	}
	return &vo{t: t, authority: authority, verifier: verifier}
}

func (v *vo) member(site task.Site) identity.MemberCertificate {
	v.t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		v.t.Fatal(err)
	}
	v.members++
	member := identity.Member{Site: site, Pilot: task.NewPilotID([]byte{v.members, 0, 0, 0, 0}), NotAfter: time.Now().Add(time.Hour)}
	der, err := v.authority.IssueMember(member, key.Public(), time.Now())
	if err != nil {
		v.t.Fatal(err)
	}
	return identity.MemberCertificate{DER: der, Key: key}
}

func (v *vo) client(site task.Site, dataURL string) *Client {
	c := NewClient(ClientConfig{Own: v.member(site), Verifier: v.verifier, Site: site, DataURL: dataURL, Dial: 2 * time.Second, Stall: 2 * time.Second})
	v.t.Cleanup(c.Close)
	return c
}

// node is a serving pilot.
type node struct {
	cache.Holder
	cache  *disk.Cache
	server *Server
	stop   func() // and wait
}

func openCache(t testing.TB) *disk.Cache {
	t.Helper()
	files, err := disk.Open(disk.Config{Dir: t.TempDir(), Capacity: task.GiB})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	return files
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// serve starts a pilot of siteA.
func (v *vo) serve(config ServerConfig) *node {
	v.t.Helper()
	listener := listen(v.t)
	config.Own = v.member("siteA")
	config.Cache, config.Verifier, config.Site, config.Log = openCache(v.t), v.verifier, "siteA", quiet
	config.Grace = time.Millisecond
	n := &node{
		Holder: cache.Holder{Peer: config.Own.Key.Peer(), DataURL: "https://" + listener.Addr().String()},
		cache:  config.Cache, server: NewServer(config),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := n.server.Run(ctx, listener); err != nil {
			v.t.Error(err)
		}
	})
	n.stop = func() {
		cancel()
		group.Wait()
	}
	v.t.Cleanup(n.stop)
	return n
}

func content(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// hold puts data into the node's cache, by name if one is given.
func (n *node) hold(t testing.TB, data []byte, name task.LFN) task.FileKey {
	t.Helper()
	key := task.KeyOf(name, task.Digest{})
	if name == "" {
		key = task.KeyOf("", blake3.Sum256(data))
	}
	w, err := n.cache.Create(key, task.Bytes(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(disk.Expect{}); err != nil {
		t.Fatal(err)
	}
	return key
}

// buffer is a file in memory.
type buffer struct {
	mu    sync.Mutex
	data  []byte
	wrote int
}

func (b *buffer) WriteAt(p []byte, offset int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrote += len(p)
	return copy(b.data[offset:], p), nil
}

func into(key task.FileKey, size task.Bytes) (*Download, *buffer) {
	b := &buffer{}
	return &Download{Key: key, Size: size, Create: func(size task.Bytes) (io.WriterAt, error) {
		b.data = make([]byte, size)
		return b, nil
	}}, b
}

func TestFetchOfAllSizes(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	c := v.client("siteA", "")
	const chunk = int(disk.ChunkSize)
	for i, size := range []int{0, 1, 4096, chunk, chunk + 1} {
		data := content(byte(i), size)
		key := n.hold(t, data, "")
		for _, known := range []task.Bytes{task.Bytes(size), -1} {
			if size == chunk && known < 0 {
				continue // as one byte more, at the same cost
			}
			d, got := into(key, known)
			failed, err := c.Fetch(t.Context(), d, n.Holder)
			if err != nil || len(failed) > 0 {
				t.Fatalf("%d bytes: %v, %v", size, failed, err)
			}
			if !bytes.Equal(got.data, data) || got.wrote != size || d.Verified() != task.Bytes(size) || size > 0 && d.MainSource() != n.Peer {
				t.Errorf("%d bytes: %d others came, %d verified, mostly from %s", size, got.wrote, d.Verified(), d.MainSource())
			}
		}
	}
}

func TestFetchByName(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	data := content(1, 10_000)
	key := n.hold(t, data, "vo:genomes/hg38=a+b@c.fa")
	d, got := into(key, -1)
	if _, err := v.client("siteA", "").Fetch(t.Context(), d, n.Holder); err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("%v", err)
	}
}

func TestFetchErrors(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	key := n.hold(t, content(1, 100), "")
	other := task.KeyOf("", blake3.Sum256([]byte("other")))
	closed := listen(t)
	nobody := cache.Holder{Peer: n.Peer, DataURL: "https://" + closed.Addr().String()}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	c := v.client("siteA", "")
	for name, test := range map[string]struct {
		client *Client
		key    task.FileKey
		size   task.Bytes
		from   cache.Holder
		want   error
	}{
		"not held":             {c, other, 100, n.Holder, ErrNotHeld},
		"not held, large":      {c, other, -1, n.Holder, ErrNotHeld},
		"nobody there":         {c, key, 100, nobody, ErrUnreachable},
		"another peer answers": {c, key, 100, cache.Holder{Peer: v.member("siteA").Key.Peer(), DataURL: n.DataURL}, ErrUnreachable},
		"other site":           {v.client("siteB", ""), key, 100, n.Holder, ErrUnreachable},
		"other VO":             {newVO(t).client("siteA", ""), key, 100, n.Holder, ErrUnreachable},
		"no URL":               {c, key, 100, cache.Holder{Peer: n.Peer, DataURL: "http://x:1"}, ErrUnreachable},
		"local":                {c, key, 100, n.Holder, full},
	} {
		t.Run(name, func(t *testing.T) {
			d, got := into(test.key, test.size)
			if errors.Is(test.want, full) {
				d.Create = func(task.Bytes) (io.WriterAt, error) { return nil, full }
			}
			failed, err := test.client.Fetch(t.Context(), d, test.from)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			var local *WriteError
			if isLocal := errors.As(err, &local); isLocal != errors.Is(test.want, full) || !isLocal && (len(failed) != 1 || failed[0].Peer != test.from.Peer) {
				t.Errorf("failed sources %v of %v", failed, err)
			}
			if got.wrote > 0 {
				t.Errorf("%d bytes came", got.wrote)
			}
		})
	}
}

// A stranger without certificate, and one that is denied after its handshake,
// get nothing.
func TestStrangersGetNothing(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	key := n.hold(t, content(1, 100), "")
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer stranger.CloseIdleConnections()
	if response, err := stranger.Get(targetOf(n.DataURL, key)); err == nil {
		_ = response.Body.Close()
		t.Errorf("a stranger is answered %s", response.Status)
	}
	// Silent connections of one host displace one another.
	var first net.Conn
	for range connections.PerParty + 1 {
		silent, err := net.Dial("tcp", strings.TrimPrefix(n.DataURL, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		_ = silent.SetReadDeadline(time.Now().Add(time.Second))
		if first == nil {
			first = silent
		}
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of too many silent connections stands (%v)", err)
	}
	c := v.client("siteA", "")
	d, _ := into(key, 100)
	if _, err := c.Fetch(t.Context(), d, n.Holder); err != nil {
		t.Fatal(err)
	}
	v.verifier.Deny([]task.PeerID{c.config.Own.Key.Peer()})
	d, got := into(key, 100)
	if _, err := c.Fetch(t.Context(), d, n.Holder); !errors.Is(err, ErrUnreachable) || got.wrote > 0 {
		t.Errorf("a denied member gets %d bytes over its old connection, %v", got.wrote, err)
	}
}

func TestServerRefusesWhatIsNoRead(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	own := v.member("siteA")
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: identity.DataClientTLS(own, v.verifier, "siteA", n.Peer, time.Now),
	}}
	defer client.CloseIdleConnections()
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPut, "/v1/files/lfn:a", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/v1/files/lfn:a", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/lfn:a/b", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/lfn:..%2F..%2Fetc%2Fpasswd", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/..%2F..%2Fetc%2Fpasswd", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/lfn:a%00", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/lfn:a", http.StatusNotFound},
		{http.MethodGet, "/v1/files/lfn:a/manifest", http.StatusNotFound},
	} {
		request, err := http.NewRequest(test.method, n.DataURL+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s %s: %s, want %d", test.method, test.path, response.Status, test.want)
		}
	}
}

func TestDamagedFileIsNotServed(t *testing.T) {
	v := newVO(t)
	n := v.serve(ServerConfig{})
	data := content(1, 100)
	key := n.hold(t, data, "")
	pinned, err := n.cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, pinned.Path)
	pinned.Release()
	d, _ := into(key, 100)
	if _, err := v.client("siteA", "").Fetch(t.Context(), d, n.Holder); !errors.Is(err, ErrNotHeld) {
		t.Errorf("got %v", err)
	}
}
