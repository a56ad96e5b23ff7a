package dht_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

func number(from, to int) []dht.Member {
	var members []dht.Member
	for i := from; i < to; i++ {
		members = append(members, member(i))
	}
	return members
}

// keepers are those of 20 members, the holder 0 left out, that keep a file.
func keepers(t *testing.T, holder *one, file task.FileKey) []task.PeerID {
	t.Helper()
	peers := nearest(number(0, 20), file, 3)
	if slices.Contains(peers, holder.self.Peer) {
		t.Fatalf("%s is kept by the holder itself: choose another", file)
	}
	slices.Sort(peers)
	return peers
}

func (p *one) acknowledge(puts []letter[dht.Put]) {
	for _, l := range puts {
		p.get(l.to, dht.PutAck{N: l.message.N})
	}
}

// file is one whose keepers are all others than member 0.
func file(t *testing.T) task.FileKey {
	t.Helper()
	for i := range 100 {
		f := task.FileKey(fmt.Sprintf("file-%d", i))
		if !slices.Contains(nearest(number(0, 20), f, 8), member(0).Peer) {
			return f
		}
	}
	t.Fatal("no such file")
	return ""
}

func TestAnnouncementsGoToTheNearestInBatches(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 20))
	want := make(map[task.PeerID]map[task.FileKey]bool)
	var files []task.FileKey
	for i := range 400 {
		f := task.FileKey(fmt.Sprintf("f%d", i))
		files = append(files, f)
		for _, peer := range nearest(number(0, 20), f, 3) {
			if want[peer] == nil {
				want[peer] = make(map[task.FileKey]bool)
			}
			want[peer][f] = true
		}
	}
	for _, f := range files {
		p.step(dht.Announce{Files: []task.FileKey{f}})
	}
	puts := sent[dht.Put](p.pass(10 * time.Millisecond))
	if len(puts) != 19 {
		t.Errorf("%d batches to 19 others", len(puts))
	}
	for _, l := range puts {
		for _, r := range l.message.Records {
			if !want[l.to][r.File] || r.Holder != p.self.Peer || r.Gone || r.DataURL != p.self.DataURL {
				t.Fatalf("to %s: %+v", l.to, r)
			}
			delete(want[l.to], r.File)
		}
	}
	for peer, missing := range want {
		if len(missing) > 0 && peer != p.self.Peer {
			t.Errorf("%s was not told of %d files", peer, len(missing))
		}
	}
	p.acknowledge(puts)
	if again := sent[dht.Put](p.pass(2 * time.Second)); len(again) != 0 {
		t.Errorf("%d batches repeated although acknowledged", len(again))
	}
}

func TestUnacknowledgedLocationsGoToOthersAndBack(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	near := nearest(number(0, 20), f, 4)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	puts := sent[dht.Put](p.pass(10 * time.Millisecond))
	if got, want := recipients(puts), keepers(t, p, f); !slices.Equal(got, want) {
		t.Fatalf("told %v, want %v", got, want)
	}
	silent := near[1]
	p.acknowledge(slices.DeleteFunc(puts, func(l letter[dht.Put]) bool { return l.to == silent }))
	second := sent[dht.Put](p.pass(1100 * time.Millisecond))
	if got := recipients(second); !slices.Equal(got, near[3:]) {
		t.Fatalf("then told %v, want the next one, %v", got, near[3:])
	}
	p.acknowledge(second)
	// The silent one gives a sign of life: it is told at once.
	p.get(silent, dht.Ping{N: 1})
	third := sent[dht.Put](p.pass(10 * time.Millisecond))
	if got := recipients(third); !slices.Equal(got, []task.PeerID{silent}) {
		t.Fatalf("after its sign of life told %v", got)
	}
	// A broken connection does not wait for a time-out.
	p.step(dht.Announce{Files: []task.FileKey{f + "2"}})
	first := recipients(sent[dht.Put](p.pass(10 * time.Millisecond)))[0]
	p.step(dht.Disconnected{Peer: first})
	if got := recipients(sent[dht.Put](p.pass(10 * time.Millisecond))); len(got) != 1 || got[0] == first {
		t.Fatalf("after the disconnect told %v", got)
	}
}

