package pilot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// siteBench is a master with pilots p1 and p2 of one slot each, which hold
// tasks a and b of lease 7; c waits.
type siteBench struct {
	*bench
	call  uint64   // last one to the queue
	open  []uint64 // calls without an answer
	calls func(task.Sync)
	said  map[task.PeerID]uint64
	seen  map[task.PeerID]uint64
	where map[string]task.PeerID
	has   map[task.PilotID]task.FileKey // what pilots say to have when they are asked
}

func newSiteBench(t *testing.T, names ...string) *siteBench {
	m := master.New(master.Config{}, "p1", matcher.NewCompiler(8))
	s := &siteBench{
		bench: &bench{t: t, now: epoch, step: m.Step},
		said:  make(map[task.PeerID]uint64), seen: make(map[task.PeerID]uint64), where: make(map[string]task.PeerID),
	}
	lease := task.Lease{ID: 7, TTL: time.Minute}
	for i, short := range names {
		lease.Tasks = append(lease.Tasks, task.LeasedTask{Task: given(short)[0].Task, Generation: 1, Number: 1, Age: uint64(i)})
	}
	s.follow(master.TookOffice{Term: firstTerm, Settings: task.SiteSettings{Site: siteName}, Leases: []task.Lease{lease}, Alone: true})
	for _, id := range []task.PilotID{"p1", "p2"} {
		s.follow(master.PilotUp{Pilot: id, Peer: task.PeerID(id)})
		s.follow(s.news(task.PeerID(id), message.State{
			Pilot: matcher.Pilot{ID: id, Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB}}, Peer: task.PeerID(id),
			List: matcher.ListVersion{Term: firstTerm},
		}))
	}
	s.now = s.now.Add(time.Second)
	s.follow(message.Tick{})
	return s
}

// news numbers what a pilot says.
func (s *siteBench) news(from task.PeerID, m message.Message) master.FromPilot {
	s.said[from]++
	switch said := m.(type) {
	case message.State:
		said.Number, said.Seen = s.said[from], s.seen[from]
		m = said
	case message.Report:
		said.Number, said.Seen = s.said[from], s.seen[from]
		m = said
	}
	return master.FromPilot{From: from, Message: m}
}

// follow steps, answers broadcasts for all pilots and notes assignments.
func (s *siteBench) follow(event message.Event) []message.Action {
	first := s.do(event)
	actions := first
	for _, action := range first {
		switch a := action.(type) {
		case master.CastList:
			done := master.BroadcastDone{N: a.N}
			for _, id := range []task.PilotID{"p1", "p2"} {
				update := matcher.RowUpdate{Pilot: id, Base: a.List.Delta.Base, Version: a.List.Delta.Version}
				for _, class := range a.List.Delta.Classes {
					update.Classes = append(update.Classes, matcher.ClassAnswer{Class: class.No, Feasible: true})
				}
				answer := message.Answer{Pilot: id, Peer: task.PeerID(id), Update: &update}
				if has := s.has[id]; slices.Contains(a.List.Ask, has) {
					answer.Have = []task.FileKey{has}
				}
				done.Answers = append(done.Answers, answer)
			}
			actions = append(actions, s.follow(done)...)
		case master.CallSync:
			s.call = a.N
			s.open = append(s.open, a.N)
			if s.calls != nil {
				s.calls(a.Sync)
			}
		case message.Tell:
			switch m := a.Message.(type) {
			case message.Snapshot:
				row := matcher.Row{Pilot: task.PilotID(a.To), Version: m.List.Version}
				for _, class := range m.List.Classes {
					row.Classes = append(row.Classes, matcher.ClassAnswer{Class: class.No, Feasible: true})
				}
				actions = append(actions, s.follow(s.news(a.To, message.Report{Row: &row}))...)
			case message.Want:
				s.seen[a.To] = m.Serial
			case message.Assign:
				s.seen[a.To] = m.Serial
				for _, given := range m.Tasks {
					s.where[given.Task.ID.Name()] = a.To
				}
			}
		}
	}
	return actions
}

func attemptOf(task_ string, at task.PeerID) task.AttemptID {
	return task.AttemptID{Task: id(task_), Generation: 1, Lease: 7, Pilot: task.PilotID(at), Counter: 1}
}

// reports has a pilot tell of outcomes.
func (s *siteBench) reports(from task.PeerID, outcomes ...task.Outcome) []message.Action {
	return s.follow(s.news(from, message.Report{Status: message.Status{Outcomes: outcomes}}))
}

