package pilot_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// rankedSite is a master with pilots p1 and p2 of one slot each, whose ranks
// of tasks are given. Its broadcasts are answered at once.
type rankedSite struct {
	*bench
	ranks   map[string][2]float64 // of p1 and p2, by task
	fails   bool                  // neither can run any class
	where   map[string]task.PeerID
	lists   []matcher.ListDelta
	work    []task.Lease // for the next answer of the queue, which is away otherwise
	refused []task.Refusal
	returns int
	slow    bool // broadcasts are answered later, by whoever does so
}

func newRankedSite(t *testing.T, settings task.SiteSettings, ranks map[string][2]float64, names ...string) *rankedSite {
	m := master.New(master.Config{}, "p1", matcher.NewCompiler(8))
	s := &rankedSite{bench: &bench{t: t, now: epoch, step: m.Step}, ranks: ranks, where: make(map[string]task.PeerID)}
	settings.Site = siteName
	s.follow(master.TookOffice{Term: firstTerm, Settings: settings, Alone: true})
	for _, id := range []task.PilotID{"p1", "p2"} {
		s.follow(master.PilotUp{Pilot: id, Peer: task.PeerID(id)})
	}
	for _, id := range []task.PilotID{"p1", "p2"} {
		s.follow(master.FromPilot{From: task.PeerID(id), Message: message.State{
			Pilot: matcher.Pilot{ID: id, Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB}}, Peer: task.PeerID(id),
			List: matcher.ListVersion{Term: firstTerm}, Status: message.Status{Number: 1},
		}})
	}
	s.settle()
	lease := task.Lease{ID: 7, TTL: time.Hour}
	for i, short := range names {
		lease.Tasks = append(lease.Tasks, task.LeasedTask{Task: given(short)[0].Task, Generation: 1, Number: 1, Age: uint64(i)})
	}
	s.work = []task.Lease{lease}
	s.settle()
	return s
}

// settle lets the coalesced rounds and calls happen.
func (s *rankedSite) settle() {
	for range 4 {
		s.now = s.now.Add(time.Second)
		s.follow(message.Tick{})
	}
}

func (s *rankedSite) follow(event message.Event) {
	for _, action := range s.do(event) {
		switch a := action.(type) {
		case master.CastList:
			s.lists = append(s.lists, a.List.Delta)
			if s.slow {
				continue
			}
			done := master.BroadcastDone{N: a.N}
			for i, id := range []task.PilotID{"p1", "p2"} {
				update := s.answer(i, a.List.Delta)
				update.Pilot = id
				done.Answers = append(done.Answers, message.Answer{Pilot: id, Peer: task.PeerID(id), Update: &update})
			}
			s.follow(done)
		case master.CallSync:
			if len(a.Sync.Refused) > 0 {
				s.refused, s.returns = a.Sync.Refused, len(a.Sync.Returns)
			}
			answer := master.SyncAnswered{N: a.N, Err: "the queue is away"}
			if s.work != nil {
				answer.Err, answer.Reply.Leases, s.work = "", s.work, nil
			}
			s.follow(answer)
		case message.Tell:
			switch m := a.Message.(type) {
			case message.Snapshot:
				pilotNo := int(a.To[1] - '1')
				whole := s.answer(pilotNo, matcher.ListDelta{Version: m.List.Version, Classes: m.List.Classes, Add: m.List.Entries})
				row := matcher.Row{Pilot: task.PilotID(a.To), Version: m.List.Version, Classes: whole.Classes, Exceptions: whole.Set}
				s.follow(master.FromPilot{From: a.To, Message: message.Report{Status: message.Status{Number: 2}, Row: &row}})
			case message.Assign:
				for _, given := range m.Tasks {
					s.where[given.Task.ID.Name()] = a.To
				}
			}
		}
	}
}

// answer is a pilot's row for a change of the list.
func (s *rankedSite) answer(pilot int, delta matcher.ListDelta) matcher.RowUpdate {
	update := matcher.RowUpdate{Base: delta.Base, Version: delta.Version}
	for _, class := range delta.Classes {
		answer := matcher.ClassAnswer{Class: class.No, Feasible: !s.fails}
		if s.fails {
			answer.FailedClause = "pilot.memory >= 5"
		}
		update.Classes = append(update.Classes, answer)
	}
	for _, entry := range delta.Add {
		if rank, given := s.ranks[entry.Task.ID.Name()]; given {
			update.Set = append(update.Set, matcher.Exception{No: entry.No, Rank: rank[pilot]})
		}
	}
	return update
}

// wronged is where greedy is far from the best: it gives a to p1 for 10, which
// leaves b to p2 for nothing, instead of 9 for each.
var wronged = map[string][2]float64{"a": {10, 9}, "b": {9, 0}}

