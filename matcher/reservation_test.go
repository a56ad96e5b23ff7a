package matcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// shop is a site in virtual time, matched by a matrix with foresight.
type shop struct {
	matrix *Matrix
	solver Solver
	now    time.Time
	wait   time.Duration
	pilots []*shopPilot
	tasks  map[uint64]*shopTask
	next   uint64
	began  map[uint64]time.Time
	wrong  []uint64 // given early to a pilot that keeps slots
}

type shopPilot struct {
	id       task.PilotID
	total    task.Resources
	slots    int
	lifetime time.Duration
	running  []uint64
	started  map[uint64]time.Time
	early    []uint64
}

type shopTask struct {
	class         uint32
	need          task.Resources
	expected, run time.Duration
	since, early  time.Time
	priority      int
}

func newShop(solver Solver, cores ...int) *shop {
	s := &shop{matrix: NewMatrix(testTerm), solver: solver, now: time.Unix(1000, 0), wait: 30 * time.Second,
		tasks: make(map[uint64]*shopTask), began: make(map[uint64]time.Time)}
	for i, c := range cores {
		s.pilots = append(s.pilots, &shopPilot{id: pilotID(i), total: task.Resources{Cores: c}, slots: c, started: make(map[uint64]time.Time)})
	}
	s.matrix.SetForesight(s)
	return s
}

func (s *shop) Now() time.Time                   { return s.now }
func (s *shop) Waited(no uint64) bool            { return s.now.Sub(s.tasks[no].since) >= s.wait }
func (s *shop) Expected(no uint64) time.Duration { return s.tasks[no].expected }

func (s *shop) Occupancy(id task.PilotID) (o Occupancy, ok bool) {
	for _, p := range s.pilots {
		if p.id == id {
			o = Occupancy{Total: p.total, Slots: p.slots, Lifetime: p.lifetime}
			for _, no := range p.running {
				t := s.tasks[no]
				o.Running = append(o.Running, Occupant{t.need, max(0, t.expected-s.now.Sub(p.started[no]))})
			}
			return o, true
		}
	}
	return o, false
}

// add puts a task up: tasks of one need and expected run are a class.
func (s *shop) add(priority int, t shopTask) uint64 {
	t.class = uint32(t.need.Cores*10_000) + uint32(t.expected/time.Second)
	t.since, t.priority = s.now, priority
	class := ListClass{No: t.class, Class: task.Class{Resources: t.need, Require: fmt.Sprint(t.class)}}
	s.matrix.AddClass(class)
	for _, p := range s.pilots {
		row := s.matrix.row(p.id)
		row.answered, row.version = true, 1
		s.matrix.answer(row, []ClassAnswer{{Class: t.class, Feasible: p.total.Fits(t.need)}})
	}
	s.next++
	s.tasks[s.next] = &t
	s.matrix.AddTask(MatrixTask{No: s.next, Class: t.class, Version: 1, Order: s.next, Priority: priority})
	s.matrix.SetReady(s.next, true)
	return s.next
}

func (p *shopPilot) free(s *shop) Places {
	places := Places{Free: p.total, FreeSlots: p.slots - len(p.running), Prefill: p.slots - len(p.early)}
	for _, no := range p.running {
		places.Free = places.Free.Sub(s.tasks[no].need)
		places.Ending.Cores = max(places.Ending.Cores, s.tasks[no].need.Cores)
	}
	return places
}

func (p *shopPilot) start(s *shop, no uint64) {
	p.running = append(p.running, no)
	p.started[no], s.began[no] = s.now, s.now
}

