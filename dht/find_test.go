package dht_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

func (p *one) nothing(finds []letter[dht.Find]) []dht.Action {
	var all []dht.Action
	for _, l := range finds {
		all = append(all, p.get(l.to, dht.Found{N: l.message.N})...)
	}
	return all
}

func TestFinderAsksOneThenTwoThenTheRest(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	near := nearest(number(0, 20), f, 8)
	actions := p.step(dht.Locate{N: 9, Files: []task.FileKey{f}})
	for _, want := range [][]task.PeerID{near[:1], near[1:3], near[3:7], near[7:]} {
		finds := sent[dht.Find](actions)
		if got := recipients(finds); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Fatalf("asked %v, want %v", got, want)
		}
		if len(done[dht.Located](actions)) != 0 {
			t.Fatal("absent although not all were asked")
		}
		actions = p.nothing(finds)
	}
	located := done[dht.Located](actions)
	if len(located) != 1 || located[0].N != 9 || len(located[0].Holders) != 0 {
		t.Fatalf("after eight: %+v", located)
	}
}

func TestFinderTakesTheFirstAnswerAndPassesOverTheSilent(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	first := sent[dht.Find](p.step(dht.Locate{N: 1, Files: []task.FileKey{f}}))
	second := sent[dht.Find](p.pass(400 * time.Millisecond)) // the first one is silent
	if len(second) != 2 {
		t.Fatalf("then asked %v", recipients(second))
	}
	record := dht.Record{File: f, Holder: member(7).Peer, DataURL: "https://7", Seq: 1, TTL: time.Minute}
	own := dht.Record{File: f, Holder: p.self.Peer, Seq: 1, TTL: time.Minute}
	if early := p.get(member(19).Peer, dht.Found{N: first[0].message.N, Records: []dht.Record{record}}); len(early) != 0 {
		t.Errorf("took an answer of somebody who was not asked: %v", early)
	}
	// The first one is late and still counts.
	located := done[dht.Located](p.get(first[0].to, dht.Found{N: first[0].message.N, Records: []dht.Record{own, record}}))
	if len(located) != 1 || !slices.Equal(located[0].Holders[f], []dht.Holder{{Peer: member(7).Peer, DataURL: "https://7"}}) {
		t.Fatalf("%+v", located)
	}
	if more := p.nothing(second); len(more) != 0 {
		t.Errorf("answers after the end: %v", more)
	}
}

func TestFinderGoesOnAtOnceWithoutALostPeer(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	finds := sent[dht.Find](p.step(dht.Locate{N: 1, Files: []task.FileKey{f}}))
	if next := sent[dht.Find](p.step(dht.Disconnected{Peer: finds[0].to})); len(next) != 2 {
		t.Fatalf("asked %v", recipients(next))
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 2))
	var files []task.FileKey
	for i := range 1800 {
		files = append(files, task.FileKey(fmt.Sprintf("f%d", i)))
	}
	finds := sent[dht.Find](p.step(dht.Locate{N: 1, Files: append(files, files[:100]...)}))
	asked := make(map[task.FileKey]bool)
	var actions []dht.Action
	for _, l := range finds {
		if len(l.message.Files) > 500 {
			t.Errorf("%d files in one question", len(l.message.Files))
		}
		for _, f := range l.message.Files {
			asked[f] = true
		}
		record := dht.Record{File: l.message.Files[0], Holder: member(1).Peer, Seq: 1}
		actions = append(actions, p.get(l.to, dht.Found{N: l.message.N, Records: []dht.Record{record}})...)
	}
	located := done[dht.Located](actions)
	if len(asked) != 1800 || len(located) != 1 || len(located[0].Holders) != len(finds) {
		t.Fatalf("asked for %d files in %d questions, located %v", len(asked), len(finds), located)
	}
}

func TestNoFilesAreLocatedAtOnce(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 2))
	if located := done[dht.Located](p.step(dht.Locate{N: 4})); len(located) != 1 || located[0].N != 4 {
		t.Fatalf("%v", located)
	}
}

// One member's word that a file was withdrawn does not hide what another names.
func TestAForgedWithdrawalHidesNothing(t *testing.T) {
	for _, liarFirst := range []bool{true, false} {
		p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
		record := dht.Record{File: f, Holder: member(7).Peer, DataURL: "https://7", Seq: 1, TTL: time.Minute}
		forged := record
		forged.Seq, forged.Gone = 1<<63, true
		finds := sent[dht.Find](p.step(dht.Locate{N: 1, Files: []task.FileKey{f}}))
		more := sent[dht.Find](p.nothing(finds))
		answers := []dht.Record{record, forged}
		if liarFirst {
			answers = []dht.Record{forged, record}
		}
		var all []dht.Action
		for i, l := range more {
			all = append(all, p.get(l.to, dht.Found{N: l.message.N, Records: answers[i : i+1]})...)
		}
		for finds := sent[dht.Find](all); len(finds) > 0; finds = sent[dht.Find](all) {
			all = p.nothing(finds)
		}
		if located := done[dht.Located](all); len(located) != 1 || len(located[0].Holders[f]) != 1 || located[0].Holders[f][0].DataURL != "https://7" {
			t.Errorf("liar first %t: %+v", liarFirst, located)
		}
	}
}

// Where nobody is named but those that the asker doubts, more members are asked: who keeps
// a file's locations may name nobody but itself.
func TestASearchGoesOnPastHoldersInDoubt(t *testing.T) {
	p, f := worker(t, member(0), member(1), number(0, 20)), file(t)
	liar := member(7).Peer
	finds := sent[dht.Find](p.step(dht.Locate{N: 1, Files: []task.FileKey{f}, Doubted: []task.PeerID{liar}}))
	held := func(holder task.PeerID) []dht.Record {
		return []dht.Record{{File: f, Holder: holder, DataURL: "https://x", Seq: 1, TTL: time.Minute}}
	}
	next := sent[dht.Find](p.get(finds[0].to, dht.Found{N: finds[0].message.N, Records: held(liar)}))
	if len(next) != 2 {
		t.Fatalf("then asked %v", recipients(next))
	}
	var actions []dht.Action
	for _, find := range next {
		actions = append(actions, p.get(find.to, dht.Found{N: find.message.N, Records: held(member(9).Peer)})...)
	}
	located := done[dht.Located](actions)
	if len(located) != 1 || len(located[0].Holders[f]) != 2 {
		t.Errorf("located %v", located)
	}
}
