package dht

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

type shelf struct {
	records
	now time.Time
}

func newShelf() *shelf {
	s := &shelf{now: time.Unix(1e9, 0)}
	s.init(Config{}.withDefaults())
	return s
}

func (s *shelf) write(holder task.PeerID, seq uint64, gone bool) {
	s.put(s.now, holder, []Record{{File: "f", Holder: holder, Seq: seq, Gone: gone, TTL: s.ttl}})
}

func (s *shelf) holders(asker task.PeerID) []task.PeerID {
	var holders []task.PeerID
	for _, r := range s.find(s.now, asker, []task.FileKey{"f"}) {
		if !r.Gone {
			holders = append(holders, r.Holder)
		}
	}
	return holders
}

func TestTheHighestSequenceNumberWins(t *testing.T) {
	s := newShelf()
	s.write("a", 1, false)
	s.write("a", 3, true)
	s.write("a", 2, false) // late
	if got := s.holders("x"); len(got) != 0 {
		t.Errorf("a late announcement brought %v back", got)
	}
	s.write("a", 3, false) // nobody writes that, but it must not win
	if got := s.holders("x"); len(got) != 0 {
		t.Errorf("the same number brought %v back", got)
	}
	s.write("b", 1, false) // another holder has its own numbers
	s.write("a", 4, false)
	if got := s.holders("x"); !slices.Equal(got, []task.PeerID{"a", "b"}) {
		t.Errorf("holders %v", got)
	}
}

func TestTombstonesOutliveLateAnnouncements(t *testing.T) {
	s := newShelf()
	s.write("a", 2, true)
	s.now = s.now.Add(2*s.ttl - time.Second)
	s.sweep(s.now)
	s.write("a", 1, false)
	if got := s.holders("x"); len(got) != 0 {
		t.Errorf("back again: %v", got)
	}
	s.now = s.now.Add(time.Minute)
	s.sweep(s.now)
	if len(s.byFile) != 0 || !s.deadline().IsZero() {
		t.Errorf("still kept: %v until %s", s.byFile, s.deadline())
	}
}

func TestLocationsExpireUnlessRepeated(t *testing.T) {
	s := newShelf()
	s.write("a", 1, false)
	s.now = s.now.Add(s.ttl / 2)
	handed := s.of(s.now, "f")
	s.write("b", 1, false)
	s.put(s.now, "a keeper", handed)
	if got := s.holders("x"); !slices.Equal(got, []task.PeerID{"a", "b"}) {
		t.Errorf("holders %v", got)
	}
	s.now = s.now.Add(s.ttl / 2)
	if got := s.holders("x"); !slices.Equal(got, []task.PeerID{"b"}) {
		t.Errorf("holders %v: what is handed over has no longer life", got)
	}
	s.now = s.now.Add(s.ttl)
	if got := s.holders("x"); len(got) != 0 {
		t.Errorf("expired: %v", got)
	}
}

func TestThoseThatAreGoneAreNotNamed(t *testing.T) {
	s := newShelf()
	s.write("a", 1, false)
	s.write("b", 1, false)
	s.hide(s.now, "b")
	if got := s.holders("x"); !slices.Equal(got, []task.PeerID{"a"}) {
		t.Errorf("%v: b is gone", got)
	}
	s.show("b")
	if got := s.holders("x"); !slices.Equal(got, []task.PeerID{"a", "b"}) {
		t.Errorf("%v: b lives after all", got)
	}
}

// A file that the whole site holds: every asker gets a bounded part, the same
// one again, and all parts together are the site.
func TestManyHoldersAreSpreadOverAskers(t *testing.T) {
	s := newShelf()
	for i := range 500 {
		peer := memberNamed(i).Peer
		s.write(peer, 1, false)
	}
	named := make(map[task.PeerID]int)
	for i := range 500 {
		asker := task.PeerID(fmt.Sprintf("asker-%d", i))
		got := s.holders(asker)
		if len(got) != s.most || !slices.Equal(got, s.holders(asker)) {
			t.Fatalf("%d holders for %s", len(got), asker)
		}
		for _, holder := range got {
			named[holder]++
		}
	}
	if len(named) != 500 {
		t.Errorf("only %d of 500 holders are ever named", len(named))
	}
	for holder, times := range named {
		if times > 4*s.most {
			t.Errorf("%s is named to %d of 500 askers", holder, times)
		}
	}
}

// What a member says of another's files neither hides them nor stands against the
// holder's own word, whatever number it has.
func TestNobodySpeaksForAHolderThatSpeaks(t *testing.T) {
	s := newShelf()
	forge := func(seq uint64, gone bool) {
		s.put(s.now, "liar", []Record{{File: "f", Holder: "a", DataURL: "https://liar", Seq: seq, Gone: gone, TTL: s.ttl}})
	}
	forge(1<<63, true)
	s.write("a", 1, false)
	forge(1<<63, true)
	forge(1<<63, false)
	if got := s.find(s.now, "x", []task.FileKey{"f"}); len(got) != 1 || got[0].Seq != 1 || got[0].Gone || got[0].DataURL != "" {
		t.Errorf("found %+v", got)
	}
	s.write("a", 2, true)
	forge(1<<63, false)
	if got := s.holders("x"); len(got) != 0 {
		t.Errorf("%v: it has withdrawn the file", got)
	}
}