func TestAnnouncementsAreRepeatedBeforeTheyExpire(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.acknowledge(sent[dht.Put](p.pass(10 * time.Millisecond)))
	var repeated []task.PeerID
	for i := range 300 { // beats keep the master trusted
		p.beat(member(1), term(1, member(1)), uint64(i+1))
		puts := sent[dht.Put](p.pass(time.Second))
		repeated = append(repeated, recipients(puts)...)
		p.acknowledge(puts)
	}
	slices.Sort(repeated)
	if want := keepers(t, p, f); !slices.Equal(repeated, want) {
		t.Errorf("repeated to %v within 5 min, want %v", repeated, want)
	}
}

func TestWithdrawalReachesEverybodyWhoWasTold(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	near := nearest(number(0, 20), f, 6)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.acknowledge(sent[dht.Put](p.pass(10 * time.Millisecond)))
	// A former keeper is told, also after nearer members came and others went.
	without := slices.DeleteFunc(number(0, 20), func(m dht.Member) bool { return m.Peer == near[0] })
	p.get(member(1).Peer, dht.Welcome{Master: member(1), Roster: dht.RosterDelta{Term: term(1, member(1)), To: 2, Add: without}})
	p.acknowledge(sent[dht.Put](p.pass(10 * time.Millisecond))) // near[3] keeps it now
	p.get(member(1).Peer, dht.Welcome{Master: member(1), Roster: dht.RosterDelta{Term: term(1, member(1)), To: 3, Add: number(0, 20)}})
	p.acknowledge(sent[dht.Put](p.pass(10 * time.Millisecond)))
	p.step(dht.Withdraw{Files: []task.FileKey{f}})
	gone := sent[dht.Put](p.pass(10 * time.Millisecond))
	want := slices.Sorted(slices.Values(near[:4]))
	if got := recipients(gone); !slices.Equal(got, want) {
		t.Fatalf("the withdrawal went to %v, told were %v", got, want)
	}
	for _, l := range gone {
		if r := l.message.Records[0]; !r.Gone || r.Seq < 2 {
			t.Errorf("to %s: %+v", l.to, r)
		}
	}
	p.acknowledge(gone[1:])
	missing := gone[0].to
	p.pass(1100 * time.Millisecond)
	p.get(missing, dht.Pong{}) // only slow
	last := sent[dht.Put](p.pass(10 * time.Millisecond))
	if !slices.Contains(recipients(last), missing) {
		t.Fatalf("%s has not heard of the withdrawal; sent to %v", missing, recipients(last))
	}
	p.acknowledge(last)
	p.pass(10 * time.Millisecond)
	p.step(dht.Withdraw{Files: []task.FileKey{f}}) // again, of what nobody holds
	if more := sent[dht.Put](p.pass(10 * time.Millisecond)); len(more) != 0 {
		t.Errorf("sent once more to %v", recipients(more))
	}
}

func TestWhatNobodyHeardOfIsWithdrawnInSilence(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.step(dht.Withdraw{Files: []task.FileKey{f}})
	if puts := sent[dht.Put](p.pass(time.Second)); len(puts) != 0 {
		t.Errorf("sent to %v", recipients(puts))
	}
}

func TestNewNearestMemberIsTold(t *testing.T) {
	f := file(t)
	near := nearest(number(0, 20), f, 1)[0]
	rest := slices.DeleteFunc(number(0, 20), func(m dht.Member) bool { return m.Peer == near })
	p := worker(t, member(0), rest[1], rest)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.acknowledge(sent[dht.Put](p.pass(10 * time.Millisecond)))
	var newcomer dht.Member
	for _, m := range number(0, 20) {
		if m.Peer == near {
			newcomer = m
		}
	}
	p.get(rest[1].Peer, dht.Welcome{Master: rest[1], Roster: dht.RosterDelta{Term: term(1, rest[1]), From: 1, To: 2, Add: []dht.Member{newcomer}}})
	if got := recipients(sent[dht.Put](p.pass(10 * time.Millisecond))); !slices.Equal(got, []task.PeerID{near}) {
		t.Errorf("told %v, want only %s", got, near)
	}
}
