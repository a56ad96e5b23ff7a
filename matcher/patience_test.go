package matcher

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// stated is a Patience as a test gives it.
type stated struct {
	soon  map[task.PilotID]int
	tired map[task.PilotID]bool
	stale map[uint64]bool
}

func (s stated) Soon(p task.PilotID) int    { return s.soon[p] }
func (s stated) Waits(p task.PilotID) bool  { return !s.tired[p] }
func (s stated) Fresh(no uint64) bool       { return !s.stale[no] }
func (s stated) comesTo(n int) stated       { s.soon = map[task.PilotID]int{"p-a": n}; return s }
func (s stated) hasWaited(no uint64) stated { s.stale = map[uint64]bool{no: true}; return s }
func (s stated) freeForLong(p task.PilotID) stated {
	s.tired = map[task.PilotID]bool{p: true}
	return s
}

// keptTasks is a matrix in which p-a raises the first of so many tasks of one
// class, and p-b and p-a have the places given.
func keptTasks(raised, all uint64, a, b Places) *Matrix {
	m := NewMatrix(testTerm)
	m.AddClass(ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	version := ListVersion{Term: testTerm, N: 1}
	row := Row{Pilot: "p-a", Version: version, Classes: []ClassAnswer{{Class: 1, Feasible: true}}}
	for no := uint64(1); no <= all; no++ {
		m.AddTask(MatrixTask{No: no, Class: 1, Version: 1, EntryBase: -1, Order: no})
		m.SetReady(no, true)
		if no <= raised {
			row.Exceptions = append(row.Exceptions, Exception{No: no, Rank: 1})
		}
	}
	m.SetRow(row)
	m.SetRow(Row{Pilot: "p-b", Version: version, Classes: row.Classes})
	m.SetPlaces("p-a", a)
	m.SetPlaces("p-b", b)
	return m
}

func TestFreeSlotsLeaveTasksToThoseWhoComeSoon(t *testing.T) {
	for name, c := range map[string]struct {
		raised, all uint64
		patience    Patience
		got         []uint64 // by p-b with one free slot, while p-a has none
	}{
		"nobody waits":                        {1, 1, nil, []uint64{1}},
		"p-a comes soon":                      {1, 1, stated{}.comesTo(1), nil},
		"p-a does not":                        {1, 1, stated{}, []uint64{1}},
		"another task is nobody's":            {1, 2, stated{}.comesTo(1), []uint64{2}},
		"what p-a takes next stays, not more": {3, 3, stated{}.comesTo(2), []uint64{3}},
		"both have waited for long":           {1, 1, stated{}.comesTo(1).freeForLong("p-b").hasWaited(1), []uint64{1}},
		"the slot has, the task has not":      {1, 1, stated{}.comesTo(1).freeForLong("p-b"), nil},
		"the task has, the slot has not":      {1, 1, stated{}.comesTo(1).hasWaited(1), nil},
	} {
		for solver, solve := range map[string]Solver{"greedy": Greedy, "exact": Exact} {
			m := keptTasks(c.raised, c.all, Places{}, onePlace)
			m.SetPatience(c.patience)
			var got []uint64
			for _, a := range m.Solve(solve) {
				got = append(got, a.No)
			}
			if !slices.Equal(got, c.got) {
				t.Errorf("%s, %s: p-b gets %v, want %v", name, solver, got, c.got)
			}
		}
	}
	m := keptTasks(1, 1, Places{}, onePlace)
	m.SetPatience(stated{}.comesTo(1))
	m.tasks[1].starving = true
	if got := m.Solve(Greedy); len(got) != 1 {
		t.Error("a task that was passed over too often waits for a pilot")
	}
	m = keptTasks(1, 1, Places{}, onePlace)
	m.SetPatience(stated{}.comesTo(1))
	if got := m.Solve(Sequential); len(got) != 1 {
		t.Error("one pilot at a time, as in 004's pre-DHT, a slot waits")
	}
}

// TestWhatIsLeftIsAPilotsNext: greedy leaves to a pilot as many of the tasks that
// it raises as it comes to soon, the ones that it takes first, and nothing else.
func TestWhatIsLeftIsAPilotsNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raised := rapid.Uint64Range(0, 6).Draw(t, "raised")
		all := raised + rapid.Uint64Range(0, 3).Draw(t, "others")
		soon := rapid.IntRange(0, 8).Draw(t, "soon")
		slots := rapid.IntRange(0, 9).Draw(t, "slots")
		places := Places{FreeSlots: slots, Free: task.Resources{Cores: slots}}
		m := keptTasks(raised, all, Places{}, places)
		m.SetPatience(stated{}.comesTo(soon))
		left := min(raised, uint64(soon))
		if got, want := uint64(len(m.Solve(Greedy))), min(uint64(slots), all-left); got != want {
			t.Fatalf("p-b gets %d tasks, want %d", got, want)
		}
		for no := uint64(1); no <= left; no++ {
			if !m.tasks[no].ready {
				t.Fatalf("task %d, which p-a takes next, is given away", no)
			}
		}
	})
}
