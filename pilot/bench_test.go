package pilot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// A site of 1,500 pilots that holds 10,000 tasks: what one payload's end costs
// the master, from the report of the free slot to the next assignment.
func BenchmarkSlotEvent(b *testing.B) {
	site := newFullSite(b, 1500, 10_000, "")
	for b.Loop() {
		site.endOne()
	}
}

// What a tick costs when nothing is to be done.
func BenchmarkTick(b *testing.B) {
	site := newFullSite(b, 1500, 10_000, "")
	for b.Loop() {
		site.now = site.now.Add(time.Microsecond)
		site.master.Step(site.now, message.Tick{})
		site.master.Deadline()
	}
}

// What it costs that 1,000 tasks of the hand-out are cancelled at once.
func BenchmarkCancel(b *testing.B) {
	site := newFullSite(b, 1500, 10_000, "")
	for b.Loop() {
		b.StopTimer()
		lease := site.lease(1000)
		site.answerParked(task.SyncReply{Leases: []task.Lease{lease}})
		var revoked []task.Revoked
		for _, t := range lease.Tasks {
			revoked = append(revoked, task.Revoked{Lease: lease.ID, Task: t.Task.ID, Cancel: true})
		}
		b.StartTimer()
		site.answerParked(task.SyncReply{Revoked: revoked})
	}
}

// What a session of a replica policy costs at the same site, with 50 files that
// its listed tasks read.
func BenchmarkReplicaSession(b *testing.B) {
	site := newFullSite(b, 1500, 10_000, "alpha(15)")
	for b.Loop() {
		b.StopTimer()
		site.row(0) // something has changed
		b.StartTimer()
		site.pass(time.Second)
	}
}

// fullSite is a master with busy pilots.
type fullSite struct {
	b       *testing.B
	now     time.Time
	master  *master.Master
	term    task.Term
	version matcher.ListVersion
	classes []matcher.ListClass
	leases  task.LeaseID
	tasks   int
	jobs    []assignedJob // whose payload runs, oldest first
	counter uint64
	number  map[task.PilotID]uint64
	seen    map[task.PilotID]uint64
	parked  uint64 // number of the call that waits for news
}

type assignedJob struct {
	pilot task.PilotID
	message.Assignment
}

func newFullSite(b *testing.B, pilots, tasks int, replicate string) *fullSite {
	s := &fullSite{
		b: b, now: epoch, term: task.Term{Epoch: 1, Peer: peerOf(0)},
		number: make(map[task.PilotID]uint64), seen: make(map[task.PilotID]uint64),
	}
	s.master = master.New(master.Config{}, pilotOf(0), matcher.NewCompiler(64))
	settings := task.SiteSettings{Site: siteName, SiteScheduling: task.SiteScheduling{Prefill: 1, Replicate: replicate}}
	s.step(master.TookOffice{Term: s.term, Settings: settings, Leases: []task.Lease{s.lease(tasks)}, Alone: true})
	for i := range pilots {
		s.step(master.PilotUp{Pilot: pilotOf(i), Peer: peerOf(i)})
		s.number[pilotOf(i)]++
		s.step(master.FromPilot{From: peerOf(i), Message: message.State{
			Pilot: matcher.Pilot{ID: pilotOf(i), Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB}},
			Peer:  peerOf(i), Status: message.Status{Number: s.number[pilotOf(i)]},
		}})
	}
	for range 10 { // rounds that fill the list
		s.pass(300 * time.Millisecond)
	}
	for i := range pilots {
		s.row(i)
	}
	s.pass(time.Second)
	if len(s.jobs) != 2*pilots {
		b.Fatalf("%d tasks are given out to %d pilots", len(s.jobs), pilots)
	}
	return s
}

func pilotOf(i int) task.PilotID { return task.PilotID(fmt.Sprintf("p-%04d", i)) }
func peerOf(i int) task.PeerID   { return task.PeerID(fmt.Sprintf("peer-%04d", i)) }

