package pilot_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// BenchmarkGrowth has tasks of ever new classes run by pilots that come and go
// under one master, and prints what the master holds and what its steps cost as
// it goes: one hundredth of 1,000,000 tasks, 10,000 pilots and 10,000 classes,
// or the share that PILOTAGE_GROWTH says. An hour passes with every hundredth of
// the work.
func BenchmarkGrowth(b *testing.B) {
	share := .01
	if text := os.Getenv("PILOTAGE_GROWTH"); text != "" {
		var err error
		if share, err = strconv.ParseFloat(text, 64); err != nil {
			b.Fatal(err)
		}
	}
	const rounds = 100
	part := func(n float64) int { return max(1, int(n*share/rounds)) }
	for b.Loop() {
		g := newGrowth(b)
		_, _ = fmt.Fprintf(os.Stderr, "%9s %8s %8s %9s %9s %9s %9s  %s\n", "tasks", "pilots", "entries", "heap", "event", "tick", "longest", "largest tables")
		for round := range rounds {
			g.round(part(10_000), part(1_000_000), part(10_000))
			if round == 0 || (round+1)%(rounds/10) == 0 {
				g.show()
			}
		}
	}
}

// What a master holds does not grow with the tasks, classes and pilots that it
// has seen.
func TestMasterShrinksToWhatIsThere(t *testing.T) {
	g := newGrowth(t)
	g.round(20, 300, 300)
	before := tables(g.master)
	for range 5 {
		g.round(20, 300, 300)
	}
	after := tables(g.master)
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if after[path] > before[path]+20 {
			t.Errorf("%s has %d entries after six rounds, %d after the first", path, after[path], before[path])
		}
	}
}

// growth is a master whose pilots come and go.
type growth struct {
	t       testing.TB
	now     time.Time
	master  *master.Master
	members []*grower // that are here
	byPeer  map[task.PeerID]*grower
	jobs    []assignedJob // whose payload runs, oldest first
	todo    []task.LeasedTask
	open    map[task.LeaseID]int
	leases  task.LeaseID
	tasks   int
	done    int
	classes int
	pilots  int
	counter uint64
	steps   int
	took    time.Duration // of all steps since the last line
	longest time.Duration
}

// grower is a pilot.
type grower struct {
	id     task.PilotID
	peer   task.PeerID
	number uint64
	seen   uint64
}

func newGrowth(t testing.TB) *growth {
	g := &growth{t: t, now: epoch, byPeer: make(map[task.PeerID]*grower), open: make(map[task.LeaseID]int)}
	g.master = master.New(master.Config{}, "p-master", matcher.NewCompiler(64))
	g.step(master.TookOffice{
		Term: task.Term{Epoch: 1, Peer: "peer-master"}, Alone: true,
		Settings: task.SiteSettings{Site: siteName, SE: "file:///se", SiteScheduling: task.SiteScheduling{Prefill: 1}},
	})
	return g
}

// round has tasks of new classes run by new pilots, which then go.
func (g *growth) round(pilots, tasks, classes int) {
	for range pilots {
		g.pilots++
		p := &grower{id: task.PilotID(fmt.Sprintf("p-%07d", g.pilots)), peer: task.PeerID(fmt.Sprintf("peer-%07d", g.pilots))}
		g.members, g.byPeer[p.peer] = append(g.members, p), p
		g.step(master.PilotUp{Pilot: p.id, Peer: p.peer})
		p.number++
		g.step(master.FromPilot{From: p.peer, Message: message.State{
			Pilot: matcher.Pilot{ID: p.id, Host: "host-" + string(p.id), Slots: 10, Resources: task.Resources{Cores: 10, Memory: 10 * task.GiB}}, Peer: p.peer, Status: message.Status{Number: p.number},
		}})
	}
	for i := range tasks {
		g.tasks++
		g.todo = append(g.todo, task.LeasedTask{Generation: 1, Number: 1, Age: uint64(g.tasks), Task: task.Task{
			ID: id(fmt.Sprintf("t%d", g.tasks)), Shell: "true", Walltime: time.Hour,
			Require:   fmt.Sprintf("pilot.cores > %d", g.classes+i%classes),
			Outputs:   []task.Output{{LFN: name(fmt.Sprintf("out%d", g.tasks)), Name: "out"}},
			Resources: task.Resources{Cores: 1, Memory: task.MiB},
		}})
	}
	g.classes += classes
	for idle := 0; g.done < g.tasks; {
		if len(g.jobs) > 0 {
			g.endOne()
			idle = 0
			continue
		}
		if idle++; idle > 1000 {
			g.t.Fatalf("%d tasks of %d are done, and nothing goes on", g.done, g.tasks)
		}
		g.pass(100 * time.Millisecond)
	}
	for i, p := range g.members {
		delete(g.byPeer, p.peer)
		g.step(master.PilotDown{Pilot: p.id, Peer: p.peer, Left: i%2 == 0})
	}
	g.members = nil
	for range 60 {
		g.pass(time.Minute)
	}
}

