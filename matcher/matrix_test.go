package matcher

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

var testTerm = task.Term{Epoch: 3, Peer: "master"}

// twinSites draws steps in the life of a site for both matrices.
type twinSites struct {
	clever *Matrix
	dense  *denseSite
	n      uint64 // list version
	next   uint64 // task number
}

const (
	twinPilots  = 5
	twinClasses = 4
	twinSlots   = 2           // of each pilot, by which it is reckoned when it comes to tasks
	twinRun     = time.Second // that every task is expected to run
)

func newTwinSites(t *rapid.T) *twinSites {
	s := &twinSites{clever: NewMatrix(testTerm), dense: newDenseSite(), next: 1}
	s.dense.passLimit = rapid.IntRange(1, 2).Draw(t, "pass limit")
	s.dense.every = rapid.SampledFrom([]int{1, 4}).Draw(t, "count every")
	s.clever.passes.limit, s.clever.passes.every = s.dense.passLimit, s.dense.every
	if s.dense.waits = time.Duration(rapid.IntRange(0, 3).Draw(t, "locality wait")) * time.Second; s.dense.waits > 0 {
		s.dense.pace = rapid.SampledFrom([]float64{0.5, 1, 2}).Draw(t, "pace")
		s.clever.SetForesight(twinForesight{s.dense})
		s.clever.SetLocalityWait(s.dense.waits, twinPilots*twinSlots, s.dense.pace)
	}
	return s
}

// twinForesight expects what the obvious matrix does.
type twinForesight struct{ *denseSite }

func (f twinForesight) Now() time.Time                { return time.Time{} }
func (f twinForesight) Waited(uint64) bool            { return false }
func (f twinForesight) Expected(uint64) time.Duration { return twinRun }
func (f twinForesight) Occupancy(id task.PilotID) (Occupancy, bool) {
	return Occupancy{Slots: twinSlots, Running: slices.Clone(f.running[id])}, true
}

// setRunning has some slots of a pilot be in use for a while.
func (s *twinSites) setRunning(t *rapid.T) {
	var running []Occupant
	for range rapid.IntRange(0, twinSlots).Draw(t, "running") {
		running = append(running, Occupant{Left: time.Duration(rapid.IntRange(0, 4).Draw(t, "left")) * time.Second})
	}
	s.dense.running[s.somePilot(t)] = running
}

func (s *twinSites) addClass(t *rapid.T) {
	class := uint32(rapid.IntRange(0, twinClasses-1).Draw(t, "class"))
	if _, known := s.dense.needs[class]; known {
		return
	}
	need := task.Resources{Cores: rapid.IntRange(1, 3).Draw(t, "cores")}
	s.clever.AddClass(ListClass{No: class, Class: task.Class{Resources: need}})
	s.dense.needs[class] = need
}

func (s *twinSites) addTasks(t *rapid.T) {
	s.n++
	for range rapid.IntRange(1, 6).Draw(t, "tasks") {
		added := MatrixTask{
			No: s.next, Class: uint32(rapid.IntRange(0, twinClasses-1).Draw(t, "class")), Version: s.n,
			EntryBase: float64(rapid.IntRange(-2, 1).Draw(t, "entry base")),
			Order:     uint64(rapid.IntRange(0, 9).Draw(t, "order")),
			Priority:  rapid.IntRange(-1, 1).Draw(t, "priority"),
		}
		s.next++
		s.clever.AddTask(added)
		if _, known := s.dense.needs[added.Class]; !known {
			continue
		}
		ready := rapid.Bool().Draw(t, "ready")
		s.clever.SetReady(added.No, ready)
		s.dense.tasks[added.No] = &denseTask{MatrixTask: added, ready: ready, since: s.dense.placed}
	}
}

func (s *twinSites) someTask(t *rapid.T) uint64 {
	return uint64(rapid.IntRange(1, int(s.next)).Draw(t, "no"))
}

func (s *twinSites) somePilot(t *rapid.T) task.PilotID {
	return pilotID(rapid.IntRange(0, twinPilots-1).Draw(t, "pilot"))
}

func (s *twinSites) answers(t *rapid.T) (answers []ClassAnswer) {
	for class := range uint32(twinClasses) {
		switch rapid.IntRange(0, 5).Draw(t, "verdict") {
		case 0:
			answers = append(answers, ClassAnswer{Class: class, FailedClause: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "clause")})
		case 1:
			answers = append(answers, ClassAnswer{Class: class, Feasible: true, PerTask: true})
		case 2: // not judged
		default:
			answers = append(answers, ClassAnswer{Class: class, Feasible: true, Base: float64(rapid.IntRange(0, 1).Draw(t, "base"))})
		}
	}
	return answers
}

