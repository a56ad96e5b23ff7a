package replica

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// site plays what the planners decide.
type site struct {
	nodes   []Node
	sizes   map[task.FileKey]task.Bytes
	copied  map[task.FileKey]map[task.PilotID]*Copied
	waiting []Task
	running map[task.PilotID]Task
	now     time.Time
}

func newSite(nodes int, room task.Bytes) *site {
	s := &site{
		sizes: make(map[task.FileKey]task.Bytes), copied: make(map[task.FileKey]map[task.PilotID]*Copied),
		running: make(map[task.PilotID]Task), now: time.Unix(1, 0),
	}
	for i := range nodes {
		s.nodes = append(s.nodes, Node{ID: task.PilotID(fmt.Sprint("n", i)), Room: room})
	}
	return s
}

// file puts a file on a node without taking room.
func (s *site) file(file task.FileKey, size task.Bytes, node task.PilotID) {
	s.sizes[file] = size
	s.copied[file] = map[task.PilotID]*Copied{node: {Node: node, Complete: true}}
}

func (s *site) view() View {
	nodes := slices.Clone(s.nodes)
	for i := range nodes {
		_, busy := s.running[nodes[i].ID]
		nodes[i].Free = !busy
	}
	return View{
		Tasks: slices.Clone(s.waiting), Nodes: nodes,
		Replicas: func(file task.FileKey) (replicas []Copied) {
			for _, node := range slices.Sorted(maps.Keys(s.copied[file])) {
				replicas = append(replicas, *s.copied[file][node])
			}
			return replicas
		},
		Size: func(file task.FileKey) task.Bytes { return s.sizes[file] },
		Running: func(no uint64) bool {
			for _, t := range s.running {
				if t.No == no {
					return true
				}
			}
			return false
		},
	}
}

func (s *site) node(id task.PilotID) *Node {
	return &s.nodes[slices.IndexFunc(s.nodes, func(n Node) bool { return n.ID == id })]
}

// fatal is what both kinds of tests have.
type fatal interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// do carries decisions out and fails on what is impossible.
func (s *site) do(t fatal, d Decisions) {
	t.Helper()
	for _, drop := range d.Drops {
		if s.copied[drop.File][drop.Node] == nil {
			t.Fatalf("%+v: it is not there", drop)
		}
		delete(s.copied[drop.File], drop.Node)
		s.node(drop.Node).Room += s.sizes[drop.File]
		if !slices.ContainsFunc(slices.Collect(maps.Values(s.copied[drop.File])), func(c *Copied) bool { return c.Complete }) {
			t.Fatalf("%+v: it was the last one", drop)
		}
	}
	for _, c := range d.Copies {
		from := s.copied[c.File][c.From]
		if s.copied[c.File][c.To] != nil || from == nil || !from.Complete {
			t.Fatalf("%+v cannot be", c)
		}
		s.copied[c.File][c.To] = &Copied{Node: c.To}
		if s.node(c.To).Room -= s.sizes[c.File]; s.node(c.To).Room < 0 {
			t.Fatalf("%+v: no room", c)
		}
	}
	for _, start := range d.Starts {
		at := slices.IndexFunc(s.waiting, func(w Task) bool { return w.No == start.No })
		if _, busy := s.running[start.Node]; busy || at < 0 || !s.waiting[at].canRun(start.Node) {
			t.Fatalf("%+v cannot be", start)
		}
		s.running[start.Node] = s.waiting[at]
		for _, file := range s.waiting[at].Files {
			if c := s.copied[file][start.Node]; c != nil {
				c.Used = s.now
			}
		}
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	s.now = s.now.Add(time.Second)
}

func (s *site) arrive() {
	for _, nodes := range s.copied {
		for _, c := range nodes {
			c.Complete = true
		}
	}
}

func reads(no uint64, files ...task.FileKey) Task {
	return Task{No: no, Files: files, Weight: 1, Runtime: 10 * time.Second}
}

// TestAlphaIs003 (section 4, Fig. 4): of 40 tasks on one file 4 run and 36
// wait; alpha 20, 15, 10 and 5 make 0, 1, 2 and 3 new copies on four nodes.
func TestAlphaIs003(t *testing.T) {
	for alpha, copies := range map[int]int{20: 0, 15: 1, 10: 2, 5: 3, 0: 3, 36: 0, 18: 1} {
		s := newSite(4, task.GiB)
		s.file("f", 512*task.MiB, "n0")
		for no := range uint64(36) {
			s.waiting = append(s.waiting, reads(no, "f"))
		}
		d := Alpha{alpha}.Session(s.view())
		if len(d.Copies) != copies {
			t.Errorf("alpha %d: %+v, want %d copies", alpha, d.Copies, copies)
		}
		s.do(t, d)
		if again := (Alpha{alpha}).Session(s.view()); len(again.Copies) != 0 {
			t.Errorf("alpha %d: %+v although they are on their way", alpha, again.Copies)
		}
	}
}

// TestAlphaEndsItsOwnCondition: replicas are made one by one while the
// condition of equation 3 holds and another would still have alpha tasks.
func TestAlphaEndsItsOwnCondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alpha, used := rapid.IntRange(0, 12).Draw(t, "alpha"), rapid.IntRange(0, 60).Draw(t, "used")
		nodes := rapid.IntRange(1, 8).Draw(t, "nodes")
		replicas := rapid.IntRange(1, nodes).Draw(t, "replicas")
		want := replicas
		for used > want*alpha && want < nodes && used >= (want+1)*alpha {
			want++
		}
		if got := (Alpha{alpha}).Replicas(used, replicas, nodes); got != want {
			t.Fatalf("%d replicas, want %d", got, want)
		}
	})
}

