package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet/live"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// liveSite is a site of real nodes on a carrier, with a queue as far as the
// mastership goes: it grants a claim against the term in office when the
// master has resigned or was not heard for silence.
type liveSite struct {
	t         testing.TB
	carrier   *live.Carrier
	authority *identity.Authority
	overlay   dht.Config
	silence   time.Duration

	mutex  sync.Mutex
	epoch  uint64
	master *livePilot
	pilots []*livePilot
}

// livePilot is one node.
type livePilot struct {
	*node.Node
	self dht.Member
	key  *identity.PilotKey
	site *liveSite
	stop context.CancelFunc
	ran  chan error

	mutex   sync.Mutex
	stopped time.Time     // when the queue heard it last; zero: it still does
	frozen  chan struct{} // hooks wait for its closing
	done    map[uint64]chan dht.Done
	office  dht.MasterChanged
	changes []time.Time // when it heard of a new master
}

func newLive(t testing.TB) *liveSite {
	t.Helper()
	carrier, err := live.NewCarrier()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &liveSite{t: t, carrier: carrier, authority: authority, silence: 3 * time.Second, overlay: patient()}
	t.Cleanup(func() {
		s.close()
		if err := carrier.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// patient are timings for a loaded machine: what only bounds the silence of
// the hung may take long.
func patient() dht.Config {
	return dht.Config{
		PingTimeout: 2 * time.Second, Members: dht.MembershipConfig{Ping: 4 * time.Second},
		Broadcast: dht.BroadcastConfig{HopAck: time.Second, ReplyHop: 1500 * time.Millisecond},
	}
}

func (s *liveSite) close() {
	var ending sync.WaitGroup
	for _, p := range s.pilots {
		ending.Go(p.close)
	}
	ending.Wait()
	s.pilots = nil
}

func liveLogger() *slog.Logger {
	if os.Getenv("PILOTAGE_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// join starts pilots the way the queue would: the first is master.
func (s *liveSite) join(count int) []*livePilot {
	s.t.Helper()
	before := len(s.pilots)
	for range count {
		s.joinOne()
	}
	return s.pilots[before:]
}

func (s *liveSite) joinOne() {
	s.t.Helper()
	key := s.spreadKey()
	ca, _ := s.authority.PEM()
	verifier, err := identity.NewVerifier(ca)
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := node.Listen(node.Config{
		Site: "siteA", Key: key, Verifier: verifier, Advertise: netip.MustParseAddr("127.0.0.1"),
		Overlay: s.overlay, Carrier: s.carrier, Logger: liveLogger(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	id := pilotID(len(s.pilots))
	p := &livePilot{
		Node: n, key: key, site: s, ran: make(chan error, 1), done: make(map[uint64]chan dht.Done),
		self: dht.Member{Peer: key.Peer(), Pilot: id, Addresses: n.Addresses(), DataURL: "https://127.0.0.1:1"},
	}
	der, err := s.authority.IssueMember(identity.Member{Site: "siteA", Pilot: id, NotAfter: time.Now().Add(time.Hour)}, key.Public(), time.Now().Add(-time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	s.mutex.Lock()
	if s.epoch == 0 {
		s.epoch, s.master = 1, p
	}
	joined := dht.Joined{Self: p.self, Master: s.master.self, Term: s.term()}
	for i := range min(4, len(s.pilots)) {
		joined.Contacts = append(joined.Contacts, s.pilots[(i*7919+len(s.pilots)*31)%len(s.pilots)].self)
	}
	s.pilots = append(s.pilots, p)
	s.mutex.Unlock()
	if err := p.Join(der, joined, p.hooks()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ran <- p.Run(ctx) }()
}

// spreadKey is a key in the eighth of the key space in which fewest pilots are. Members
// that look up what is nearest to them do not meet one that is alone beside more of them
// than a lookup returns: they find it when they look around again, which no test waits for.
func (s *liveSite) spreadKey() *identity.PilotKey {
	s.t.Helper()
	eighth := func(peer task.PeerID) byte { return dht.KeyOfPeer(peer)[0] >> 5 }
	var there [8]int
	for _, p := range s.pilots {
		there[eighth(p.self.Peer)]++
	}
	for {
		key, err := identity.NewPilotKey()
		if err != nil {
			s.t.Fatal(err)
		}
		if there[eighth(key.Peer())] == slices.Min(there[:]) {
			return key
		}
	}
}

func pilotID(n int) task.PilotID {
	letters := []byte("p-aaaaaaaa")
	for i := len(letters) - 1; n > 0; i-- {
		letters[i] += byte(n % 26)
		n /= 26
	}
	return task.PilotID(letters)
}

func (s *liveSite) term() task.Term { return task.Term{Epoch: s.epoch, Peer: s.master.self.Peer} }

func (s *liveSite) claim(p *livePilot, c dht.Claim) dht.ClaimAnswer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	answer := dht.ClaimAnswer{Reached: true}
	silent := s.master.unheard() >= s.silence
	if c.Expected.Epoch == s.epoch && (c.Resigned || silent || s.master == p) {
		answer.Granted = true
		s.epoch, s.master = s.epoch+1, p
	}
	answer.Term, answer.Master = s.term(), s.master.self
	return answer
}

func (p *livePilot) hooks() node.Hooks {
	return node.Hooks{
		Claim: func(_ context.Context, c dht.Claim) dht.ClaimAnswer { return p.site.claim(p, c) },
		Deliver: func(d dht.Deliver) {
			if d.Reply {
				p.Reply(d.ID, []byte(p.self.Pilot))
			}
		},
		Inbound: func(task.PeerID, []byte) {
			p.mutex.Lock()
			frozen := p.frozen
			p.mutex.Unlock()
			if frozen != nil {
				<-frozen
			}
		},
		Done: func(d dht.Done) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			if waiting := p.done[d.N]; waiting != nil {
				delete(p.done, d.N)
				waiting <- d
			}
		},
		MasterChanged: func(m dht.MasterChanged) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.office = m
			p.changes = append(p.changes, time.Now())
		},
	}
}

// unheard is for how long the queue has not heard this pilot.
func (p *livePilot) unheard() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stopped.IsZero() {
		return 0
	}
	return time.Since(p.stopped)
}

func (p *livePilot) hears() dht.MasterChanged {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.office
}

// kill ends a pilot as SIGKILL does.
func (p *livePilot) kill() {
	p.mutex.Lock()
	p.stopped = time.Now()
	p.mutex.Unlock()
	p.site.carrier.Kill(p.self.Peer)
	p.close()
}

// hang stops a pilot as SIGSTOP does: its bytes stand still, and its loop
// waits in a hook.
func (p *livePilot) hang() {
	p.mutex.Lock()
	p.stopped, p.frozen = time.Now(), make(chan struct{})
	p.mutex.Unlock()
	p.site.carrier.Hang(p.self.Peer)
	p.Send(p.self.Peer, nil)
}

func (p *livePilot) resume() {
	p.thaw()
	p.mutex.Lock()
	p.stopped = time.Time{}
	p.mutex.Unlock()
}

func (p *livePilot) thaw() {
	p.mutex.Lock()
	if p.frozen != nil {
		close(p.frozen)
	}
	p.frozen = nil
	p.mutex.Unlock()
	p.site.carrier.Resume(p.self.Peer)
}

func (p *livePilot) close() {
	if p.stop == nil {
		return
	}
	p.thaw()
	p.stop()
	p.stop = nil
	if err := <-p.ran; err != nil {
		p.site.t.Error(err)
	}
	if err := p.Close(); err != nil {
		p.site.t.Errorf("close %s: %v", p.self.Pilot, err)
	}
}

// ask broadcasts and waits for the end.
func (p *livePilot) ask(number uint64, payload []byte) dht.Done {
	p.site.t.Helper()
	answer := make(chan dht.Done, 1)
	p.mutex.Lock()
	p.done[number] = answer
	p.mutex.Unlock()
	p.Broadcast(number, payload, true)
	select {
	case d := <-answer:
		return d
	case <-time.After(30 * time.Second):
		p.site.t.Fatalf("broadcast %d of %s has no end", number, p.self.Pilot)
		return dht.Done{}
	}
}

// await looks every so often until a condition holds.
func (s *liveSite) await(patience time.Duration, what string, holds func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			s.t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

// settled waits until the master knows just these pilots, all of them follow it, and
// their routing tables are filled.
func (s *liveSite) settled(patience time.Duration, pilots []*livePilot) {
	s.t.Helper()
	var missing string
	s.t.Cleanup(func() {
		if missing != "" {
			s.t.Log(missing)
		}
	})
	s.await(patience, fmt.Sprintf("a master of %d pilots", len(pilots)), func() bool {
		missing = unsettled(pilots)
		return missing == ""
	})
}

// unsettled says what pilots lack of a settled site.
func unsettled(pilots []*livePilot) string {
	master, _ := pilots[0].Master()
	for i, p := range pilots {
		its, _ := p.Master()
		switch {
		case its.Peer != master.Peer:
			return fmt.Sprintf("pilot %d has the master %q, the first one %q", i, its.Pilot, master.Pilot)
		case p.self.Peer == master.Peer && len(p.Members()) != len(pilots):
			return fmt.Sprintf("the master knows %d of %d", len(p.Members()), len(pilots))
		case !filled(p, pilots):
			return fmt.Sprintf("pilot %d, one of %d, knows %d, and nobody in a bucket that is not empty", i, len(pilots), len(p.Members()))
		}
	}
	return ""
}

// filled tells whether a pilot knows somebody in each bucket that is not empty.
func filled(p *livePilot, pilots []*livePilot) bool {
	own, knows := dht.KeyOfPeer(p.self.Peer), make(map[int]bool)
	for _, m := range p.Members() {
		knows[own.Common(dht.KeyOfPeer(m.Peer))] = true
	}
	return !slices.ContainsFunc(pilots, func(other *livePilot) bool { return !knows[own.Common(dht.KeyOfPeer(other.self.Peer))] })
}