// step ends and starts what is due, and serves what is free. As a master does, it
// takes back what was given early to a pilot that keeps slots or waits for long.
func (s *shop) step() {
	for _, p := range s.pilots {
		p.running = slices.DeleteFunc(p.running, func(no uint64) bool { return s.now.Sub(p.started[no]) >= s.tasks[no].run })
		p.early = slices.DeleteFunc(p.early, func(no uint64) bool {
			free := p.free(s)
			if !free.offers(s.tasks[no].need, false) {
				return false
			}
			p.start(s, no)
			return true
		})
		s.matrix.SetPlaces(p.id, p.free(s))
	}
	for _, a := range s.matrix.Solve(s.solver) {
		p := s.pilots[slices.IndexFunc(s.pilots, func(p *shopPilot) bool { return p.id == a.Pilot })]
		if a.Prefill {
			if s.matrix.Keeping(p.id) {
				s.wrong = append(s.wrong, a.No)
			}
			p.early = append(p.early, a.No)
			s.tasks[a.No].early = s.now
		} else {
			p.start(s, a.No)
		}
		s.matrix.RemoveTask(a.No)
	}
	for _, p := range s.pilots {
		p.early = slices.DeleteFunc(p.early, func(no uint64) bool {
			t := s.tasks[no]
			if !s.matrix.Keeping(p.id) && s.now.Sub(t.early) < s.wait {
				return false
			}
			s.matrix.AddTask(MatrixTask{No: no, Class: t.class, Version: 1, Order: no, Priority: t.priority})
			s.matrix.SetReady(no, true)
			return true
		})
	}
	s.now = s.now.Add(time.Second)
}

func drawSolver(t *rapid.T) Solver {
	return rapid.SampledFrom([]Solver{
		Greedy, Exact, Sequential, Choose(3, rand.New(rand.NewPCG(1, 1))), NewDAD(DelayRule{LocalThreshold: 0.6, WaitLimit: 2}).Solve,
	}).Draw(t, "solver")
}

// Small tasks never run out, their run times are not what is expected of them,
// and some tasks can run nowhere: every big task that some pilot can run begins
// within the wait and what can be under way when slots are first kept for it.
func TestBigTasksBeginInBoundedTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.SliceOfN(rapid.SampledFrom([]int{2, 4, 8}), 1, 5).Draw(t, "cores")
		s := newShop(drawSolver(t), cores...)
		longest := time.Duration(rapid.IntRange(5, 60).Draw(t, "longest")) * time.Second
		seconds := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(1, int(longest/time.Second)).Draw(t, label)) * time.Second
		}
		kinds := make([]time.Duration, 3)
		for i := range kinds {
			kinds[i] = seconds("expected")
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		supply := func() {
			for s.matrix.Ready() < 40 {
				s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: kinds[random.IntN(3)],
					run: time.Duration(1+random.IntN(int(longest/time.Second))) * time.Second})
			}
		}
		for range 20 {
			supply()
			s.step()
		}
		var big []uint64
		for range rapid.IntRange(1, 3).Draw(t, "big") {
			need := rapid.IntRange(2, slices.Max(cores)).Draw(t, "need")
			big = append(big, s.add(rapid.IntRange(0, 1).Draw(t, "priority"), shopTask{need: task.Resources{Cores: need}, expected: seconds("bigExpected"), run: seconds("bigRun")}))
		}
		s.add(1, shopTask{need: task.Resources{Cores: 99}, expected: time.Second, run: time.Second})
		// What is older goes first, and one after the other has its turn.
		bound := time.Duration(len(big))*(s.wait+3*longest) + 40*longest
		until := s.now.Add(bound)
		left := func() bool {
			return slices.ContainsFunc(big, func(no uint64) bool { _, began := s.began[no]; return !began })
		}
		for left() && s.now.Before(until) {
			supply()
			s.step()
		}
		if left() {
			t.Fatalf("a task does not begin within %s; slots are kept at %v", bound, s.matrix.Reserved())
		}
		for range int(2*longest/time.Second) + 5 {
			supply()
			s.step()
		}
		if kept := s.matrix.Reserved(); len(kept) > 0 {
			t.Fatalf("%v keep slots, for nothing that could run", kept)
		}
		for _, p := range s.pilots {
			if len(p.running) < p.slots {
				t.Fatalf("%s has free slots while tasks wait", p.id)
			}
		}
	})
}