// TestAlphaSpreadsCopies: to the nodes with least load, with room, from the
// holder with least load.
func TestAlphaSpreadsCopies(t *testing.T) {
	s := newSite(4, 100)
	s.file("f", 60, "n0")
	s.copied["f"]["n3"] = &Copied{Node: "n3", Complete: true}
	s.file("g", 60, "n0")
	s.node("n0").Load, s.node("n2").Load = 0.9, 0.5
	for no := range uint64(8) {
		s.waiting = append(s.waiting, reads(no, "f", "g"))
	}
	if d, want := (Alpha{3}).Session(s.view()), []Copy{{"g", "n0", "n1"}}; !slices.Equal(d.Copies, want) {
		t.Errorf("alpha 3: %+v, want %+v", d.Copies, want)
	}
	// n1 and n2 have no room left for g once f comes.
	if d, want := (Alpha{2}).Session(s.view()), []Copy{{"f", "n3", "n1"}, {"f", "n3", "n2"}, {"g", "n0", "n3"}}; !slices.Equal(d.Copies, want) {
		t.Errorf("alpha 2: %+v, want %+v", d.Copies, want)
	}
}

// TestPlanOfAReplica follows one data set through 002's algorithm (section 4).
func TestPlanOfAReplica(t *testing.T) {
	s := newSite(3, 1000)
	s.file("a", 100, "n0")
	s.file("b", 100, "n0")
	s.node("n0").Load = 1
	s.waiting = []Task{reads(1, "a", "b"), reads(2, "b", "a"), reads(3, "a"), reads(4, "b"), reads(5), reads(6, "b", "a")}
	plans := NewPlans(PlanSettings{Threshold: 25, TaskLimit: 3, Eliminate: true})
	session := func() Decisions {
		t.Helper()
		d := plans.Session(s.view())
		s.do(t, d)
		return d
	}
	// Sum(a b) is 30 s, above 25; the files are on n0, which lacks nothing.
	if d := session(); !slices.Equal(d.Reserved, []task.PilotID{"n0"}) || len(d.Copies)+len(d.Starts)+len(d.Claimed) > 0 {
		t.Fatalf("first session: %+v", d)
	}
	// Three tasks fit the plan, also that which reads a part of the data set;
	// one starts, so another takes its place; Sum of the rest is too small.
	d := session()
	if !slices.Equal(d.Starts, []Start{{1, "n0"}}) || !slices.Equal(d.Claimed, []uint64{1, 2, 3, 4}) || plans.State(1) != Launching ||
		plans.State(2) != Scheduled || plans.State(6) != Pending || plans.State(5) != Pending {
		t.Fatalf("second session: %+v, %v %v %v", d, plans.State(1), plans.State(2), plans.State(6))
	}
	// Nothing starts while the task before runs; then the next in sequence.
	if d := session(); len(d.Starts) > 0 {
		t.Fatalf("while 1 runs: %+v", d)
	}
	delete(s.running, "n0")
	if d := session(); !slices.Equal(d.Starts, []Start{{2, "n0"}}) || plans.State(6) != Scheduled {
		t.Fatalf("after 1: %+v, 6 is %v", d, plans.State(6))
	}
	for range 3 {
		delete(s.running, "n0")
		session()
	}
	delete(s.running, "n0")
	if d := session(); len(d.Reserved)+len(d.Drops) > 0 || len(s.waiting) != 1 {
		t.Fatalf("at the end: %+v, %+v wait", d, s.waiting)
	}
}

