package matcher

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// algorithm1 is DATAAWAREDISPATCH of 000, line by line.
func algorithm1(nodes []NodeScore, threshold float64, limit int, waited *int) int {
	least, possible, good, mayWait := math.MaxFloat64, -1, -1, false
	for h, node := range nodes {
		if !node.Free && node.Score < threshold {
			mayWait = true
		}
		if node.Free && node.Score < least {
			possible, least = h, node.Score
			if node.Score < threshold {
				good = h
			}
		}
	}
	if possible < 0 {
		return -1
	}
	if good >= 0 {
		return good
	}
	if *waited < limit && mayWait {
		*waited++
		return -1
	}
	return possible
}

func TestDelayRuleIsAlgorithm1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.Custom(func(t *rapid.T) NodeScore {
			return NodeScore{float64(rapid.IntRange(0, 4).Draw(t, "score")) / 4, rapid.Bool().Draw(t, "free")}
		})
		nodes := rapid.SliceOfN(node, 0, 5).Draw(t, "nodes")
		rule := DelayRule{float64(rapid.IntRange(0, 5).Draw(t, "threshold")) / 4, rapid.IntRange(0, 3).Draw(t, "limit")}
		waited := rapid.IntRange(0, 4).Draw(t, "waited")
		before := waited
		want := algorithm1(nodes, rule.LocalThreshold, rule.WaitLimit, &waited)
		got, verdict := rule.Choose(nodes, before)
		if verdict == Dispatch != (want >= 0) || verdict == Dispatch && got != want || (verdict == Wait) != (waited > before) {
			t.Fatalf("%d %d, Algorithm 1 gives %d and waits %v", got, verdict, want, waited > before)
		}
	})
}

func TestThresholdSeparates(t *testing.T) {
	for _, c := range []struct {
		rule DelayRule
		beta float64
		ok   bool
	}{
		{DelayRule{0.5, 2}, 0.75, true}, {DelayRule{0.75, 2}, 0.75, true}, {DelayRule{0.76, 2}, 0.75, false},
		{DelayRule{0.25, 2}, 0.75, false}, {DelayRule{0.5, 1}, 1, true}, {DelayRule{0, 1}, 1, false},
		{DelayRule{0.5, 2}, 0.5, false}, {DelayRule{0.5, 0}, 0.5, true}, {DelayRule{0.5, 2}, 0, true},
		{DelayRule{math.NaN(), 2}, 0.75, false},
	} {
		if err := c.rule.Check(c.beta); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrThreshold) {
			t.Errorf("%+v with beta %g: %v", c.rule, c.beta, err)
		}
	}
	for rank, ok := range map[string]bool{"dad(0.8)": true, "dad(0.4)": false, "dad(2)": false, "locality": false, "": false} {
		solver, err := ParseSolver("dad(0.5, 2)")
		if err != nil {
			t.Fatal(err)
		}
		if err := solver.CheckRank(rank); (err == nil) != ok {
			t.Errorf("rank %q: %v", rank, err)
		}
	}
}

// fourNodes are the nodes of 000, Fig. 4: two hold file A, two file B. A task
// is named by its file and is submitted to the queue that queueOf gives it.
func fourNodes(t *testing.T, order string, rank string, loads [4]float64, queueOf func(file rune) string) (*Matrix, map[uint64]string) {
	t.Helper()
	list := ListSnapshot{Version: ListVersion{testTerm, 1}, Classes: []ListClass{{1, task.Class{Rank: rank, Resources: task.Resources{Cores: 1}}}}}
	m, names := NewMatrix(testTerm), make(map[uint64]string)
	m.AddClass(list.Classes[0])
	compiled, err := CompileRank(rank)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range order {
		entry := &ListEntry{No: uint64(i + 1), Version: 1, Class: 1, Task: &task.Task{}, Files: []FileInfo{{Key: task.FileKey(file), Size: 512e6}}}
		list.Entries = append(list.Entries, entry)
		names[entry.No] = string(file)
		m.AddTask(MatrixTask{
			No: entry.No, Class: 1, Version: 1, Order: entry.No, Queue: queueOf(file),
			EntryBase: compiled.EntryBase(entry.Task, entry.Files, Rates{}),
		})
		m.SetReady(entry.No, true)
	}
	compiler := NewCompiler(4)
	for i, holds := range []task.FileKey{"A", "A", "B", "B"} {
		pilot := Pilot{ID: pilotID(i), Resources: task.Resources{Cores: 1}, Load: loads[i]}
		evaluator := NewEvaluator(pilot, func(key task.FileKey) (task.Bytes, bool) { return 0, key == holds }, compiler)
		evaluator.Reset(list)
		m.SetRow(evaluator.Row())
		m.SetPlaces(pilot.ID, onePlace)
	}
	return m, names
}

