package cluster_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/task"
)

// machines read 400 bytes a second of their own and carry 100 over their cards;
// a task starts after a second.
func machines(nodes int) cluster.Config {
	return cluster.Config{Nodes: nodes, Solver: cluster.FIFO, Hardware: cluster.Hardware{
		Slots: 1, CPUs: 4, Local: 400, WhileServing: 0.5, Card: 100, Start: time.Second,
	}}
}

func run(t *testing.T, c cluster.Config) *cluster.Result {
	t.Helper()
	result, err := cluster.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func isAbout(t *testing.T, what string, got time.Duration, want float64) {
	t.Helper()
	if math.Abs(got.Seconds()-want) > 1e-6 {
		t.Errorf("%s: %v, want %v s", what, got, want)
	}
}

// A node that serves another reads its own files at half its speed meanwhile.
func TestServingHalvesLocalReads(t *testing.T) {
	c := machines(2)
	c.Files = []cluster.File{{Size: 800, Holders: []int{0}}, {Size: 300, Holders: []int{0}}}
	c.Tasks = []cluster.Task{{Files: []int{0}, Compute: time.Second}, {Files: []int{1}}}
	r := run(t, c)
	// Task 1 reads 300 bytes over the card until 4 s; task 0 reads 600 at 200 a
	// second until then, and the other 200 at 400.
	isAbout(t, "task 0's read", r.Tasks[0].Read, 3.5)
	isAbout(t, "task 0's end", r.Tasks[0].Ended, 5.5)
	isAbout(t, "task 1's end", r.Tasks[1].Ended, 4)
	if !r.Tasks[0].Local || r.Tasks[1].Local || r.RemoteBytes != 300 || math.Abs(r.Tasks[1].Throughput()-100) > 1e-6 {
		t.Errorf("%+v", r)
	}
}

// Readers of one node share its card; a reader takes the holder that serves the
// fewest.
func TestReadersShareTheCardOfTheirSource(t *testing.T) {
	c := machines(3)
	c.Files = []cluster.File{{Size: 100, Holders: []int{0}}}
	c.Tasks = []cluster.Task{{}, {Files: []int{0}}, {Files: []int{0}}}
	r := run(t, c)
	isAbout(t, "one of two readers", r.Tasks[1].Ended, 3)
	c.Nodes, c.Files[0].Holders = 4, []int{0, 3}
	r = run(t, c)
	isAbout(t, "one reader of two sources", r.Tasks[2].Ended, 2)
}

// The load average nears the number of running tasks by 63 % a minute, and FIFO
// goes by it.
func TestFIFOTakesTheLeastLoadedNode(t *testing.T) {
	c := machines(2)
	c.Tasks = []cluster.Task{
		{Compute: 59 * time.Second}, {Compute: 9 * time.Second}, {Enters: 2 * time.Minute, Compute: time.Second},
		{Enters: 2 * time.Minute},
	}
	r := run(t, c)
	if got := []int{r.Tasks[0].Node, r.Tasks[1].Node, r.Tasks[2].Node, r.Tasks[3].Node}; !slices.Equal(got, []int{0, 1, 1, 0}) {
		t.Errorf("nodes %v", got)
	}
}

// What a node has read it keeps, if nodes do: the second reading is local. Without
// room the file used longest ago goes, unless it is the last replica.
func TestNodesKeepWhatTheyRead(t *testing.T) {
	c := machines(2)
	c.Files = []cluster.File{{Size: 100, Holders: []int{0}}, {Size: 100, Holders: []int{0}}, {Size: 100, Holders: []int{0}}}
	// Node 0 is busy throughout; node 1 reads 0, 0, 1, 2, 0.
	c.Tasks = []cluster.Task{{Compute: time.Hour}}
	for i, f := range []int{0, 0, 1, 2, 0} {
		c.Tasks = append(c.Tasks, cluster.Task{Files: []int{f}, Enters: time.Duration(i) * time.Minute})
	}
	local := func(c cluster.Config) (local []bool, remote float64) {
		r := run(t, c)
		for _, one := range r.Tasks[1:] {
			if one.Node != 1 {
				t.Errorf("a task ran on node %d", one.Node)
			}
			local = append(local, one.Local)
		}
		return local, r.RemoteBytes
	}
	if got, remote := local(c); slices.Contains(got, true) || remote != 500 {
		t.Errorf("reading makes copies: %v, %v bytes", got, remote)
	}
	c.KeepReads = true
	if got, remote := local(c); !slices.Equal(got, []bool{false, true, false, false, true}) || remote != 300 {
		t.Errorf("local %v, %v bytes", got, remote)
	}
	c.Hardware.Room = 200
	if got, remote := local(c); !slices.Equal(got, []bool{false, true, false, false, false}) || remote != 400 {
		t.Errorf("with room for two: local %v, %v bytes", got, remote)
	}
}

// A copy takes the network, and tasks find it when it is there.
func TestCopiesTakeTime(t *testing.T) {
	c := machines(2)
	c.Solver, c.Rank, c.Replicas = "dad(0.5,9)", "dad(1)", "alpha(1)"
	c.Files = []cluster.File{{Size: 400, Holders: []int{0}}}
	for range 4 {
		c.Tasks = append(c.Tasks, cluster.Task{Files: []int{0}})
	}
	r := run(t, c)
	if len(r.Copies) != 1 || r.CopiedBytes != 400 || r.Local() != 4 {
		t.Fatalf("%+v", r)
	}
	isAbout(t, "the copy", r.Copies[0].Over, 4)
	isAbout(t, "the first task, at half speed", r.Tasks[0].Ended, 3)
	isAbout(t, "the third task, on the new node", r.Tasks[2].Started, 4)
}

// Who receives a copy reads its own files at half its speed too.
func TestReceivingHalvesLocalReads(t *testing.T) {
	c := machines(2)
	c.Solver, c.Rank, c.Replicas = "dad(0.5,9)", "dad(1)", "alpha(1)"
	c.Files = []cluster.File{{Size: 400, Holders: []int{0}}, {Size: 800, Holders: []int{1}}}
	c.Tasks = []cluster.Task{{Files: []int{0}}, {Queue: "other", Files: []int{1}}, {Files: []int{0}}, {Files: []int{0}}, {Files: []int{0}}}
	r := run(t, c)
	if len(r.Copies) != 1 || r.Copies[0].To != 1 {
		t.Fatalf("%+v", r.Copies)
	}
	// The copy takes until 4 s, the read begins after 1 s.
	isAbout(t, "node 1's own read", r.Tasks[1].Read, 3.5)
}

// 002, section 4: a plan's node runs the plan's tasks only, and these run there
// only, whatever scheduler works beside it.
func TestPlansKeepTheirNodesAndTasks(t *testing.T) {
	c := machines(2)
	c.Replicas, c.SessionEvery = "plans(0,9)", time.Second
	c.Files = []cluster.File{{Size: 400, Holders: []int{0}}}
	for range 4 {
		c.Tasks = append(c.Tasks, cluster.Task{Compute: 10 * time.Second})
	}
	for range 5 {
		c.Tasks = append(c.Tasks, cluster.Task{Files: []int{0}, Compute: 10 * time.Second})
	}
	for i, one := range run(t, c).Tasks {
		if planned := i >= 4; planned != (one.Node == 0) {
			t.Errorf("task %d runs on node %d", i, one.Node)
		}
	}
}

// draw makes any small workload.
func draw(t *rapid.T) cluster.Config {
	c := machines(rapid.IntRange(1, 4).Draw(t, "nodes"))
	c.Hardware.Slots = rapid.IntRange(1, 3).Draw(t, "slots")
	node := rapid.IntRange(0, c.Nodes-1)
	for range rapid.IntRange(1, 4).Draw(t, "files") {
		c.Files = append(c.Files, cluster.File{Size: task.Bytes(rapid.IntRange(0, 900).Draw(t, "size")), Holders: rapid.SliceOfNDistinct(node, 1, c.Nodes, rapid.ID).Draw(t, "holders")})
	}
	at := time.Duration(0)
	for range rapid.IntRange(1, 20).Draw(t, "tasks") {
		at += time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * time.Second
		c.Tasks = append(c.Tasks, cluster.Task{
			Queue: rapid.SampledFrom([]string{"", "a"}).Draw(t, "queue"), Enters: at, Compute: time.Duration(rapid.IntRange(0, 90).Draw(t, "compute")) * time.Second,
			Files: rapid.SliceOfNDistinct(rapid.IntRange(0, len(c.Files)-1), 0, len(c.Files), rapid.ID).Draw(t, "reads"),
		})
	}
	return c
}

// 000, V-C: with beta 0, Delay 0 and one queue DAD is FIFO, event by event. With
// several slots a node's load is the same for all of them, so they agree too.
func TestDADWithoutLocalityIsFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		for i := range c.Tasks {
			c.Tasks[i].Queue = ""
		}
		fifo, err := cluster.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Solver, c.Rank = "dad(0.5,0)", "dad(0)"
		zero, err := cluster.Run(c)
		if err != nil || zero.Hash != fifo.Hash {
			t.Fatalf("%v: the schedules differ:\n%+v\n%+v", err, fifo.Tasks, zero.Tasks)
		}
	})
}

