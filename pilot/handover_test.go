package pilot_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// newPausing is a site with a storage element that takes what p2 brings it, while p1
// takes no new work for a while.
func newPausing(t *testing.T) (s *siteBench, pauses message.Status) {
	s = newSiteBench(t, "a", "b")
	s.follow(master.SyncAnswered{N: s.call, Reply: task.SyncReply{Settings: task.SiteSettings{Site: siteName, SE: "file:///se"}}})
	other := task.Stored{LFN: "w-aaaaaaaaaa:y", Attempt: attemptOf("another", "p2"), URL: "file:///se/y", Size: task.MiB}
	s.follow(s.news("p2", message.Report{Status: message.Status{Stays: true, Stored: []task.Stored{other}}}))
	return s, message.Status{Draining: true, Stays: true, Stopped: "it pauses for 30s"}
}

// toStore counts the orders to a pilot to keep what an attempt has made.
func toStore(actions []message.Action, pilot task.PeerID, attempt task.AttemptID) (count int) {
	for _, tell := range all[message.Tell](actions) {
		if order, is := tell.Message.(message.StoreOrder); is && tell.To == pilot && order.File.Producer == attempt {
			count++
		}
	}
	return count
}

// A pilot that takes no work for a while stays: what it made and cannot store it keeps
// until somebody has stored it, also when another pilot keeps it as well, which may leave.
func TestAPilotThatPausesKeepsWhatItCannotStore(t *testing.T) {
	s, pauses := newPausing(t)
	file := fileOf(attemptOf("other", "p1"))
	if n := toStore(s.follow(s.news("p1", message.Report{Status: pauses, Leaves: []task.File{file}})), "p2", file.Producer); n != 1 {
		t.Fatalf("another pilot is told %d times to store the file", n)
	}
	kept := message.Report{Status: message.Status{Stays: true}, Kept: []message.KeptAnswer{{Output: task.OutputID{Attempt: file.Producer, LFN: file.LFN}}}}
	if n := relieved(s.follow(s.news("p2", kept)), file.Producer); n > 0 {
		t.Errorf("a pilot that pauses is relieved of its output %d times before it is stored", n)
	}
	leaves := message.Report{Status: message.Status{Draining: true, Stopped: "it drains"}, Leaves: []task.File{file}}
	for _, tell := range all[message.Tell](s.follow(s.news("p2", leaves))) {
		if acks, is := tell.Message.(message.Acks); is && len(acks.Relieved) > 0 && tell.To != "p2" {
			t.Errorf("%s is relieved when the other keeper leaves", tell.To)
		}
	}
}

// A pilot that leaves hands what it has made to one that takes no work for a while, where
// there is no other; before, to one that takes work.
func TestAPilotThatPausesTakesOver(t *testing.T) {
	s, pauses := newPausing(t)
	s.follow(s.news("p1", message.Report{Status: pauses}))
	file := fileOf(attemptOf("other", "p2"))
	leaves := message.Report{Status: message.Status{Draining: true, Stopped: "it drains"}, Leaves: []task.File{file}}
	if n := toStore(s.follow(s.news("p2", leaves)), "p1", file.Producer); n != 1 {
		t.Errorf("the only pilot that stays is told %d times to store the file", n)
	}

	s, pauses = newPausing(t)
	s.follow(s.news("p1", message.Report{Status: pauses}))
	s.follow(master.PilotUp{Pilot: "p3", Peer: "p3"})
	s.follow(s.news("p3", message.State{
		Pilot: matcher.Pilot{ID: "p3", Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB}}, Peer: "p3",
		List: matcher.ListVersion{Term: firstTerm}, Status: message.Status{Stays: true},
	}))
	actions := s.follow(s.news("p2", leaves))
	if paused, works := toStore(actions, "p1", file.Producer), toStore(actions, "p3", file.Producer); paused != 0 || works != 1 {
		t.Errorf("of a pilot that pauses and one that takes work, they are told %d and %d times to store the file", paused, works)
	}
}

// Of two pilots that have the same file, the one that leaves is relieved of it and the one
// that stays keeps it, in whatever order their master hears of both.
func TestOfTwoKeepersTheOneThatStaysKeepsTheFile(t *testing.T) {
	file := fileOf(attemptOf("other", "p3"))
	leaves := message.Report{Status: message.Status{Draining: true, Stopped: "it drains"}, Leaves: []task.File{file}}
	for _, first := range []task.PilotID{"p1", "p2"} {
		s, pauses := newPausing(t)
		reports := map[task.PilotID]message.Report{"p1": {Status: pauses, Leaves: []task.File{file}}, "p2": leaves}
		relieved := make(map[task.PeerID]int)
		second := map[task.PilotID]task.PilotID{"p1": "p2", "p2": "p1"}[first]
		for _, pilot := range []task.PilotID{first, second, first, second} {
			for _, tell := range all[message.Tell](s.follow(s.news(task.PeerID(pilot), reports[pilot]))) {
				if acks, is := tell.Message.(message.Acks); is {
					relieved[tell.To] += len(acks.Relieved)
				}
			}
		}
		if relieved["p1"] != 0 || relieved["p2"] == 0 {
			t.Errorf("%s is heard first: the one that stays is relieved of the file %d times, the one that leaves %d times", first, relieved["p1"], relieved["p2"])
		}
	}
}