// synced answers the calls that are under way, the last one with a reply, and
// returns what the next one with content carries, or an empty one.
func (s *siteBench) synced(reply task.SyncReply) task.Sync {
	s.t.Helper()
	var last task.Sync
	for range 4 {
		open := s.open
		s.open = nil
		for i, n := range open {
			answer := master.SyncAnswered{N: n}
			if i == len(open)-1 {
				answer.Reply, reply = reply, task.SyncReply{}
			}
			for _, call := range all[master.CallSync](s.follow(answer)) {
				last = call.Sync
			}
		}
		s.now = s.now.Add(500 * time.Millisecond)
		for _, call := range all[master.CallSync](s.follow(message.Tick{})) {
			last = call.Sync
		}
		if last.Hold == 0 && !last.Term.IsZero() {
			return last
		}
	}
	return last
}

// The predecessor of a new master died before it could be met. The queue hears of it
// all the same.
func TestWhoDiedBeforeThisMasterMetItIsReported(t *testing.T) {
	s := newSiteBench(t, "a")
	s.follow(master.PilotDown{Pilot: "predecessor", Peer: "predecessor", Reason: "it answered nobody"})
	want := task.Departure{Pilot: "predecessor", Dead: true, Reason: "it answered nobody"}
	if sync := s.synced(task.SyncReply{}); len(sync.Departed) != 1 || sync.Departed[0] != want {
		t.Errorf("the queue hears %+v, want %+v", sync.Departed, want)
	}
}

// A pilot that was held for dead comes back and says that its attempt failed,
// while another runs the task: the queue books it, and the site goes on.
func TestAFailureOfASupersededAttemptDecidesNothing(t *testing.T) {
	s := newSiteBench(t, "a")
	first := s.where["a"]
	s.follow(master.PilotDown{Pilot: task.PilotID(first), Peer: first})
	second := s.where["a"]
	if first == second {
		t.Fatalf("a is at %s still", first)
	}
	s.follow(master.PilotUp{Pilot: task.PilotID(first), Peer: first})
	failed := attemptOf("a", first)
	if kills := told[message.Kill](s.reports(first, task.Outcome{Attempt: failed, Failure: task.PayloadFailed})); len(kills) > 0 {
		t.Fatalf("the other attempt is killed: %+v", kills)
	}
	if sync := s.synced(task.SyncReply{}); len(sync.Outcomes) != 1 || sync.Outcomes[0].Attempt != failed {
		t.Fatalf("the queue hears %+v", sync.Outcomes)
	}
	if sync := s.synced(task.SyncReply{Acks: []task.Ack{{Attempt: failed, Verdict: task.AckAccepted}}}); len(sync.Outcomes) > 0 {
		t.Fatalf("the queue hears %+v again", sync.Outcomes)
	}
	s.reports(second, task.Outcome{Attempt: attemptOf("a", second), OK: true})
	if sync := s.synced(task.SyncReply{}); len(sync.Outcomes) != 1 || !sync.Outcomes[0].OK {
		t.Fatalf("the queue hears %+v of the attempt that counts", sync.Outcomes)
	}
}

// A call that waits for news ends with the next one that has content. While slots have
// work that one is near, so none is parked; when all work is given out, one is.
func TestACallIsParkedWhereNoneWithContentIsNear(t *testing.T) {
	ends := func(s *siteBench, name string) []message.Action {
		at := s.where[name]
		return s.reports(at, task.Outcome{Attempt: attemptOf(name, at), OK: true})
	}
	for _, c := range []struct {
		names []string
		ready bool // one task is, when the first has ended
	}{{[]string{"a", "b"}, false}, {[]string{"a", "b", "c", "d"}, true}} {
		s := newSiteBench(t, c.names...)
		for s.synced(task.SyncReply{}).Hold == 0 {
		}
		ends(s, "a")
		s.now = s.now.Add(200 * time.Millisecond)
		s.follow(message.Tick{})
		var calls []master.CallSync
		for _, n := range s.open {
			calls = append(calls, all[master.CallSync](s.follow(master.SyncAnswered{N: n}))...)
		}
		if parks := len(calls) == 1 && calls[0].Sync.Hold > 0; len(s.open) < 2 || parks == c.ready {
			t.Errorf("%d tasks: of %d open calls the last brought the outcome, then came %+v", len(c.names), len(s.open), calls)
		}
		if calls = all[master.CallSync](ends(s, "b")); c.ready && len(calls) != 1 {
			t.Errorf("the last task is given out, and %d calls are made", len(calls))
		}
	}
}

