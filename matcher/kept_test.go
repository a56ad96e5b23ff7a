package matcher

import (
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// TestAKeptTaskIsGivenEarlyToItsKeeperOnly: task 1 reads what p-a holds.
func TestAKeptTaskIsGivenEarlyToItsKeeperOnly(t *testing.T) {
	early, atOnce := Places{Prefill: 1}, onePlace
	for name, c := range map[string]struct {
		tasks  uint64 // that read what p-a holds
		a, b   Places
		chosen []task.PilotID // for task 1, in order of solutions
	}{
		"the keeper is full":         {1, Places{}, early, nil},
		"the keeper has a place":     {1, early, early, []task.PilotID{"p-a"}},
		"another one's slot is free": {1, early, atOnce, []task.PilotID{"p-b"}},
		"the keeper has too many":    {keptMost + 1, Places{}, early, []task.PilotID{"p-b"}},
		"the keeper has just enough": {keptMost, Places{}, early, nil},
	} {
		m := NewMatrix(testTerm)
		m.AddClass(ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
		version := ListVersion{Term: testTerm, N: 1}
		row := Row{Pilot: "p-a", Version: version, Classes: []ClassAnswer{{Class: 1, Feasible: true}}}
		for no := uint64(1); no <= c.tasks; no++ {
			m.AddTask(MatrixTask{No: no, Class: 1, Version: 1, EntryBase: -1, Order: no})
			m.SetReady(no, true)
			row.Exceptions = append(row.Exceptions, Exception{No: no, Rank: 0.1})
		}
		m.SetRow(row)
		m.SetRow(Row{Pilot: "p-b", Version: version, Classes: row.Classes})
		m.SetPlaces("p-a", c.a)
		m.SetPlaces("p-b", c.b)
		var got []task.PilotID
		for _, a := range m.Solve(Greedy) {
			if a.No == 1 {
				got = append(got, a.Pilot)
			}
		}
		if !slices.Equal(got, c.chosen) {
			t.Errorf("%s: task 1 goes to %v, want %v", name, got, c.chosen)
		}
	}
}
