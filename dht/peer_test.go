package dht_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// one is a single overlay whose peers the test plays.
type one struct {
	t    *testing.T
	core *dht.Overlay
	now  time.Time
	self dht.Member
	out  []dht.Action // of the last step
	site []dht.Member // whom lookups find
	cut  bool         // and whether they run out of time
}

func member(i int) dht.Member {
	return dht.Member{
		Peer: task.PeerID(fmt.Sprintf("peer-%d", i)), Pilot: task.PilotID(fmt.Sprintf("p-%d", i)),
		DataURL: fmt.Sprintf("https://10.0.0.%d:1", i),
	}
}

// sorted returns the members 0 to n-1 in the order of their Kademlia ids.
func sorted(n int) []dht.Member {
	var members []dht.Member
	for i := range n {
		members = append(members, member(i))
	}
	slices.SortFunc(members, func(a, b dht.Member) int { return dht.KeyOfPeer(a.Peer).Compare(dht.KeyOfPeer(b.Peer)) })
	return members
}

func term(epoch uint64, master dht.Member) task.Term {
	return task.Term{Epoch: epoch, Peer: master.Peer}
}

// worker is a member that has all others in its routing table.
func worker(t *testing.T, self, master dht.Member, members []dht.Member) *one {
	t.Helper()
	p := &one{t: t, core: dht.New(dht.Config{}), now: time.Unix(1e9, 0), self: self, site: members}
	p.join(master)
	return p
}

// join fills the routing table and has the pilot look around.
func (p *one) join(master dht.Member) {
	p.t.Helper()
	self, members, t := p.self, p.site, p.t
	p.step(dht.Joined{Self: self, Master: master, Term: term(1, master)})
	for _, m := range members {
		if m.Peer != self.Peer {
			p.step(dht.Routed{Member: m})
		}
	}
	p.get(master.Peer, dht.Welcome{})
	p.pass(3 * time.Second / 2) // it has looked around
	p.beat(master, term(1, master), 1<<40)
	if p.core.Size() != len(members) {
		t.Fatalf("%d members known", p.core.Size())
	}
}

// master is one in office with members that have introduced themselves.
func master(t *testing.T, self dht.Member, members []dht.Member) *one {
	t.Helper()
	p := &one{t: t, core: dht.New(dht.Config{}), now: time.Unix(1e9, 0), self: self, site: members}
	p.step(dht.Joined{Self: self, Master: self, Term: term(1, self)})
	for _, m := range members {
		if m.Peer != self.Peer {
			p.get(m.Peer, dht.Hello{Member: m})
		}
	}
	return p
}

func (p *one) step(e dht.Event) []dht.Action {
	actions := p.core.Step(p.now, e)
	for i := 0; i < len(actions); i++ {
		if wish, ok := actions[i].(dht.Lookup); ok {
			actions = append(actions, p.core.Step(p.now, p.look(wish))...)
		}
	}
	p.out = actions
	return p.out
}

// look plays kad-dht.
func (p *one) look(wish dht.Lookup) dht.LookedUp {
	others := slices.DeleteFunc(slices.Clone(p.site), func(m dht.Member) bool {
		return m.Peer == p.self.Peer || slices.Contains(wish.Without, m.Peer)
	})
	answer := dht.LookedUp{Target: wish.Target, Cut: p.cut}
	for _, peer := range nearest(others, task.FileKey(wish.Target), min(8, len(others))) {
		i := slices.IndexFunc(others, func(m dht.Member) bool { return m.Peer == peer })
		answer.Members = append(answer.Members, others[i])
	}
	return answer
}

func (p *one) get(from task.PeerID, m dht.Message) []dht.Action {
	return p.step(dht.Received{From: from, Message: m})
}

// pass lets time go by, with a step at every deadline, and returns all that
// was done.
func (p *one) pass(d time.Duration) []dht.Action {
	p.t.Helper()
	var all []dht.Action
	end := p.now.Add(d)
	for {
		next := p.core.Deadline()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(p.now) {
			p.now = next
		}
		all = append(all, p.step(dht.Tick{})...)
		if again := p.core.Deadline(); !again.IsZero() && !again.After(p.now) {
			p.t.Fatalf("at %s the next deadline is %s", p.now, again)
		}
	}
	p.now = end
	p.out = all
	return all
}

// beat is a sign of life of a master.
func (p *one) beat(from dht.Member, t task.Term, n uint64) []dht.Action {
	return p.get(from.Peer, dht.Cast{
		ID: dht.CastID{Root: from.Peer, N: n}, Kind: dht.CastBeat, Term: t, Master: from,
		Space: dht.Range{First: dht.KeyOfPeer(p.self.Peer), Last: dht.KeyOfPeer(p.self.Peer)}, Budget: time.Second,
	})
}

// letter is a message that was sent.
type letter[M dht.Message] struct {
	to      task.PeerID
	message M
}

func sent[M dht.Message](actions []dht.Action) []letter[M] {
	var letters []letter[M]
	for _, a := range actions {
		if s, ok := a.(dht.Send); ok {
			if m, ok := s.Message.(M); ok {
				letters = append(letters, letter[M]{s.To, m})
			}
		}
	}
	return letters
}

func done[A dht.Action](actions []dht.Action) []A {
	var list []A
	for _, a := range actions {
		if wanted, ok := a.(A); ok {
			list = append(list, wanted)
		}
	}
	return list
}

func recipients[M dht.Message](letters []letter[M]) []task.PeerID {
	var peers []task.PeerID
	for _, l := range letters {
		peers = append(peers, l.to)
	}
	slices.Sort(peers)
	return peers
}

// nearest are the members nearest to a file, by sorting.
func nearest(members []dht.Member, file task.FileKey, n int) []task.PeerID {
	key := dht.KeyOfFile(file)
	list := slices.Clone(members)
	slices.SortFunc(list, func(a, b dht.Member) int {
		if key.Closer(dht.KeyOfPeer(a.Peer), dht.KeyOfPeer(b.Peer)) {
			return -1
		}
		return 1
	})
	var peers []task.PeerID
	for _, m := range list[:n] {
		peers = append(peers, m.Peer)
	}
	return peers
}
