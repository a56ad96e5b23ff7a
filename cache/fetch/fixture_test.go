package fetch

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeebo/blake3"
	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is several pilots in one process with real HTTPS between them, and a
// storage folder. Locations are one table; messages between pilots keep their
// order per receiver.
type site struct {
	t         testing.TB
	name      task.Site
	authority *identity.Authority
	verifier  *identity.Verifier
	folder    string // of the storage element
	settings  atomic.Pointer[task.SiteSettings]

	mu      sync.Mutex
	holders map[task.FileKey][]Holder
	later   map[task.FileKey][]Holder // announced after the first look
	pilots  []*pilot
	mute    map[task.PeerID]bool // desks that are silent
}

type pilot struct {
	Holder
	site    *site
	cache   *disk.Cache
	client  *peer.Client
	storage *storage.Client
	fetcher *Fetcher
	homes   *HomesClient
	desk    *Desk
	inbox   chan message
	gate    *dying // nil unless options.cutAfter
}

type message struct {
	from task.PeerID
	data []byte
}

func newSite(t testing.TB) *site {
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
	s := &site{
		t: t, name: "siteA", authority: authority, verifier: verifier, folder: t.TempDir(),
		holders: map[task.FileKey][]Holder{}, later: map[task.FileKey][]Holder{}, mute: map[task.PeerID]bool{},
	}
	s.settings.Store(&task.SiteSettings{Site: s.name, SE: storage.FileURL(s.folder), RemoteRead: true})
	return s
}

// Locate implements Locator with the table.
func (s *site) Locate(_ context.Context, keys []task.FileKey, _ []task.PeerID) (map[task.FileKey][]Holder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[task.FileKey][]Holder{}
	for _, key := range keys {
		if holders := s.holders[key]; len(holders) > 0 {
			found[key] = append([]Holder(nil), holders...)
		}
		s.holders[key] = append(s.holders[key], s.later[key]...)
		delete(s.later, key)
	}
	return found, nil
}

func (s *site) announce(key task.FileKey, holder Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[key] = append(s.holders[key], holder)
}

// home is a member that depends on the key only.
func (s *site) home(key task.FileKey) (task.PeerID, bool) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pilots[int(hash.Sum32())%len(s.pilots)].Peer, true
}

func (s *site) send(from task.PeerID) func(task.PeerID, []byte) {
	return func(to task.PeerID, data []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.pilots {
			if p.Peer == to && !(s.mute[to] && forDesk(data)) {
				p.inbox <- message{from, data} // large enough for a test
			}
		}
	}
}