// passes plays passes one task time apart until all is done; each gives the
// assignments as pilot:file:place, place being local or remote.
func passes(t *testing.T, m *Matrix, names map[uint64]string, solver Solver) (played []string, remote int) {
	t.Helper()
	for pass := 0; m.Ready() > 0; pass++ {
		if pass > 20 {
			t.Fatal("it never ends")
		}
		var line []string
		for i := range 4 {
			m.SetPlaces(pilotID(i), onePlace)
		}
		for _, a := range m.Solve(solver) {
			number := strings.TrimPrefix(string(a.Pilot), "p-0000000")
			place := "local"
			if names[a.No] == "A" != (number < "2") {
				place = "remote"
				remote++
			}
			line = append(line, fmt.Sprintf("%s:%s:%s", number, names[a.No], place))
		}
		played = append(played, strings.Join(line, " "))
	}
	return played, remote
}

func oneQueue(rune) string { return "" }

// TestTaskOrder (000, section IV-B and Fig. 4).
func TestTaskOrder(t *testing.T) {
	for _, c := range []struct {
		order string
		delay int
		queue func(rune) string
		want  int // remote tasks
	}{
		{"AAAABBBB", 0, oneQueue, 4},
		{"AAAABBBB", 2, oneQueue, 0},
		{"AABBAABB", 0, oneQueue, 0},
		{"AABBAABB", 2, oneQueue, 0},
		{"AAAABBBB", 0, func(file rune) string { return string(file) }, 0}, // queues in turn
	} {
		m, names := fourNodes(t, c.order, "dad(0.8)", [4]float64{}, c.queue)
		played, remote := passes(t, m, names, NewDAD(DelayRule{0.5, c.delay}).Solve)
		if remote != c.want {
			t.Errorf("%s with delay %d: %d remote, want %d\n%s", c.order, c.delay, remote, c.want, strings.Join(played, "\n"))
		}
	}
}

// TestQueuesInTurn (000, section IV-C): the queue whose head waits is skipped
// for the rest of the pass, the other goes on.
func TestQueuesInTurn(t *testing.T) {
	m, names := fourNodes(t, "AAAABB", "dad(0.8)", [4]float64{}, func(file rune) string { return string(file) })
	played, _ := passes(t, m, names, NewDAD(DelayRule{0.5, 1}).Solve)
	want := []string{"0:A:local 2:B:local 1:A:local 3:B:local", "0:A:local 1:A:local"}
	if !slices.Equal(played, want) {
		t.Errorf("%q\nwant %q", played, want)
	}
}

// TestTurnsGoOn: with one free node per pass the queues still take turns.
func TestTurnsGoOn(t *testing.T) {
	m, names := fourNodes(t, "AAABBB", "dad(1)", [4]float64{}, func(file rune) string { return string(file) })
	dad, served := NewDAD(DelayRule{}), ""
	for range 6 {
		for i := range 4 {
			m.SetPlaces(pilotID(i), Places{})
		}
		m.SetPlaces(pilotID(0), onePlace)
		for _, a := range m.Solve(dad.Solve) {
			served += names[a.No]
		}
	}
	if served != "ABABAB" {
		t.Errorf("served %s", served)
	}
}

// TestARefusedTaskWaitsAgain: what a task has waited counts until it is
// dispatched; a task that comes back begins anew.
func TestARefusedTaskWaitsAgain(t *testing.T) {
	m, _ := fourNodes(t, "A", "dad(0.8)", [4]float64{}, oneQueue)
	dad, got := NewDAD(DelayRule{0.5, 1}), ""
	for range 4 {
		for i := range 4 {
			m.SetPlaces(pilotID(i), Places{})
		}
		m.SetPlaces(pilotID(3), onePlace)
		assignments := m.Solve(dad.Solve)
		got += fmt.Sprint(len(assignments))
		m.SetReady(1, true)
	}
	if got != "0101" {
		t.Errorf("dispatched in passes %s", got)
	}
}