// TestPlanStagesIn: the copy goes to the reserved node, tasks wait for it, and
// the replica is dropped at the end or overwritten later, as chosen.
func TestPlanStagesIn(t *testing.T) {
	for _, eliminate := range []bool{true, false} {
		s := newSite(2, 100)
		s.file("a", 100, "n0")
		s.file("b", 100, "n0")
		only1 := func(node task.PilotID) bool { return node == "n1" }
		s.waiting = []Task{{No: 1, Files: []task.FileKey{"a"}, Weight: 1, Runtime: time.Minute, CanRun: only1}}
		plans := NewPlans(PlanSettings{TaskLimit: 8, Eliminate: eliminate})
		var copies []Copy
		var drops []Drop
		session := func() Decisions {
			d := plans.Session(s.view())
			s.do(t, d)
			copies, drops = append(copies, d.Copies...), append(drops, d.Drops...)
			return d
		}
		session()
		if d := session(); len(d.Starts) > 0 || !slices.Equal(copies, []Copy{{"a", "n0", "n1"}}) {
			t.Fatalf("while the copy is on its way: %+v, %+v", d, copies)
		}
		s.arrive()
		if d := session(); !slices.Equal(d.Starts, []Start{{1, "n1"}}) {
			t.Fatalf("once it is there: %+v", d)
		}
		delete(s.running, "n1")
		s.waiting = []Task{{No: 2, Files: []task.FileKey{"b"}, Weight: 1, Runtime: time.Minute, CanRun: only1}}
		session()
		session()
		if !slices.Equal(drops, []Drop{{"a", "n1"}}) || !slices.Equal(copies, []Copy{{"a", "n0", "n1"}, {"b", "n0", "n1"}}) {
			t.Errorf("eliminate %v: drops %+v, copies %+v", eliminate, drops, copies)
		}
	}
}

// TestPlansPreferIdleNodes: a plan goes to a node that is idle or will be soon,
// though a busy one has the files, and of busy ones to the soonest (002, section
// 4: idle hosts are reserved).
func TestPlansPreferIdleNodes(t *testing.T) {
	for _, c := range []struct {
		freeIn []time.Duration // n0 has the file
		want   task.PilotID
	}{
		{[]time.Duration{0, 0, 0}, "n0"},
		{[]time.Duration{time.Hour, 0, 0}, "n1"},
		{[]time.Duration{9 * time.Second, 0, 0}, "n0"}, // within the 10 s of a task
		{[]time.Duration{time.Hour, 2 * time.Hour, 5 * time.Second}, "n2"},
		{[]time.Duration{time.Hour, time.Minute, 2 * time.Minute}, "n1"},
	} {
		s := newSite(3, 100)
		s.file("a", 10, "n0")
		s.waiting = []Task{reads(1, "a")}
		for i := range s.nodes {
			s.nodes[i].FreeIn = c.freeIn[i]
		}
		if d := NewPlans(PlanSettings{}).Session(s.view()); !slices.Equal(d.Reserved, []task.PilotID{c.want}) {
			t.Errorf("free in %v: %v is reserved, want %s", c.freeIn, d.Reserved, c.want)
		}
	}
}