// lease hands out single tasks that read one of a few shared files.
func (s *fullSite) lease(n int) task.Lease {
	s.leases++
	lease := task.Lease{ID: s.leases, TTL: time.Hour}
	for i := range 50 {
		lease.Files = append(lease.Files, *external(name(fmt.Sprintf("db%d", i))))
	}
	for range n {
		s.tasks++
		lease.Tasks = append(lease.Tasks, task.LeasedTask{Generation: 1, Number: 1, Age: uint64(s.tasks), Task: task.Task{
			ID: id(fmt.Sprintf("t%d", s.tasks)), Shell: "true", Walltime: time.Hour,
			Inputs:    []task.Input{{LFN: name(fmt.Sprintf("db%d", s.tasks%50)), Name: "db"}},
			Resources: task.Resources{Cores: 1, Memory: task.MiB},
		}})
	}
	return lease
}

// row answers the whole list for a pilot: everything is feasible, one file in
// ten is in its cache.
func (s *fullSite) row(i int) {
	id := pilotOf(i)
	row := matcher.Row{Pilot: id, Version: s.version}
	for _, class := range s.classes {
		row.Classes = append(row.Classes, matcher.ClassAnswer{Class: class.No, Feasible: true})
	}
	s.number[id]++
	s.step(master.FromPilot{From: peerOf(i), Message: message.Report{Status: message.Status{Number: s.number[id], Seen: s.seen[id]}, Row: &row}})
}

func (s *fullSite) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.step(message.Tick{})
}

// step drives the master and answers like a site and a queue without delay.
func (s *fullSite) step(event message.Event) {
	for _, action := range s.master.Step(s.now, event) {
		switch a := action.(type) {
		case master.CastList:
			s.version = a.List.Delta.Version
			s.classes = append(s.classes, a.List.Delta.Classes...)
			s.step(master.BroadcastDone{N: a.N, Answers: s.answers(a.List.Delta)})
		case master.CallSync:
			s.sync(a)
		case message.Tell:
			if m, assigned := a.Message.(message.Assign); assigned {
				to := task.PilotID("p-" + string(a.To[len("peer-"):]))
				s.seen[to] = m.Serial
				for _, given := range m.Tasks {
					s.jobs = append(s.jobs, assignedJob{to, given})
				}
			}
		}
	}
}

func (s *fullSite) answers(delta matcher.ListDelta) []message.Answer {
	var answers []message.Answer
	for i := range len(s.number) {
		update := matcher.RowUpdate{Pilot: pilotOf(i), Base: delta.Base, Version: delta.Version}
		for _, class := range delta.Classes {
			update.Classes = append(update.Classes, matcher.ClassAnswer{Class: class.No, Feasible: true})
		}
		answers = append(answers, message.Answer{Pilot: pilotOf(i), Peer: peerOf(i), Update: &update})
	}
	return answers
}

// sync accepts every outcome and hands out as many tasks as have ended.
func (s *fullSite) sync(c master.CallSync) {
	reply := task.SyncReply{}
	for i := range c.Sync.Outcomes {
		reply.Acks = append(reply.Acks, task.Ack{Attempt: c.Sync.Outcomes[i].Attempt, Verdict: task.AckAccepted})
	}
	if n := len(reply.Acks); n > 0 {
		reply.Leases = []task.Lease{s.lease(n)}
	}
	if len(reply.Acks) == 0 && c.Sync.Hold > 0 {
		s.parked = c.N
		return
	}
	s.step(master.SyncAnswered{N: c.N, Reply: reply})
}

// answerParked brings news by the parked call.
func (s *fullSite) answerParked(reply task.SyncReply) {
	for range 100 {
		if n := s.parked; n != 0 {
			s.parked = 0
			s.step(master.SyncAnswered{N: n, Reply: reply})
			return
		}
		s.pass(time.Second)
	}
	s.b.Fatal("no call is parked")
}

// endOne ends the payload that runs longest and starts the next one there.
func (s *fullSite) endOne() {
	s.now = s.now.Add(100 * time.Microsecond)
	ended := s.jobs[0]
	s.jobs = s.jobs[1:]
	s.counter++
	s.number[ended.pilot]++
	attempt := task.AttemptID{Task: ended.Task.ID, Generation: 1, Lease: ended.Lease, Pilot: ended.pilot, Counter: s.counter}
	s.step(master.FromPilot{From: task.PeerID("peer-" + string(ended.pilot[2:])), Message: message.Report{
		Status: message.Status{
			Number: s.number[ended.pilot], Seen: s.seen[ended.pilot],
			Outcomes: []task.Outcome{{Attempt: attempt, OK: true, Site: siteName, Delay: -1}},
		},
		Starts: []task.Start{{Attempt: attempt, Number: 1, Started: s.now}},
	}})
}
