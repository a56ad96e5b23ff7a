package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// site stands for the queue and everything that it knows of one site.
type site struct {
	t         testing.TB
	name      task.Site
	authority *identity.Authority
	config    dht.Config

	mutex  sync.Mutex
	epoch  uint64
	master dht.Member
	pilots []*pilot
}

// pilot is one node with what its hooks saw.
type pilot struct {
	*Node
	self dht.Member
	key  *identity.PilotKey
	ran  chan error
	stop context.CancelFunc

	mutex   sync.Mutex
	inbound map[task.PeerID][]string
	changed *sync.Cond
	log     []any // every action that a hook was called with
}

// patient are timings for a loaded machine: what only bounds the silence of
// the dead may take long, for in these tests the dead are seen by their broken
// connections.
func patient() dht.Config {
	return dht.Config{
		Beat: 200 * time.Millisecond, PingTimeout: 3 * time.Second,
		Members:   dht.MembershipConfig{Suspicion: time.Second},
		Election:  dht.ElectionConfig{Silence: 4 * time.Second, Nudge: 3 * time.Second, ClaimEvery: 50 * time.Millisecond},
		Broadcast: dht.BroadcastConfig{HopAck: 2 * time.Second, ReplyHop: 3 * time.Second},
	}
}

func newSite(t testing.TB, name task.Site) *site {
	t.Helper()
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, name: name, authority: authority, config: patient()}
}

func (s *site) verifier() *identity.Verifier {
	s.t.Helper()
	certificate, _ := s.authority.PEM()
	verifier, err := identity.NewVerifier(certificate)
	if err != nil {
		s.t.Fatal(err)
	}
	return verifier
}

func newKey(t testing.TB) *identity.PilotKey {
	t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *site) issue(key *identity.PilotKey, id task.PilotID, site task.Site, end time.Time) []byte {
	s.t.Helper()
	der, err := s.authority.IssueMember(identity.Member{Site: site, Pilot: id, NotAfter: end}, key.Public(), time.Now().Add(-2*time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	return der
}

func (s *site) listen() *pilot {
	s.t.Helper()
	key := newKey(s.t)
	n, err := Listen(Config{
		Site: s.name, Key: key, Verifier: s.verifier(), Advertise: loopback, Overlay: s.config,
		Logger: testLogger(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.mutex.Lock()
	id := task.PilotID("p-" + strings.Repeat(string(rune('a'+len(s.pilots))), 8))
	s.mutex.Unlock()
	p := &pilot{
		Node: n, key: key, ran: make(chan error, 1), inbound: make(map[task.PeerID][]string),
		self: dht.Member{Peer: key.Peer(), Pilot: id, Addresses: n.Addresses(), DataURL: "https://127.0.0.1:1"},
	}
	p.changed = sync.NewCond(&p.mutex)
	s.t.Cleanup(p.close)
	return p
}

func testLogger() *slog.Logger {
	if os.Getenv("PILOTAGE_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// join starts a pilot the way the queue would: the first is master.
func (s *site) join() *pilot {
	s.t.Helper()
	p := s.listen()
	s.register(p)
	return p
}

func (s *site) register(p *pilot) {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.epoch == 0 {
		s.epoch, s.master = 1, p.self
	}
	joined := dht.Joined{Self: p.self, Master: s.master, Term: task.Term{Epoch: s.epoch, Peer: s.master.Peer}}
	for _, other := range s.pilots[:min(3, len(s.pilots))] {
		joined.Contacts = append(joined.Contacts, other.self)
	}
	der := s.issue(p.key, p.self.Pilot, s.name, time.Now().Add(time.Hour))
	if err := p.Join(der, joined, p.hooks(s)); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ran <- p.Run(ctx) }()
	s.pilots = append(s.pilots, p)
}

// claim grants the mastership to whoever asks against the latest term.
func (s *site) claim(p *pilot, c dht.Claim) dht.ClaimAnswer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	answer := dht.ClaimAnswer{Reached: true, Granted: c.Expected.Epoch == s.epoch}
	if answer.Granted {
		s.epoch, s.master = s.epoch+1, p.self
	}
	answer.Term, answer.Master = task.Term{Epoch: s.epoch, Peer: s.master.Peer}, s.master
	return answer
}

func (p *pilot) hooks(s *site) Hooks {
	note := func(a any) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.log = append(p.log, a)
		p.changed.Broadcast()
	}
	return Hooks{
		Claim: func(_ context.Context, c dht.Claim) dht.ClaimAnswer { return s.claim(p, c) },
		Deliver: func(d dht.Deliver) {
			note(d)
			if d.Reply {
				p.Reply(d.ID, []byte(p.self.Pilot))
			}
		},
		Inbound: func(from task.PeerID, data []byte) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.inbound[from] = append(p.inbound[from], string(data))
			p.changed.Broadcast()
		},
		Done:          func(d dht.Done) { note(d) },
		MasterChanged: func(m dht.MasterChanged) { note(m) },
		MemberUp:      func(m dht.MemberUp) { note(m) },
		MemberDown:    func(m dht.MemberDown) { note(m) },
	}
}

func (p *pilot) close() {
	if p.stop != nil {
		p.stop()
		if err := <-p.ran; err != nil {
			panic(err)
		}
		p.stop = nil
	}
	if err := p.Close(); err != nil {
		panic(fmt.Sprintf("close: %v", err))
	}
}

// patience is how long a test waits for what should happen soon.
const patience = time.Minute

// waitFor waits until a hook has seen an action that fits.
func waitFor[A any](t testing.TB, p *pilot, what string, fits func(A) bool) A {
	t.Helper()
	var found A
	p.await(t, what, func() bool {
		return slices.ContainsFunc(p.log, func(a any) bool {
			action, ok := a.(A)
			if ok && fits(action) {
				found = action
				return true
			}
			return false
		})
	})
	return found
}

// await waits until the condition holds, which is looked at whenever a hook
// has been called.
func (p *pilot) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	overdue := false
	timer := time.AfterFunc(patience, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		overdue = true
		p.changed.Broadcast()
	})
	defer timer.Stop()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for !holds() {
		if overdue {
			t.Fatalf("pilot %s waited %s for: %s", p.self.Pilot, patience, what)
		}
		p.changed.Wait()
	}
}

// eventually waits for what no hook reports.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

// settled waits until the master knows just these pilots, all of them follow it, and
// their routing tables are filled.
func settled(t testing.TB, pilots []*pilot) {
	t.Helper()
	eventually(t, fmt.Sprintf("a master of %d pilots", len(pilots)), func() bool {
		master, _ := pilots[0].Master()
		for _, p := range pilots {
			its, _ := p.Master()
			if its.Peer != master.Peer || !filled(p, pilots) || p.self.Peer == master.Peer && len(p.Members()) != len(pilots) {
				return false
			}
		}
		return true
	})
}

// filled tells whether a pilot knows somebody in each bucket that is not empty.
func filled(p *pilot, pilots []*pilot) bool {
	own, knows := dht.KeyOfPeer(p.self.Peer), make(map[int]bool)
	for _, m := range p.Members() {
		knows[own.Common(dht.KeyOfPeer(m.Peer))] = true
	}
	return !slices.ContainsFunc(pilots, func(other *pilot) bool { return !knows[own.Common(dht.KeyOfPeer(other.self.Peer))] })
}