// A pilot keeps its slots: what ends before is let in, what leaves room beside
// too, what goes before in order as well, nothing else, and nothing early.
func TestKeptSlotsAreFilledWithWhatEndsBefore(t *testing.T) {
	for name, solver := range map[string]Solver{"greedy": Greedy, "exact": Exact, "sequential": Sequential, "dad": NewDAD(DelayRule{}).Solve} {
		s := newShop(solver, 4)
		long := s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: 100 * time.Second, run: 100 * time.Second})
		s.add(0, shopTask{need: task.Resources{Cores: 3}, expected: 40 * time.Second, run: 40 * time.Second})
		s.step()
		big := s.add(5, shopTask{need: task.Resources{Cores: 4}, expected: time.Minute, run: time.Minute})
		for range 39 {
			s.step()
		}
		if !s.matrix.Keeping(pilotID(0)) {
			t.Fatalf("%s: no slots are kept", name)
		}
		late := s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: 70 * time.Second, run: 70 * time.Second})
		short := s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: 50 * time.Second, run: 50 * time.Second})
		first := s.add(9, shopTask{need: task.Resources{Cores: 1}, expected: 55 * time.Second, run: 55 * time.Second})
		s.step()
		s.step()
		if got := s.pilots[0].running; !slices.Equal(got, []uint64{long, first, short}) {
			t.Errorf("%s: %v run, want %v; %d may not", name, got, []uint64{long, first, short}, late)
		}
		if len(s.wrong) > 0 {
			t.Errorf("%s: %v were given early", name, s.wrong)
		}
		for range 60 {
			s.step()
		}
		if got := s.pilots[0].running; !slices.Equal(got, []uint64{big}) {
			t.Errorf("%s: %v run, want %d", name, got, big)
		}
	}
}

// What takes longer than expected delays a task for which slots are kept, and
// lets nothing else delay it further.
func TestKeptSlotsDoNotMoveBack(t *testing.T) {
	s := newShop(Greedy, 2)
	for range 2 {
		s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: 20 * time.Second, run: 50 * time.Second})
	}
	s.step()
	s.add(1, shopTask{need: task.Resources{Cores: 2}, expected: time.Minute, run: time.Minute})
	for range 32 {
		s.step()
	}
	s.tasks[1].run, s.tasks[2].expected = 0, time.Hour // one ends, nobody knows when the other does
	s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: time.Second, run: time.Second})
	s.step()
	if got := s.pilots[0].running; !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v run, want only what ran when slots were first kept", got)
	}
}

// Room that is left beside the task that slots are kept for may be used.
func TestRoomBesideIsUsed(t *testing.T) {
	s := newShop(Greedy, 8)
	s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: 200 * time.Second, run: 200 * time.Second})
	for range 2 {
		s.add(0, shopTask{need: task.Resources{Cores: 3}, expected: 100 * time.Second, run: 100 * time.Second})
	}
	s.step()
	s.add(1, shopTask{need: task.Resources{Cores: 5}, expected: time.Minute, run: time.Minute})
	for range 40 {
		s.step()
	}
	if len(s.matrix.Reserved()) != 1 {
		t.Fatal("no slots are kept")
	}
	s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: time.Hour, run: time.Hour})
	s.step() // it leaves 1 core beside what slots are kept for
	if got := len(s.pilots[0].running); got != 4 {
		t.Errorf("%d tasks run, want 4", got)
	}
}

// A pilot whose life ends before the task would keeps nothing; one that leaves,
// and a task that goes, end what was kept.
func TestReservationsEnd(t *testing.T) {
	fill := func(cores ...int) (*shop, uint64) {
		s := newShop(Greedy, cores...)
		for range 40 {
			s.add(0, shopTask{need: task.Resources{Cores: 1}, expected: time.Minute, run: time.Minute})
		}
		s.step()
		return s, s.add(1, shopTask{need: task.Resources{Cores: 4}, expected: 10 * time.Minute, run: time.Minute})
	}
	steps := func(s *shop) {
		for range 31 {
			s.step()
		}
	}
	s, _ := fill(4, 4)
	s.pilots[0].lifetime = 5 * time.Minute
	steps(s)
	if got := s.matrix.Reserved(); !slices.Equal(got, []task.PilotID{pilotID(1)}) {
		t.Errorf("%v keep slots, want the pilot that lives long enough", got)
	}
	s.matrix.RemovePilot(pilotID(1))
	s.pilots = s.pilots[:1]
	steps(s)
	if got := s.matrix.Reserved(); got != nil {
		t.Errorf("%v keep slots", got)
	}
	s, big := fill(4)
	steps(s)
	if len(s.matrix.Reserved()) != 1 {
		t.Fatal("no slots are kept")
	}
	s.matrix.RemoveTask(big)
	steps(s)
	if got := s.matrix.Reserved(); got != nil || len(s.pilots[0].running) != 4 {
		t.Errorf("%v keep slots for a task that is gone, %d tasks run", got, len(s.pilots[0].running))
	}
}
