package matcher

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// couples is a matrix of so many pilots, each with the places given, and of tasks
// of one core and equal rank, of which two at a time are a company.
func couples(pilots int, tasks uint64, places Places) *Matrix {
	m := NewMatrix(testTerm)
	m.AddClass(ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	for no := uint64(1); no <= tasks; no++ {
		m.AddTask(MatrixTask{No: no, Class: 1, Version: 1, Order: no})
		m.SetReady(no, true)
		m.SetCompany(no, (no+1)/2)
	}
	for i := range pilots {
		m.SetRow(Row{
			Pilot: pilotID(i), Version: ListVersion{Term: testTerm, N: 1}, Classes: []ClassAnswer{{Class: 1, Feasible: true}},
		})
		m.SetPlaces(pilotID(i), places)
	}
	m.SetPatience(stated{})
	return m
}

// given lists what each pilot gets.
func given(assignments []Assignment) map[task.PilotID][]uint64 {
	got := make(map[task.PilotID][]uint64)
	for _, a := range assignments {
		got[a.Pilot] = append(got[a.Pilot], a.No)
	}
	return got
}

// TestCompanionsGoToOnePilot: whether pilots take the second task of a company
// early, in another slot, or in a later solution.
func TestCompanionsGoToOnePilot(t *testing.T) {
	early := Places{FreeSlots: 1, Free: task.Resources{Cores: 1}, Prefill: 1}
	twoSlots := Places{FreeSlots: 2, Free: task.Resources{Cores: 2}}
	for name, places := range map[string]Places{"early": early, "in two slots": twoSlots} {
		got := given(couples(3, 12, places).Solve(Greedy))
		for i := range 3 {
			if first := uint64(2*i + 1); !slices.Equal(got[pilotID(i)], []uint64{first, first + 1}) {
				t.Errorf("%s: pilot %d gets %v", name, i, got[pilotID(i)])
			}
		}
	}
	m := couples(3, 12, onePlace)
	m.Solve(Greedy)
	for i := range 3 {
		m.SetHome(uint64(i+1), pilotID(2-i)) // not as begun: the caller knows better
		m.SetPlaces(pilotID(i), onePlace)
	}
	got := given(m.Solve(Greedy))
	for i := range 3 {
		if want := uint64(2*(2-i) + 2); !slices.Equal(got[pilotID(i)], []uint64{want}) {
			t.Errorf("later: pilot %d gets %v, want %d", i, got[pilotID(i)], want)
		}
	}
}

// TestWhoIsPromisedATask tells who gets task 2, whose companion p-0 has, and who
// gets task 3, which is nobody's.
func TestWhoIsPromisedATask(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Matrix)
		got    map[task.PilotID][]uint64
	}{
		"two free slots": {func(*Matrix) {}, map[task.PilotID][]uint64{pilotID(0): {2}, pilotID(1): {3}}},
		"p-0 is busy": {
			func(m *Matrix) { m.SetPlaces(pilotID(0), Places{}) },
			map[task.PilotID][]uint64{pilotID(1): {3}},
		},
		"p-0 is busy, and nothing else is there": {
			func(m *Matrix) { m.SetPlaces(pilotID(0), Places{}); m.SetReady(3, false) },
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
		"p-0 is busy, and early nobody else gets it": {
			func(m *Matrix) {
				m.SetPlaces(pilotID(0), Places{})
				m.SetPlaces(pilotID(1), Places{Prefill: 2})
			},
			map[task.PilotID][]uint64{pilotID(1): {3}},
		},
		"p-0 is busy, and task 3 less urgent": {
			func(m *Matrix) {
				m.SetPlaces(pilotID(0), Places{})
				m.RemoveTask(3)
				m.AddTask(MatrixTask{No: 3, Class: 1, Version: 1, Order: 3, Priority: -1})
				m.SetReady(3, true)
			},
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
		"p-0 is gone": {
			func(m *Matrix) { m.RemovePilot(pilotID(0)) },
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
		"p-0 cannot run it": {
			func(m *Matrix) {
				_ = m.UpdateRow(RowUpdate{
					Pilot: pilotID(0), Base: ListVersion{testTerm, 1}, Version: ListVersion{testTerm, 1},
					Set: []Exception{{No: 2, Infeasible: true}},
				})
			},
			map[task.PilotID][]uint64{pilotID(0): {3}, pilotID(1): {2}},
		},
		"p-1 has its input": {
			func(m *Matrix) {
				_ = m.UpdateRow(RowUpdate{
					Pilot: pilotID(1), Base: ListVersion{testTerm, 1}, Version: ListVersion{testTerm, 1}, Set: []Exception{{No: 2, Rank: 1}},
				})
			},
			map[task.PilotID][]uint64{pilotID(0): {3}, pilotID(1): {2}},
		},
		"it was passed over too often": {
			func(m *Matrix) { m.SetPlaces(pilotID(0), Places{}); m.tasks[2].starving = true },
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
		"nobody's tasks are waited for": {
			func(m *Matrix) { m.SetPlaces(pilotID(0), Places{}); m.SetPatience(nil) },
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
		"it is in no company any more": {
			func(m *Matrix) { m.SetPlaces(pilotID(0), Places{}); m.SetCompany(2, 0) },
			map[task.PilotID][]uint64{pilotID(1): {2}},
		},
	} {
		m := couples(2, 3, onePlace)
		m.RemoveTask(1)
		m.SetHome(1, pilotID(0))
		c.change(m)
		got := given(m.Solve(Greedy))
		if len(got) != len(c.got) {
			t.Errorf("%s: %v, want %v", name, got, c.got)
		}
		for id, want := range c.got {
			if !slices.Equal(got[id], want) {
				t.Errorf("%s: %s gets %v, want %v", name, id, got[id], want)
			}
		}
	}
}

// TestNoSlotWaitsForACompanion: companies change who gets which task, not how
// many start.
func TestNoSlotWaitsForACompanion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pilots := rapid.IntRange(1, 4).Draw(t, "pilots")
		tasks := rapid.Uint64Range(1, 12).Draw(t, "tasks")
		slots := rapid.IntRange(0, 3).Draw(t, "slots")
		m := couples(pilots, tasks, Places{FreeSlots: slots, Free: task.Resources{Cores: slots}, Prefill: rapid.IntRange(0, 2).Draw(t, "prefill")})
		for no := uint64(1); no <= tasks; no++ {
			m.SetCompany(no, rapid.Uint64Range(0, 4).Draw(t, "company"))
		}
		for of := uint64(1); of <= 4; of++ {
			m.SetHome(of, pilotID(rapid.IntRange(0, pilots).Draw(t, "home")))
		}
		started := 0
		for _, a := range m.Solve(Greedy) {
			if !a.Prefill {
				started++
			}
		}
		if want := min(pilots*slots, int(tasks)); started != want {
			t.Fatalf("%d tasks start, want %d", started, want)
		}
	})
}