func (g *growth) pass(d time.Duration) {
	g.now = g.now.Add(d)
	g.step(message.Tick{})
}

// endOne ends the payload that runs longest: with an output that is stored, or
// with a failure.
func (g *growth) endOne() {
	g.now = g.now.Add(time.Millisecond)
	ended := g.jobs[0]
	g.jobs = g.jobs[1:]
	p := g.byPeer[task.PeerID("peer-"+string(ended.pilot[2:]))]
	g.counter++
	p.number++
	attempt := task.AttemptID{Task: ended.Task.ID, Generation: 1, Lease: ended.Lease, Pilot: p.id, Counter: g.counter}
	made := ended.Task.Outputs[0].LFN
	outcome := task.Outcome{Attempt: attempt, OK: true, Site: siteName, Delay: -1, Run: time.Second}
	outcome.Outputs = []task.Produced{{LFN: made, Size: 1, Digest: digestOf(string(made)), URL: "file:///se/" + string(made)}}
	if g.counter%50 == 0 { // the last attempt that the task had
		outcome.OK, outcome.Outputs, outcome.Failure, outcome.Reason = false, nil, task.PayloadFailed, "exit code 1"
	}
	g.step(master.FromPilot{From: p.peer, Message: message.Report{
		Status: message.Status{Number: p.number, Seen: p.seen, Outcomes: []task.Outcome{outcome}}, Starts: []task.Start{{Attempt: attempt, Number: 1, Started: g.now}},
	}})
}

// step drives the master and answers like a site and a queue without delay.
func (g *growth) step(event message.Event) {
	began := time.Now()
	actions := g.master.Step(g.now, event)
	took := time.Since(began)
	g.took, g.longest, g.steps = g.took+took, max(g.longest, took), g.steps+1
	for _, action := range actions {
		switch a := action.(type) {
		case master.CastList:
			g.step(master.BroadcastDone{N: a.N, Answers: g.answers(a.List.Delta)})
		case master.CallSync:
			g.sync(a)
		case message.Tell:
			if p := g.byPeer[a.To]; p != nil {
				g.told(p, a.Message)
			}
		}
	}
}

func (g *growth) told(p *grower, said message.Message) {
	switch m := said.(type) {
	case message.Assign:
		p.seen = m.Serial
		for _, given := range m.Tasks {
			g.jobs = append(g.jobs, assignedJob{p.id, given})
		}
	case message.Want:
		p.seen = m.Serial
	case message.Snapshot:
		row := matcher.Row{Pilot: p.id, Version: m.List.Version, Classes: feasible(m.List.Classes)}
		p.number++
		g.step(master.FromPilot{From: p.peer, Message: message.Report{Status: message.Status{Number: p.number, Seen: p.seen}, Row: &row}})
	}
}

func feasible(classes []matcher.ListClass) (answers []matcher.ClassAnswer) {
	for _, class := range classes {
		answers = append(answers, matcher.ClassAnswer{Class: class.No, Feasible: true})
	}
	return answers
}