// TestWaitLimitCountsPasses: a task lets wLimit free nodes go by, then it
// takes a remote one; where no node is local it takes one at once.
func TestWaitLimitCountsPasses(t *testing.T) {
	m, _ := fourNodes(t, "A", "dad(0.8)", [4]float64{}, oneQueue)
	dad := NewDAD(DelayRule{0.5, 2})
	for pass := range 3 {
		for i := range 4 {
			m.SetPlaces(pilotID(i), Places{})
		}
		if got := m.Solve(dad.Solve); len(got) > 0 { // no free node: not a pass
			t.Fatalf("%+v", got)
		}
		m.SetPlaces(pilotID(3), onePlace)
		if got := m.Solve(dad.Solve); len(got) != pass/2 {
			t.Fatalf("pass %d: %+v", pass, got)
		}
	}
	m, _ = fourNodes(t, "C", "dad(0.8)", [4]float64{}, oneQueue)
	for i := range 3 {
		m.SetPlaces(pilotID(i), Places{})
	}
	if got := m.Solve(NewDAD(DelayRule{0.5, 2}).Solve); len(got) != 1 {
		t.Fatalf("a task without local node waits: %+v", got)
	}
}

// TestBetaZeroIsLoadOrder (000, section V-C): with beta 0, one queue and no
// delay the oldest task goes to the least loaded node.
func TestBetaZeroIsLoadOrder(t *testing.T) {
	m, names := fourNodes(t, "BABA", "dad(0)", [4]float64{0.7, 0.1, 0.9, 0.3}, oneQueue)
	played, _ := passes(t, m, names, NewDAD(DelayRule{}).Solve)
	if want := []string{"1:B:remote 3:A:remote 0:B:remote 2:A:remote"}; !slices.Equal(played, want) {
		t.Errorf("%q\nwant %q", played, want)
	}
}

// TestDADKeepsToPlaces: whatever the site, pairs are allowed and an empty wait
// limit leaves no place free that a waiting task could take.
func TestDADKeepsToPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, d := drawSite(t, 5, 8)
		rule := DelayRule{float64(rapid.IntRange(-2, 2).Draw(t, "threshold")), rapid.IntRange(0, 1).Draw(t, "limit")}
		pairs := NewDAD(rule).Solve(m)
		d.checkPairs(t, pairs, false)
		d.checkPairs(t, pairs, true)
		for _, a := range pairs {
			d.pilots[a.Pilot].places.take(task.Resources{Cores: 1}, a.Prefill)
			d.tasks[a.No].ready = false
		}
		if left := d.solve(); rule.WaitLimit == 0 && len(left) > 0 {
			t.Fatalf("%+v could still be placed after %+v", left, pairs)
		}
	})
}

// TestOnlyEntriesAndFreedSlotsArePasses (000, Algorithm 1): solutions for other
// reasons neither count as passes nor end a wait.
func TestOnlyEntriesAndFreedSlotsArePasses(t *testing.T) {
	m, names := fourNodes(t, "AAAABBBB", "dad(0.8)", [4]float64{}, oneQueue)
	dad, remote, running := NewDAD(DelayRule{0.5, 2}), 0, []int{}
	for ended := 0; m.Ready() > 0; ended++ {
		for range 3 {
			for _, a := range m.Solve(dad.Solve) {
				number := int(a.Pilot[len(a.Pilot)-1] - '0')
				if running = append(running, number); (names[a.No] == "A") != (number < 2) {
					remote++
				}
			}
			for i := range 4 { // a report without news
				m.SetPlaces(pilotID(i), m.row(pilotID(i)).places)
			}
		}
		if len(running) == 0 {
			t.Fatal("nobody runs, and tasks wait")
		}
		m.SetPlaces(pilotID(running[0]), onePlace)
		running = running[1:]
	}
	if remote != 0 {
		t.Errorf("%d remote of 8", remote)
	}
}

// TestNobodyWaitsForClosedPlaces: a pilot that takes no task, whatever ends there,
// is not waited for.
func TestNobodyWaitsForClosedPlaces(t *testing.T) {
	m, _ := fourNodes(t, "A", "dad(0.8)", [4]float64{}, oneQueue)
	m.SetPlaces(pilotID(0), Places{Closed: true})
	m.SetPlaces(pilotID(1), Places{})
	dad := NewDAD(DelayRule{0.5, 2})
	if got := m.Solve(dad.Solve); len(got) != 0 {
		t.Fatalf("%+v while a pilot with its file is busy", got)
	}
	m.SetPlaces(pilotID(1), Places{Closed: true})
	if got := m.Solve(dad.Solve); len(got) != 1 {
		t.Fatalf("%+v while those with its file take no work", got)
	}
}