// A call without news has the number of the last one with some: carried out late, it is
// known to be overtaken.
func TestACallWithoutNewsHasTheNumberOfTheLastOneWithSome(t *testing.T) {
	s := newSiteBench(t, "a")
	told := uint64(0)
	call := s.synced(task.SyncReply{})
	for ; call.Hold == 0; call = s.synced(task.SyncReply{}) {
		told = call.Number
	}
	if told == 0 || call.Number != told {
		t.Errorf("it has number %d, the call with news before it %d", call.Number, told)
	}
}

// An answer that was overtaken by a later one may list leases as open that
// are over by now.
func TestWishesOfAnOlderAnswerAreIgnored(t *testing.T) {
	s := newSiteBench(t, "a")
	for s.synced(task.SyncReply{}).Hold == 0 {
	}
	older := s.call // an empty one, which the queue parks
	actions := s.reports(s.where["a"], task.Outcome{Attempt: attemptOf("a", s.where["a"]), OK: true})
	newer := s.call
	if older == newer || len(all[master.CallSync](actions)) == 0 {
		t.Fatalf("the outcome is not sent at once although no work is left: calls %d, %d", older, newer)
	}
	s.follow(master.SyncAnswered{N: newer, Reply: task.SyncReply{Acks: []task.Ack{{Attempt: attemptOf("a", s.where["a"]), Verdict: task.AckAccepted}}}})
	s.where["a"] = ""
	again := task.Lease{ID: 7, TTL: time.Minute, Tasks: []task.LeasedTask{{Task: given("a")[0].Task, Generation: 1, Number: 1}}}
	s.follow(master.SyncAnswered{N: older, Reply: task.SyncReply{Leases: []task.Lease{again}}})
	s.now = s.now.Add(time.Second)
	s.follow(message.Tick{})
	if s.where["a"] != "" {
		t.Fatal("a task that is done is given out again")
	}
}

// What was given back is not taken again from an answer that was on its way.
func TestATaskThatWasGivenBackIsNotTakenAgain(t *testing.T) {
	s := newSiteBench(t, "a", "b", "c")
	sync := s.synced(task.SyncReply{Revoked: []task.Revoked{{Lease: 7, Task: id("c")}}})
	if len(sync.Returns) != 1 || sync.Returns[0].Task != id("c") || len(sync.Confirmed) != 1 {
		t.Fatalf("the queue hears %+v, %+v", sync.Returns, sync.Confirmed)
	}
	again := task.Lease{ID: 7, TTL: time.Minute, Tasks: []task.LeasedTask{{Task: given("c")[0].Task, Generation: 1, Number: 1}}}
	sync = s.synced(task.SyncReply{Leases: []task.Lease{again}})
	if sync.Capacity.Waiting > 0 {
		t.Fatal("the master holds the task again")
	}
}

// A recall of a task that a pilot has is confirmed when the pilot has
// answered: the queue takes a confirmation for a return.
func TestARecallWaitsForThePilot(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	actions := s.follow(master.SyncAnswered{N: s.call, Reply: task.SyncReply{Revoked: []task.Revoked{{Lease: 7, Task: id("a")}}}})
	if retracts := told[message.Retract](actions); len(retracts) != 1 {
		t.Fatalf("the pilot is asked %d times", len(retracts))
	}
	if sync := s.synced(task.SyncReply{}); len(sync.Confirmed)+len(sync.Returns) > 0 {
		t.Fatalf("the recall is confirmed before the pilot has answered: %+v", sync)
	}
	started := task.Start{Attempt: attemptOf("a", s.where["a"]), Number: 1, Started: s.now}
	s.follow(s.news(s.where["a"], message.Report{
		Starts: []task.Start{started}, Retracts: []message.RetractAnswer{{Task: id("a"), Lease: 7}},
	}))
	sync := s.synced(task.SyncReply{})
	if len(sync.Confirmed) != 1 || len(sync.Returns) > 0 || len(sync.Starts) != 1 {
		t.Fatalf("after the start the queue hears %+v, %+v, %+v", sync.Confirmed, sync.Returns, sync.Starts)
	}
}

func TestAFencedMasterAssignsNothing(t *testing.T) {
	s := newSiteBench(t, "a", "b", "c")
	if fenced := all[master.Fenced](s.follow(master.SyncAnswered{N: s.call, Stale: true, Err: "stale"})); len(fenced) != 1 {
		t.Fatal("nobody is told")
	}
	s.reports(s.where["a"], task.Outcome{Attempt: attemptOf("a", s.where["a"]), OK: true})
	if s.where["c"] != "" {
		t.Fatal("a fenced master gives out work")
	}
}