// TestLastReplicaStays: when the copy that a plan has made is the only one
// left, the end of the plan does not drop it.
func TestLastReplicaStays(t *testing.T) {
	s := newSite(2, 100)
	s.file("a", 100, "n0")
	only1 := reads(1, "a")
	only1.CanRun = func(node task.PilotID) bool { return node == "n1" }
	s.waiting = []Task{only1}
	plans := NewPlans(PlanSettings{TaskLimit: 8, Eliminate: true})
	for range 2 {
		s.do(t, plans.Session(s.view()))
		s.arrive()
	}
	s.do(t, plans.Session(s.view()))
	delete(s.running, "n1")
	delete(s.copied["a"], "n0")
	if d := plans.Session(s.view()); len(d.Drops)+len(d.Reserved) > 0 {
		t.Errorf("%+v", d)
	}
}

// TestPlansLive lets a site with plans before first come, first served live
// at random: all tasks run, jobs of a plan run where their files are, one data
// set at most gets a new replica in a session, and limits hold.
func TestPlansLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSite(rapid.IntRange(1, 4).Draw(t, "nodes"), task.Bytes(rapid.IntRange(0, 30).Draw(t, "room")))
		for i := range 4 {
			s.file(task.FileKey(fmt.Sprint("f", i)), task.Bytes(i*5), s.nodes[i%len(s.nodes)].ID)
		}
		limit := rapid.IntRange(1, 3).Draw(t, "limit")
		plans := NewPlans(PlanSettings{
			Threshold: float64(rapid.IntRange(0, 60).Draw(t, "threshold")), TaskLimit: limit, Eliminate: rapid.Bool().Draw(t, "eliminate"),
		})
		chain, left := Chain{plans, FCFS{}}, rapid.IntRange(0, 25).Draw(t, "tasks")
		next := uint64(1)
		for session := 0; left > 0 || len(s.waiting)+len(s.running) > 0; session++ {
			if session > 600 {
				t.Fatalf("%d tasks never run", len(s.waiting))
			}
			for ; left > 0 && rapid.IntRange(0, 2).Draw(t, "submit") > 0; left-- {
				files := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 2, rapid.ID[int]).Draw(t, "files")
				added := Task{No: next, Weight: Weight(rapid.IntRange(-1, 2).Draw(t, "priority")), Runtime: 10 * time.Second}
				for _, file := range files {
					added.Files = append(added.Files, task.FileKey(fmt.Sprint("f", file)))
				}
				s.waiting = append(s.waiting, added)
				next++
			}
			before, view := len(plans.plans), s.view()
			d := chain.Session(view)
			if len(plans.plans) > before+1 || len(d.Reserved) != len(plans.plans) {
				t.Fatalf("%d plans after %d, %+v", len(plans.plans), before, d)
			}
			for _, plan := range plans.plans {
				if len(plan.tasks) > limit {
					t.Fatalf("plan with %v beyond the limit %d", plan.tasks, limit)
				}
				if at := slices.IndexFunc(d.Starts, func(start Start) bool { return start.Node == plan.node }); at >= 0 {
					if start := d.Starts[at]; !slices.Contains(d.Claimed, start.No) {
						t.Fatalf("%+v on a reserved node", start)
					}
				}
			}
			s.do(t, d)
			if rapid.Bool().Draw(t, "copies arrive") || left == 0 {
				s.arrive()
			}
			for _, node := range slices.Sorted(maps.Keys(s.running)) {
				switch rapid.IntRange(0, 4).Draw(t, "fate") {
				case 0: // it goes on
				case 1: // refused
					if session < 300 {
						s.waiting = append(s.waiting, s.running[node])
						slices.SortFunc(s.waiting, func(a, b Task) int { return int(a.No) - int(b.No) })
					}
					delete(s.running, node)
				default:
					delete(s.running, node)
				}
			}
		}
	})
}

