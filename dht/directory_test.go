package dht

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// TestDirectoryKeepsOneCopy: two rosters that hear of a member from different
// messages hold the same one, until it is heard of otherwise.
func TestDirectoryKeepsOneCopy(t *testing.T) {
	directory := NewDirectory()
	term := task.Term{Epoch: 1, Peer: "m"}
	hear := func(url string) *Roster {
		var r Roster
		message := Welcome{Roster: RosterDelta{Term: term, To: 1, Add: []Member{
			{Peer: "a", Pilot: "p-a", Addresses: []string{"/ip4/10.0.0.1/tcp/1"}, DataURL: url}, {Peer: "b"},
		}}}
		if _, fits := r.apply(directory.Share(message).(Welcome).Roster); !fits {
			t.Fatal("a snapshot was not taken")
		}
		return &r
	}
	first, second := hear("https://a"), hear("https://a")
	if first.entry("a") != second.entry("a") || first.entry("b") != second.entry("b") {
		t.Error("two rosters hold a copy each")
	}
	moved := hear("https://moved")
	if m, _ := moved.Get("a"); m.DataURL != "https://moved" {
		t.Errorf("a member that has moved is still at %s", m.DataURL)
	}
	if m, _ := first.Get("a"); m.DataURL != "https://a" {
		t.Errorf("what another roster heard has changed this one to %s", m.DataURL)
	}
	if moved.entry("b") != first.entry("b") {
		t.Error("a member that has not changed is held twice")
	}
	delta := directory.Share(Cast{Roster: RosterDelta{Term: term, From: 1, To: 2, Add: []Member{{Peer: "c"}}, Remove: []task.PeerID{"b"}}}).(Cast)
	if _, fits := first.apply(delta.Roster); !fits || first.Len() != 2 || !first.Has("c") {
		t.Errorf("after a change the roster has %v", first.Members())
	}
}
