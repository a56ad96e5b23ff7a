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

// told are the batches of the next moment, and what the first answers lead to.
func (p *one) told() []letter[dht.Put] {
	first := sent[dht.Put](p.pass(10 * time.Millisecond))
	p.acknowledge(first)
	return append(first, sent[dht.Put](p.pass(10*time.Millisecond))...)
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
	puts := p.told()
	if len(puts) > 2*19 {
		t.Errorf("%d batches to 19 others", len(puts))
	}
	for _, l := range puts {
		for _, r := range l.message.Records {
			if r.Holder != p.self.Peer || r.Gone || r.DataURL != p.self.DataURL {
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

// Who is not sure who is nearest tells the nearest that it knows, which names those
// that are nearer, and then the nearest of these.
func TestAnAnswerNamesTheNearest(t *testing.T) {
	f := file(t)
	near := nearest(number(0, 20), f, 3)
	few := slices.DeleteFunc(number(0, 20), func(m dht.Member) bool { return slices.Contains(near, m.Peer) })
	p := worker(t, member(0), few[1], few)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	puts := sent[dht.Put](p.pass(10 * time.Millisecond))
	if len(puts) == 0 || puts[0].to != nearest(few[1:], f, 1)[0] {
		t.Fatalf("told %v first", recipients(puts))
	}
	p.get(puts[0].to, dht.PutAck{N: puts[0].message.N, Near: members(near)})
	then := sent[dht.Put](p.pass(10 * time.Millisecond))
	if got := recipients(then); !slices.Equal(got, near[:1]) {
		t.Fatalf("then told %v, want the nearest, %v", got, near[0])
	}
	p.get(near[0], dht.PutAck{N: then[0].message.N})
	if got := recipients(sent[dht.Put](p.pass(10 * time.Millisecond))); !slices.Equal(got, slices.Sorted(slices.Values(near[1:]))) {
		t.Errorf("it passed nothing on, so %v were told, want %v", got, near[1:])
	}
	p.pass(2 * time.Minute)
	if _, known := p.core.Member(near[0]); known {
		t.Error("it is remembered who was named, for more than a minute")
	}
	keeper := worker(t, byPeer(puts[0].to), few[1], number(0, 20))
	acks := sent[dht.PutAck](keeper.get(member(0).Peer, puts[0].message))
	if len(acks) != 1 || len(acks[0].message.Near) != 3 {
		t.Errorf("who is asked names %+v", acks)
	}
}

// fileNear finds a file in the neighbourhood of its nearest member, whose key shares at
// least so many bits with its own, and the members nearest to it, which fit.
func fileNear(t *testing.T, all []dht.Member, n, bits int, fit func(near []task.PeerID) bool) (task.FileKey, []task.PeerID) {
	t.Helper()
	for i := range 1000 {
		f := task.FileKey(fmt.Sprintf("near-%d", i))
		near := nearest(all, f, n)
		if fit(near) && dht.KeyOfFile(f).Common(dht.KeyOfPeer(near[0])) >= bits {
			return f, near
		}
	}
	t.Fatal("no file is in the neighbourhood of its nearest member")
	return "", nil
}

// A lookup that ran out of time may have missed the nearest: a holder whose own ones do
// is never sure who is near, and tells one at first, where others tell all three.
func TestALookupThatWasCutBoundsNoNeighbourhood(t *testing.T) {
	all := number(0, 20)
	f, near := fileNear(t, all, 3, 3, func([]task.PeerID) bool { return true })
	for _, cut := range []bool{false, true} {
		holder := &one{t: t, core: dht.New(dht.Config{}), now: time.Unix(1e9, 0), self: byPeer(near[0]), site: all, cut: cut}
		holder.join(member(0))
		holder.pass(time.Minute)
		holder.step(dht.Announce{Files: []task.FileKey{f}})
		want := 2 // and itself
		if cut {
			want = 1 // the nearest beside itself
		}
		if told := sent[dht.Put](holder.pass(10 * time.Millisecond)); len(told) != want {
			t.Errorf("lookups cut %v: %d others are told at first, want %d", cut, len(told), want)
		}
	}
}

// The nearest passes on what somebody announces who does not know who else is near, and
// says so: the others of the nearest hear it once, and a withdrawal all the same.
func TestTheNearestPassesOnWhatItIsTold(t *testing.T) {
	all := number(0, 20)
	f, near := fileNear(t, all, 3, 5, func(near []task.PeerID) bool { return !slices.Contains(near, member(0).Peer) })
	p := worker(t, member(0), member(1), all)
	keeper := worker(t, byPeer(near[0]), member(0), all)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	puts := sent[dht.Put](p.pass(10 * time.Millisecond))
	if !slices.Equal(recipients(puts), near[:1]) || puts[0].message.Sure {
		t.Fatalf("told %v at first, want %v", recipients(puts), near[0])
	}
	answer := keeper.get(p.self.Peer, puts[0].message)
	passed := sent[dht.Put](answer)
	if got, want := recipients(passed), slices.Sorted(slices.Values(near[1:])); !slices.Equal(got, want) {
		t.Fatalf("passed on to %v, want %v", got, want)
	}
	for _, l := range passed {
		if r := l.message.Records; len(r) != 1 || r[0].Holder != p.self.Peer || r[0].File != f || !l.message.Sure {
			t.Errorf("passed on to %s: %+v", l.to, l.message)
		}
		other := worker(t, byPeer(l.to), member(0), all)
		if more := sent[dht.Put](other.get(near[0], l.message)); len(more) != 0 {
			t.Errorf("%s passed it on once more, to %v", l.to, recipients(more))
		}
	}
	p.get(near[0], sent[dht.PutAck](answer)[0].message)
	if more := sent[dht.Put](p.pass(2 * time.Second)); len(more) != 0 {
		t.Errorf("told %v as well", recipients(more))
	}
	p.step(dht.Withdraw{Files: []task.FileKey{f}})
	gone := sent[dht.Put](p.pass(10 * time.Millisecond))
	if got, want := recipients(gone), slices.Sorted(slices.Values(near)); !slices.Equal(got, want) {
		t.Fatalf("the withdrawal went to %v, want %v", got, want)
	}
	if more := sent[dht.Put](keeper.get(p.self.Peer, gone[0].message)); len(more) != 0 {
		t.Errorf("a withdrawal, which all are told, is passed on to %v", recipients(more))
	}
}

func members(peers []task.PeerID) (list []dht.Member) {
	for _, peer := range peers {
		list = append(list, byPeer(peer))
	}
	return list
}

func byPeer(peer task.PeerID) dht.Member {
	all := number(0, 20)
	return all[slices.IndexFunc(all, func(m dht.Member) bool { return m.Peer == peer })]
}

func TestUnacknowledgedLocationsGoToOthers(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	near := nearest(number(0, 20), f, 4)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	first := sent[dht.Put](p.pass(10 * time.Millisecond))
	silent := near[1]
	told := recipients(first)
	for _, l := range first {
		if l.to != silent {
			p.get(l.to, dht.PutAck{N: l.message.N})
		}
	}
	told = append(told, recipients(sent[dht.Put](p.pass(10*time.Millisecond)))...)
	slices.Sort(told)
	if want := keepers(t, p, f); !slices.Equal(told, want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	second := sent[dht.Put](p.pass(1100 * time.Millisecond))
	if got := recipients(second); !slices.Contains(got, near[3]) {
		t.Fatalf("then told %v, want the next one, %v", got, near[3:])
	}
	// A broken connection does not wait for a time-out.
	p.step(dht.Announce{Files: []task.FileKey{f + "2"}})
	broken := recipients(sent[dht.Put](p.pass(10 * time.Millisecond)))[0]
	p.step(dht.Disconnected{Peer: broken})
	if got := recipients(sent[dht.Put](p.pass(10 * time.Millisecond))); len(got) == 0 || slices.Contains(got, broken) {
		t.Fatalf("after the disconnect told %v", got)
	}
}

func TestAnnouncementsAreRepeatedBeforeTheyExpire(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.acknowledge(p.told())
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
	near := nearest(number(0, 20), f, 3)
	p.step(dht.Announce{Files: []task.FileKey{f}})
	p.acknowledge(p.told())
	p.step(dht.Withdraw{Files: []task.FileKey{f}})
	gone := sent[dht.Put](p.pass(10 * time.Millisecond))
	want := slices.Sorted(slices.Values(near))
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
	last := sent[dht.Put](p.pass(10 * time.Second))
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

// Who keeps records gives them to a nearer member that comes, and to the next one
// in line when one of the nearest goes.
func TestKeepersHandRecordsOverWhenNeighboursComeAndGo(t *testing.T) {
	all := number(0, 20)
	f, near := fileNear(t, all, 4, 4, func(near []task.PeerID) bool {
		return dht.KeyOfPeer(near[0]).Common(dht.KeyOfPeer(near[3])) >= 2
	})
	late := byPeer(near[1])
	before := slices.DeleteFunc(slices.Clone(all), func(m dht.Member) bool { return m.Peer == late.Peer })
	boss := before[slices.IndexFunc(before, func(m dht.Member) bool { return !slices.Contains(near, m.Peer) })]
	p := worker(t, byPeer(near[0]), boss, before)
	record := dht.Record{File: f, Holder: "holder", Seq: 4, TTL: 10 * time.Minute}
	p.get("holder", dht.Put{N: 1, Records: []dht.Record{record}})
	puts := sent[dht.Put](p.step(dht.Routed{Member: late}))
	if len(puts) != 1 || puts[0].to != late.Peer || puts[0].message.Records[0].Holder != "holder" {
		t.Fatalf("to the newcomer %s: %+v", late.Peer, puts)
	}
	p.step(dht.Disconnected{Peer: near[2]})
	puts = sent[dht.Put](p.step(dht.Dialled{Peer: near[2]}))
	if len(puts) != 1 || puts[0].to != near[3] {
		t.Errorf("in place of %s, %s was to be told: %+v", near[2], near[3], puts)
	}
}

// Parts of a site that was cut in two have met when a member is there that the master
// had said was gone. What was announced in one part is told to the keepers in both.
func TestFilesAreAnnouncedOnceMoreWhenAMemberIsThereAgain(t *testing.T) {
	p := worker(t, member(2), member(0), number(0, 4))
	p.step(dht.Announce{Files: []task.FileKey{"f"}})
	puts := func(d time.Duration) (count int) {
		for end := p.now.Add(d); p.now.Before(end); {
			p.beat(member(0), term(1, member(0)), uint64(1<<41+p.now.UnixNano()))
			for _, put := range sent[dht.Put](p.pass(time.Second)) {
				count++
				p.get(put.to, dht.PutAck{N: put.message.N})
			}
		}
		return count
	}
	if puts(20*time.Second) == 0 {
		t.Fatal("not announced at all")
	}
	if again := puts(20 * time.Second); again > 0 {
		t.Fatalf("announced %d times more without a reason", again)
	}
	for round := range 20 { // as fast as it may come and go, that costs little
		p.get(member(0).Peer, dht.Cast{
			ID: dht.CastID{Root: member(0).Peer, N: 1<<50 + uint64(round)}, Kind: dht.CastBeat,
			Term: term(1, member(0)), Master: member(0), Gone: []task.PeerID{member(3).Peer},
		})
		p.step(dht.Routed{Member: member(3)})
	}
	if again := puts(20 * time.Second); again == 0 || again > 6 {
		t.Errorf("announced %d times in 20 s after a member was there again", again)
	}
}