func TestParseChain(t *testing.T) {
	chain, err := ParseChain("alpha(15); plans(600, 8)\nfcfs")
	want := Chain{Alpha{15}, NewPlans(PlanSettings{Threshold: 600, TaskLimit: 8}), FCFS{}}
	if err != nil || !reflect.DeepEqual(chain, want) {
		t.Errorf("%+v, %v", chain, err)
	}
	if chain, err := ParseChain(" ; "); err != nil || len(chain) != 0 {
		t.Errorf("%+v, %v", chain, err)
	}
	for _, text := range []string{"beta", "alpha", "alpha(-1)", "alpha(1,2)", "plans(1)", "plans(1,0)", "plans(-1,1)", "plans(1,1,keep)", "fcfs(1)", "alpha(1"} {
		if chain, err := ParseChain(text); err == nil {
			t.Errorf("%q is %+v", text, chain)
		}
	}
}

func TestWeight(t *testing.T) {
	for priority, want := range map[int]float64{0: 1, 3: 4, -1: 0.5, -3: 0.25} {
		if got := Weight(priority); got != want {
			t.Errorf("%d weighs %g, want %g", priority, got, want)
		}
	}
}

// BenchmarkSession is one session at the scale that 002 names (section 4):
// 2,000 hosts, 20,000 tasks, 500 data sets, 300 plans.
func BenchmarkSession(b *testing.B) {
	s := newSite(2000, task.GiB)
	for i := range 500 {
		s.file(task.FileKey(fmt.Sprint("f", i)), task.MiB, s.nodes[i].ID)
	}
	for no := range uint64(20_000) {
		s.waiting = append(s.waiting, reads(no, task.FileKey(fmt.Sprint("f", no%500))))
	}
	plans := NewPlans(PlanSettings{TaskLimit: 4})
	for range 300 { // every plan starts one task, which never ends
		s.do(b, plans.Session(s.view()))
		s.arrive()
	}
	for _, chain := range []struct {
		name    string
		planner Planner
	}{{"plans", plans}, {"alpha", Alpha{10}}, {"fcfs", FCFS{}}} {
		b.Run(chain.name, func(b *testing.B) {
			view := s.view()
			for b.Loop() {
				chain.planner.Session(view)
			}
		})
	}
}

// A copy goes where a task that uses it can run.
func TestAlphaCopiesWhereTasksCanRun(t *testing.T) {
	s := newSite(4, task.GiB)
	s.file("f", 60, "n0")
	for no := range uint64(8) {
		one := reads(no, "f")
		one.CanRun = func(node task.PilotID) bool { return node == "n0" || node == "n2" }
		s.waiting = append(s.waiting, one)
	}
	if d, want := (Alpha{2}).Session(s.view()), []Copy{{"f", "n0", "n2"}}; !slices.Equal(d.Copies, want) {
		t.Errorf("%+v, want %+v", d.Copies, want)
	}
}

// What a session drops is no source of its copies.
func TestDroppedReplicaIsNoSource(t *testing.T) {
	s := newSite(3, 1000)
	s.file("a", 100, "n1")
	s.node("n1").Load = 1
	only := func(no uint64, at task.PilotID) Task {
		one := reads(no, "a")
		one.CanRun = func(node task.PilotID) bool { return node == at }
		return one
	}
	plans := NewPlans(PlanSettings{TaskLimit: 8, Eliminate: true})
	s.waiting = []Task{only(1, "n0")}
	for range 2 {
		s.do(t, plans.Session(s.view()))
		s.arrive()
	}
	s.do(t, plans.Session(s.view()))
	delete(s.running, "n0")
	s.waiting = []Task{only(2, "n2")}
	d := plans.Session(s.view())
	if !slices.Equal(d.Drops, []Drop{{"a", "n0"}}) || !slices.Equal(d.Copies, []Copy{{"a", "n1", "n2"}}) {
		t.Errorf("drops %+v, copies %+v", d.Drops, d.Copies)
	}
}