func TestOutcomesGoToTheQueueInBoundedCalls(t *testing.T) {
	names := []string{"a", "b"}
	s := newSiteBench(t, names...)
	log := []byte(strings.Repeat("x", task.LogTail))
	var outcomes []task.Outcome
	for i := range 100 {
		attempt := attemptOf("other", "p2")
		attempt.Counter = uint64(i + 1)
		outcomes = append(outcomes, task.Outcome{Attempt: attempt, OK: true, Stdout: log, Stderr: log})
	}
	s.reports("p2", outcomes...)
	heard := make(map[task.AttemptID]bool)
	reply := task.SyncReply{}
	for len(heard) < len(outcomes) {
		sync := s.synced(reply)
		bytes := 0
		reply = task.SyncReply{}
		for _, o := range sync.Outcomes {
			if heard[o.Attempt] {
				t.Fatalf("%s is sent again after its verdict", o.Attempt)
			}
			heard[o.Attempt] = true
			bytes += len(o.Stdout) + len(o.Stderr)
			reply.Acks = append(reply.Acks, task.Ack{Attempt: o.Attempt, Verdict: task.AckUnknown})
		}
		if bytes > 2<<20 {
			t.Fatalf("a call carries %d bytes of logs", bytes)
		}
	}
}

// Reads are sums: the queue counts a report by its number once, however often
// it is sent, and none goes missing.
func TestReadsAreReportedOnce(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	counted := make(map[uint64]uint64)
	s.calls = func(sync task.Sync) {
		for _, read := range sync.Report.SEReads {
			if before, known := counted[sync.Report.Seq]; known && before != read.Files {
				t.Fatalf("report %d says %d files, then %d", sync.Report.Seq, before, read.Files)
			}
			counted[sync.Report.Seq] = read.Files
		}
	}
	for i := range 20 {
		s.follow(s.news("p2", message.Report{
			SEReads: []task.SERead{{Owner: siteName, Files: 1}},
			Starts:  []task.Start{{Attempt: attemptOf("a", "p2"), Number: i, Started: s.now}},
		}))
		s.now = s.now.Add(300 * time.Millisecond)
		s.follow(message.Tick{})
		answer := master.SyncAnswered{N: s.call}
		if i%3 == 0 {
			answer.Err = "the connection broke"
		}
		s.follow(answer)
	}
	for range 5 {
		s.synced(task.SyncReply{})
	}
	var sum uint64
	for _, n := range counted {
		sum += n
	}
	if sum != 20 {
		t.Fatalf("the queue counts %d reads of 20", sum)
	}
}

// A provisional master finds two copies of the hand-out, of which the older has
// a task under a lease that is over. It goes on under the younger one, so that
// the queue's word of that lease, when it confirms the master, is nothing new.
func TestAnOlderCopyOfTheHandOutTakesNothingFromAYoungerOne(t *testing.T) {
	m := master.New(master.Config{}, "p1", matcher.NewCompiler(8))
	b := &bench{t: t, now: epoch, step: m.Step}
	settings := task.SiteSettings{Site: siteName}
	leased := []task.LeasedTask{{Task: given("a")[0].Task, Generation: 1, Number: 1}}
	before, after := task.Lease{ID: 3, TTL: time.Minute, Tasks: leased}, task.Lease{ID: 7, TTL: time.Minute, Tasks: leased}
	state := func(id task.PilotID, copied task.Lease, age time.Duration) message.Answer {
		return message.Answer{Pilot: id, Peer: task.PeerID(id), State: &message.State{
			Pilot: matcher.Pilot{ID: id, Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB}}, Peer: task.PeerID(id),
			Status: message.Status{Number: 1}, Copies: []task.Lease{copied}, CopiesAge: age,
		}}
	}
	var leases []task.LeaseID
	waiting := 0
	for _, action := range b.do(master.TookOffice{Term: firstTerm, Settings: settings, Provisional: true}) {
		if cast, is := action.(master.CastList); is && cast.List.Census {
			b.do(master.PilotUp{Pilot: "p2", Peer: "p2"})
			b.do(master.PilotUp{Pilot: "p3", Peer: "p3"})
			b.do(master.BroadcastDone{N: cast.N, Answers: []message.Answer{state("p2", after, 0), state("p3", before, 10*time.Millisecond)}})
		}
	}
	for _, action := range b.do(master.TookOffice{Term: secondTerm, Settings: settings, Leases: []task.Lease{after}}) {
		if call, is := action.(master.CallSync); is {
			leases, waiting = call.Sync.Leases, call.Sync.Capacity.Waiting
		}
	}
	if !slices.Equal(leases, []task.LeaseID{7}) || waiting != 1 {
		t.Errorf("the master goes on under leases %v with %d tasks", leases, waiting)
	}
}