func (g *growth) answers(delta matcher.ListDelta) (answers []message.Answer) {
	for _, p := range g.members {
		update := matcher.RowUpdate{Pilot: p.id, Base: delta.Base, Version: delta.Version, Classes: feasible(delta.Classes)}
		answers = append(answers, message.Answer{Pilot: p.id, Peer: p.peer, Update: &update})
	}
	return answers
}

// sync accepts every outcome and hands out 2,000 tasks at a time. Idle calls
// stay parked.
func (g *growth) sync(c master.CallSync) {
	reply := task.SyncReply{Settings: task.SiteSettings{Site: siteName, SE: "file:///se", SiteScheduling: task.SiteScheduling{Prefill: 1}}}
	for i := range c.Sync.Outcomes {
		attempt := c.Sync.Outcomes[i].Attempt
		reply.Acks = append(reply.Acks, task.Ack{Attempt: attempt, Verdict: task.AckAccepted})
		if g.open[attempt.Lease]--; g.open[attempt.Lease] == 0 {
			delete(g.open, attempt.Lease)
		}
		g.done++
	}
	for _, lease := range c.Sync.Leases {
		if g.open[lease] == 0 {
			reply.Unknown = append(reply.Unknown, lease)
		}
	}
	waiting := 0
	for _, n := range g.open {
		waiting += n
	}
	if n := min(len(g.todo), 2000-waiting); n > 0 && (n >= 1000 || n == len(g.todo)) {
		g.leases++
		reply.Leases = []task.Lease{{ID: g.leases, TTL: time.Hour, Tasks: slices.Clone(g.todo[:n])}}
		g.open[g.leases] = n
		g.todo = slices.Clone(g.todo[n:])
	}
	if c.Sync.Hold > 0 && len(reply.Acks)+len(reply.Leases)+len(reply.Unknown) == 0 && len(c.Sync.Departed)+len(c.Sync.Joined)+len(c.Sync.Starts) == 0 {
		return // parked
	}
	g.step(master.SyncAnswered{N: c.N, Reply: reply})
}

// show prints a line: what the master holds, and what its steps have cost.
func (g *growth) show() {
	event, longest := g.took/time.Duration(max(1, g.steps)), g.longest
	g.took, g.steps = 0, 0
	for range 100 {
		g.pass(time.Millisecond)
	}
	tick := g.took / 100
	g.took, g.steps, g.longest = 0, 0, 0
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	found := tables(g.master)
	paths := slices.SortedFunc(maps.Keys(found), func(a, b string) int { return cmp.Compare(found[b], found[a]) })
	sum := 0
	var largest []string
	for i, path := range paths {
		sum += found[path]
		if i < 4 {
			largest = append(largest, fmt.Sprintf("%s %d", path, found[path]))
		}
	}
	_, _ = fmt.Fprintf(os.Stderr, "%9d %8d %8d %6.1fMiB %9s %9s %9s  %s\n", g.done, g.pilots, sum, float64(memory.HeapAlloc)/(1<<20),
		event.Round(time.Microsecond/10), tick.Round(time.Microsecond/10), longest.Round(time.Microsecond), strings.Join(largest, ", "))
}

// tables counts the entries of every map and slice that a master holds, by
// where it stands, without a list of fields that somebody could forget.
func tables(chief *master.Master) map[string]int {
	found := make(map[string]int)
	seen := make(map[uintptr]bool)
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] && v.Type() != reflect.TypeFor[*matcher.Compiler]() {
				seen[v.Pointer()] = true
				walk(v.Elem(), path)
			}
		case reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Map:
			found[path] += v.Len()
			for entries := v.MapRange(); entries.Next(); {
				walk(entries.Value(), path+"[]")
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return
			}
			found[path] += v.Len()
			for i := range v.Len() {
				walk(v.Index(i), path+"[]")
			}
		}
	}
	walk(reflect.ValueOf(chief), "master")
	return found
}