func member(t testing.TB, authority *identity.Authority, name task.Site, n int) identity.MemberCertificate {
	t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	id := task.NewPilotID([]byte{byte(n), 1, 2, 3, 4})
	der, err := authority.IssueMember(identity.Member{Site: name, Pilot: id, NotAfter: time.Now().Add(time.Hour)}, key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return identity.MemberCertificate{DER: der, Key: key}
}

type options struct {
	badCopy  func(task.LostFile)
	folder   string // of an earlier pilot's cache; "" is a new one
	shared   bool   // the folder is that of several pilots
	capacity task.Bytes
	limits   cache.PlannerConfig
	server   peer.ServerConfig
	cutAfter int64 // bytes after which the data server's connections break, for ever
	homes    cache.HomesConfig
	patient  bool         // waits long for others, however busy the machine is
	log      slog.Handler // of the fetcher
}

// join adds a pilot and starts its parts; they end with the test.
func (s *site) join(o options) *pilot {
	s.t.Helper()
	if o.capacity == 0 {
		o.capacity = task.GiB
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	files, err := disk.Open(disk.Config{Dir: cmp.Or(o.folder, s.t.TempDir()), Shared: o.shared, Capacity: o.capacity, Log: quiet})
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	address := listener.Addr().String()
	var gate *dying
	if o.cutAfter > 0 {
		gate = &dying{Listener: listener, left: o.cutAfter}
		listener = gate
	}
	if o.log == nil {
		o.log = quiet.Handler()
	}
	wait := time.Second
	if o.patient {
		wait = time.Minute
	}
	own := member(s.t, s.authority, s.name, len(s.pilots))
	p := &pilot{
		Holder: Holder{Peer: own.Key.Peer(), DataURL: "https://" + address},
		site:   s, gate: gate, cache: files, inbox: make(chan message, 100_000),
	}
	p.client = peer.NewClient(peer.ClientConfig{
		Own: own, Verifier: s.verifier, Site: s.name, DataURL: p.DataURL, Dial: wait, Header: wait, Stall: wait,
	})
	p.storage = storage.NewClient(storage.Options{Retry: storage.Retry{Attempts: 1}})
	p.desk = NewDeskWith(cache.GrantsConfig{}, s.send(p.Peer), quiet)
	if o.patient {
		o.homes.FirstAnswer, o.homes.Silence = wait, wait
	}
	p.homes = newHomesWith(o.homes, p.Holder, s.home, s.send(p.Peer))
	p.fetcher = New(Config{
		Cache: files, Peers: p.client, Storage: p.storage, Locator: s, Homes: p.homes, Self: p.Peer, Site: s.name,
		Settings: func() task.SiteSettings { return *s.settings.Load() },
		Cached:   func(key task.FileKey) { s.announce(key, p.Holder) },
		BadCopy:  o.badCopy,
		Limits:   o.limits, Log: slog.New(o.log),
	})
	o.server.Cache, o.server.Own, o.server.Verifier, o.server.Site, o.server.Log = files, own, s.verifier, s.name, quiet
	o.server.Grace = time.Millisecond
	server := peer.NewServer(o.server)

	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	run := func(ctx context.Context, run func(context.Context) error) {
		group.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("pilot %s: %v", p.Peer, err)
			}
		})
	}
	run(ctx, func(ctx context.Context) error { return server.Run(ctx, listener) })
	run(ctx, p.fetcher.Run)
	run(ctx, p.desk.Run)
	run(ctx, p.deliver)
	s.t.Cleanup(func() {
		cancel()
		group.Wait()
		p.client.Close()
		p.storage.Close()
		if err := files.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.mu.Lock()
	s.pilots = append(s.pilots, p)
	s.mu.Unlock()
	return p
}

// dying breaks all connections once so many bytes have gone out.
type dying struct {
	net.Listener
	mu   sync.Mutex
	left int64
}

type dyingConn struct {
	net.Conn
	from *dying
}

func (d *dying) Accept() (net.Conn, error) {
	connection, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &dyingConn{connection, d}, nil
}

func (c *dyingConn) Write(p []byte) (int, error) {
	c.from.mu.Lock()
	c.from.left -= int64(len(p))
	dead := c.from.left < 0
	c.from.mu.Unlock()
	if dead {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (s *site) joinMany(n int, o options) []*pilot {
	s.t.Helper()
	for range n {
		s.join(o)
	}
	return s.pilots
}

func (p *pilot) deliver(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-p.inbox:
			if forDesk(m.data) {
				p.desk.Handle(m.from, m.data)
			} else {
				p.homes.Handle(m.from, m.data)
			}
		}
	}
}

// content is random bytes that depend on a seed.
func content(seed uint64, size int) []byte {
	data := make([]byte, size)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(data)
	return data
}

// store puts a file to the site's storage folder.
func (s *site) store(name string, data []byte, digestKnown bool) task.File {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	file := task.File{
		LFN: task.LFN("vo:" + name), Size: task.Bytes(len(data)),
		Replicas: []task.Replica{{Site: s.name, URL: storage.FileURL(path)}},
	}
	if digestKnown {
		file.Digest = blake3.Sum256(data)
	}
	return file
}

// hold puts a file into a pilot's cache and announces it; no storage element
// has it.
func (p *pilot) hold(name string, data []byte) task.File {
	p.site.t.Helper()
	file := task.File{LFN: task.LFN("vo:" + name), Size: task.Bytes(len(data)), Digest: blake3.Sum256(data)}
	w, err := p.cache.Create(file.Key(), file.Size)
	if err != nil {
		p.site.t.Fatal(err)
	}
	if _, err := w.WriteAt(data, 0); err != nil {
		p.site.t.Fatal(err)
	}
	if _, err := w.Publish(disk.Expect{Digest: file.Digest}); err != nil {
		p.site.t.Fatal(err)
	}
	p.site.announce(file.Key(), p.Holder)
	return file
}

// read stages one file, checks its bytes and returns its source.
func (p *pilot) read(ctx context.Context, file task.File, want []byte) (task.Source, error) {
	staged, err := p.fetcher.Stage(ctx, []task.File{file})
	if err != nil {
		return 0, err
	}
	defer staged[0].Release()
	got, err := os.ReadFile(staged[0].Path)
	if err != nil {
		return 0, err
	}
	if string(got) != string(want) {
		return 0, fmt.Errorf("%s has %d other bytes than the %d expected", file.LFN, len(got), len(want))
	}
	return staged[0].Source, nil
}

func (s *site) storageReads() (files uint64) {
	for _, p := range s.pilots {
		for _, read := range p.fetcher.SEReads() {
			files += read.Files
		}
	}
	return files
}

// forDesk tells whether a message is a question for the Desk.
func forDesk(data []byte) bool { return len(data) > 0 && data[0] == 'q' }