// Whatever the policies, every task ends after it has started and read at most
// as fast as its node can, no slot is used twice, no file is lost, and the same
// settings give the same run.
func TestRunsKeepTheirHouse(t *testing.T) {
	solvers := [][2]string{{cluster.FIFO, ""}, {"dad(0.5,2)", "dad(0.8)"}, {"greedy", "locality"}, {"exact", "dad(1)"}}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		solver := rapid.SampledFrom(solvers).Draw(t, "solver")
		c.Solver, c.Rank = solver[0], solver[1]
		c.Replicas = rapid.SampledFrom([]string{"", "alpha(0)", "alpha(2)", "plans(5,2)", "plans(0,1,eliminate)", "plans(20,3); alpha(3)"}).Draw(t, "replicas")
		c.Hardware.Room = task.Bytes(rapid.SampledFrom([]int{0, 1000, 2000}).Draw(t, "room"))
		c.SessionEvery = time.Duration(rapid.IntRange(0, 3).Draw(t, "sessions")) * time.Second
		if c.SessionEvery == 0 && strings.Contains(c.Replicas, "plans") {
			c.SessionEvery = time.Second
		}
		r, err := cluster.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range r.Tasks {
			if one.Started < c.Tasks[i].Enters || one.Ended < one.Started+time.Second+one.Read+c.Tasks[i].Compute || one.Ended > r.Makespan {
				t.Fatalf("task %d: %+v", i, one)
			}
			if one.Throughput() > 401 {
				t.Fatalf("task %d reads %v bytes a second", i, one.Throughput())
			}
			beside := 0
			for j, other := range r.Tasks {
				if other.Node == one.Node && j != i && other.Started <= one.Started && one.Started < other.Ended {
					beside++
				}
			}
			if beside >= c.Hardware.Slots {
				t.Fatalf("task %d starts on node %d beside %d others", i, one.Node, beside)
			}
		}
		held := make(map[int]int)
		for f := range c.Files {
			held[f] = len(c.Files[f].Holders)
		}
		for _, copied := range r.Copies {
			held[copied.File]++
		}
		for _, d := range r.Drops {
			if held[d.File]--; held[d.File] < 1 {
				t.Fatalf("file %d is lost", d.File)
			}
		}
		if again, _ := cluster.Run(c); again.Hash != r.Hash {
			t.Fatal("two runs of the same settings differ")
		}
	})
}

func TestSettingsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*cluster.Config){
		"above 0":              func(c *cluster.Config) { c.Hardware.Card = 0 },
		"no node holds file 0": func(c *cluster.Config) { c.Files = []cluster.File{{}} },
		"there is no node 7":   func(c *cluster.Config) { c.Files = []cluster.File{{Holders: []int{7}}} },
		"reads file 3":         func(c *cluster.Config) { c.Tasks[0].Files = []int{3} },
		"enters before":        func(c *cluster.Config) { c.Tasks = []cluster.Task{{Enters: 2}, {Enters: 1}} },
		"unknown solver":       func(c *cluster.Config) { c.Solver = "fast" },
		"draws at random":      func(c *cluster.Config) { c.Solver, c.Rank = "choose(2)", "rest" },
		"give the rank":        func(c *cluster.Config) { c.Solver, c.Rank = "dad(0.5,2)", "rest" },
		"replica policy":       func(c *cluster.Config) { c.Replicas = "beta(2)" },
		"1 of 1 tasks are not": func(c *cluster.Config) { c.Solver = "" },
	} {
		c := machines(2)
		c.Tasks = []cluster.Task{{}}
		change(&c)
		if _, err := cluster.Run(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Bars have a row for each task.
func TestBarsAreKeptIfWanted(t *testing.T) {
	c := machines(1)
	c.Tasks, c.KeepBars = []cluster.Task{{Compute: time.Second}, {Compute: time.Second}}, true
	if got := fmt.Sprint(run(t, c).Bars); got != "[{0 waiting 0 0s 1s} {0 computing 0 1s 2s} {1 waiting 1 2s 3s} {1 computing 1 3s 4s}]" {
		t.Error(got)
	}
}