// A site's solver is that of its settings.
func TestTheSiteChoosesTheSolver(t *testing.T) {
	for solver, want := range map[string]struct {
		a, b task.PeerID
	}{
		"": {"p1", "p2"}, "greedy": {"p1", "p2"}, "sequential": {"p1", "p2"},
		"exact": {"p2", "p1"}, "not known yet": {"p1", "p2"},
	} {
		s := newRankedSite(t, task.SiteSettings{SiteScheduling: task.SiteScheduling{Solver: solver}}, wronged, "a", "b")
		if s.where["a"] != want.a || s.where["b"] != want.b {
			t.Errorf("solver %q: a is at %q, b at %q; want %s and %s", solver, s.where["a"], s.where["b"], want.a, want.b)
		}
	}
}

// A draw is the same for the same term.
func TestDrawsCanBeRepeated(t *testing.T) {
	even := map[string][2]float64{"a": {1, 1}, "b": {1, 1}, "c": {1, 1}, "d": {1, 1}}
	first := newRankedSite(t, task.SiteSettings{SiteScheduling: task.SiteScheduling{Solver: "choose(4)"}}, even, "a", "b", "c", "d")
	again := newRankedSite(t, task.SiteSettings{SiteScheduling: task.SiteScheduling{Solver: "choose(4)"}}, even, "a", "b", "c", "d")
	if len(first.where) != 2 {
		t.Fatalf("%d tasks are given out", len(first.where))
	}
	for name, at := range first.where {
		if again.where[name] != at {
			t.Errorf("%s is at %s first, then at %s", name, at, again.where[name])
		}
	}
}

// Tasks without a rank get the site's; when it changes, the list names them
// anew.
func TestTheSiteRanksTasksThatGiveNoRank(t *testing.T) {
	s := newRankedSite(t, task.SiteSettings{SiteScheduling: task.SiteScheduling{Rank: "overlap"}}, nil, "a", "b", "c") // two of them run
	first := s.lists[len(s.lists)-1]
	if len(first.Classes) != 1 || first.Classes[0].Class.Rank != "overlap" {
		t.Fatalf("the tasks are listed as %+v", s.lists)
	}
	s.follow(master.TookOffice{Term: firstTerm, Settings: task.SiteSettings{Site: siteName, SiteScheduling: task.SiteScheduling{Rank: "rest"}}, Alone: true})
	s.settle()
	last := s.lists[len(s.lists)-1]
	if len(last.Classes) != 1 || last.Classes[0].Class.Rank != "rest" || len(last.Add) != 1 {
		t.Errorf("after the change the task that waits is listed as %+v", last)
	}
}

// The queue knows such tasks without rank: so it hears that nobody can run
// them.
func TestRefusalsNameTheClassOfTheQueue(t *testing.T) {
	s := newRankedSite(t, task.SiteSettings{SiteScheduling: task.SiteScheduling{Rank: "overlap"}}, nil)
	s.fails = true
	s.work = []task.Lease{{ID: 8, TTL: time.Hour, Tasks: []task.LeasedTask{{Task: given("a")[0].Task, Generation: 1, Number: 1}}}}
	s.settle()
	if len(s.refused) != 1 || s.refused[0].Class != given("a")[0].Task.Class() || s.returns != 1 {
		t.Errorf("the queue hears of %+v and gets %d tasks back", s.refused, s.returns)
	}
}

// A round takes seconds on a large site. What a pilot says in it of tasks that are on
// the list counts at once, also when it builds on the list that the round brings: it
// tells whose inputs the pilot has just made.
func TestWhatAPilotSaysDuringARoundCountsAtOnce(t *testing.T) {
	s := newRankedSite(t, task.SiteSettings{}, nil, "run1", "run2", "older", "newer")
	s.slow = true
	s.work = []task.Lease{{ID: 8, TTL: time.Hour, Tasks: []task.LeasedTask{{Task: given("further")[0].Task, Generation: 1, Number: 1, Age: 9}}}}
	s.settle()
	under := s.lists[len(s.lists)-1]
	if len(s.lists) < 2 || len(under.Add) != 1 || s.where["older"]+s.where["newer"] != "" {
		t.Fatalf("the list is %+v, and tasks are at %v", s.lists, s.where)
	}
	made := matcher.RowUpdate{Pilot: "p2", Base: under.Version, Version: under.Version}
	for _, entry := range s.lists[len(s.lists)-2].Add {
		if entry.Task.ID.Name() == "newer" {
			made.Set = []matcher.Exception{{No: entry.No, Rank: 1}}
		}
	}
	running := "run1"
	if s.where["run2"] == "p2" {
		running = "run2"
	}
	ended := task.Outcome{Attempt: attemptOf(running, "p2"), OK: true, Number: 1}
	s.follow(master.FromPilot{From: "p2", Message: message.Report{Status: message.Status{Number: 10, Seen: 10, Outcomes: []task.Outcome{ended}}, Updates: []matcher.RowUpdate{made}}})
	if s.settle(); s.where["newer"] != "p2" || s.where["older"] != "" {
		t.Errorf("tasks are at %v; p2 ranks the newer one higher", s.where)
	}
}