func (s *twinSites) exceptions(t *rapid.T) (exceptions []Exception) {
	for no := uint64(1); no < s.next; no++ {
		switch rapid.IntRange(0, 7).Draw(t, "exception") {
		case 0:
			exceptions = append(exceptions, Exception{No: no, Infeasible: true, FailedClause: "c"})
		case 1, 2:
			exceptions = append(exceptions, Exception{No: no, Rank: float64(rapid.IntRange(-3, 3).Draw(t, "rank"))})
		}
	}
	return exceptions
}

func (s *twinSites) setRow(t *rapid.T) {
	row := Row{Pilot: s.somePilot(t), Version: ListVersion{testTerm, uint64(rapid.IntRange(0, int(s.n)).Draw(t, "n"))}}
	row.Classes, row.Exceptions = s.answers(t), s.exceptions(t)
	p := s.dense.pilot(row.Pilot)
	fresh := !p.answered || row.Version.N >= p.version
	if s.clever.SetRow(row) != fresh {
		t.Fatalf("row of version %d taken = %v, at hand %d", row.Version.N, !fresh, p.version)
	}
	if !fresh {
		return
	}
	p.answered, p.version = true, row.Version.N
	clear(p.answers)
	clear(p.exceptions)
	s.take(p, row.Classes, row.Exceptions)
}

func (s *twinSites) updateRow(t *rapid.T) {
	at := func(label string) ListVersion {
		return ListVersion{testTerm, uint64(rapid.IntRange(0, int(s.n)).Draw(t, label))}
	}
	update := RowUpdate{Pilot: s.somePilot(t), Base: at("base"), Version: at("version")}
	update.Classes, update.Set = s.answers(t), s.exceptions(t)
	if rapid.Bool().Draw(t, "small") && len(update.Set) > 1 {
		update.Set = update.Set[:1]
	}
	for range rapid.IntRange(0, 4).Draw(t, "clear") {
		update.Clear = append(update.Clear, s.someTask(t))
	}
	slices.Sort(update.Clear)
	update.Clear = slices.DeleteFunc(slices.Compact(update.Clear), func(no uint64) bool {
		return slices.ContainsFunc(update.Set, func(e Exception) bool { return e.No == no })
	})
	err := s.clever.UpdateRow(update)
	p := s.dense.pilots[update.Pilot]
	if p == nil || !p.answered || p.version < update.Base.N {
		if err == nil {
			t.Fatal("an update with a gap was taken")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	p.version = max(p.version, update.Version.N)
	for _, no := range update.Clear {
		delete(p.exceptions, no)
	}
	s.take(p, update.Classes, update.Set)
}

func (s *twinSites) take(p *densePilot, answers []ClassAnswer, exceptions []Exception) {
	for _, answer := range answers {
		if _, known := s.dense.needs[answer.Class]; known {
			p.answers[answer.Class] = answer
		}
	}
	for _, e := range exceptions {
		if s.dense.tasks[e.No] != nil {
			p.exceptions[e.No] = e
		}
	}
}

func (s *twinSites) setPlaces(t *rapid.T) {
	id := s.somePilot(t)
	places := Places{
		Free:      task.Resources{Cores: rapid.IntRange(0, 6).Draw(t, "free cores")},
		FreeSlots: rapid.IntRange(0, 3).Draw(t, "free slots"), Prefill: rapid.IntRange(0, 2).Draw(t, "prefill"),
	}
	s.clever.SetPlaces(id, places)
	s.dense.pilot(id).places = places
}

func (s *twinSites) solve(t *rapid.T) {
	want, got := s.dense.solve(), s.clever.Solve(Greedy)
	if !slices.Equal(got, want) {
		t.Fatalf("greedy %+v\nto the letter %+v", got, want)
	}
}

func (s *twinSites) check(t *rapid.T) {
	for i := range twinPilots {
		for no := range s.next {
			rank, feasible := s.clever.Rank(pilotID(i), no)
			wantRank, wantFeasible := s.dense.rank(pilotID(i), no)
			if feasible != wantFeasible || feasible && rank != wantRank {
				t.Fatalf("rank of %d at %s is %g %v, want %g %v", no, pilotID(i), rank, feasible, wantRank, wantFeasible)
			}
		}
	}
	if got, want := s.clever.Infeasible(), s.dense.infeasible(); !slices.Equal(got, want) {
		t.Fatalf("infeasible classes %v, want %v", got, want)
	}
	for no, c := range s.clever.tasks {
		if d := s.dense.tasks[no]; d == nil || d.ready != c.ready || d.starving != c.starving {
			t.Fatalf("task %d is %+v, want %+v", no, c, d)
		}
	}
	if len(s.clever.tasks) != len(s.dense.tasks) {
		t.Fatalf("%d tasks, want %d", len(s.clever.tasks), len(s.dense.tasks))
	}
}

// TestGreedyIsThePapersAlgorithm (004, III-C) lets a site live at random and
// compares matrix and solver with the obvious ones after each step.
func TestGreedyIsThePapersAlgorithm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTwinSites(t)
		t.Repeat(map[string]func(*rapid.T){
			"add class":   s.addClass,
			"add tasks":   s.addTasks,
			"set row":     s.setRow,
			"update row":  s.updateRow,
			"set places":  s.setPlaces,
			"set running": s.setRunning,
			"solve":       s.solve,
			"set ready": func(t *rapid.T) {
				no, ready := s.someTask(t), rapid.Bool().Draw(t, "ready")
				s.clever.SetReady(no, ready)
				if d := s.dense.tasks[no]; d != nil {
					if ready && !d.ready {
						d.since = s.dense.placed
					}
					d.ready = ready
				}
			},
			"remove task": func(t *rapid.T) {
				no := s.someTask(t)
				s.clever.RemoveTask(no)
				delete(s.dense.tasks, no)
				s.dense.forgetUnknown()
			},
			"remove pilot": func(t *rapid.T) {
				id := s.somePilot(t)
				s.clever.RemovePilot(id)
				delete(s.dense.pilots, id)
			},
			"remove class": func(t *rapid.T) {
				class := uint32(rapid.IntRange(0, twinClasses-1).Draw(t, "class"))
				s.clever.RemoveClass(class)
				s.dense.remove(class)
			},
			"": s.check,
		})
	})
}

// TestGreedyFillsASite compares one large solve of a fresh site, with more
// contention than the random life gives.
func TestGreedyFillsASite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTwinSites(t)
		for class := range uint32(twinClasses) {
			need := task.Resources{Cores: int(class%2) + 1}
			s.clever.AddClass(ListClass{No: class, Class: task.Class{Resources: need}})
			s.dense.needs[class] = need
		}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			s.addTasks(t)
		}
		for range 3 * twinPilots {
			s.setRow(t)
			s.setPlaces(t)
			s.setRunning(t)
		}
		s.solve(t)
		s.check(t)
		for range 3 {
			for _, id := range slices.Sorted(maps.Keys(s.dense.pilots)) {
				places := Places{Free: task.Resources{Cores: 1}, FreeSlots: 1}
				s.clever.SetPlaces(id, places)
				s.dense.pilots[id].places = places
				s.solve(t)
			}
			s.check(t)
			s.addTasks(t)
		}
	})
}

// TestATaskPassedOverGoesFirst: two pilots prefer the stream of young tasks
// to one old task, until they have placed PassLimit x 2 of them.
func TestATaskPassedOverGoesFirst(t *testing.T) {
	m := NewMatrix(testTerm)
	m.AddClass(ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	m.AddTask(MatrixTask{No: 1, Class: 1, EntryBase: -5, Order: 1})
	m.SetReady(1, true)
	for _, pilot := range []task.PilotID{"p-a", "p-b"} {
		m.SetRow(Row{Pilot: pilot, Version: ListVersion{Term: testTerm, N: 9}, Classes: []ClassAnswer{{Class: 1, Feasible: true}}})
	}
	for turn := range 2*PassLimit + 1 {
		young := uint64(turn + 2)
		m.AddTask(MatrixTask{No: young, Class: 1, Order: young})
		m.SetReady(young, true)
		m.SetPlaces([]task.PilotID{"p-a", "p-b"}[turn%2], onePlace)
		got := m.Solve(Greedy)
		if oldGoes := turn == 2*PassLimit; len(got) != 1 || (got[0].No == 1) != oldGoes {
			t.Fatalf("turn %d: %+v", turn, got)
		}
	}
}
