package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// A workload whose tasks read files of earlier tasks has an order; one edge
// back along a chain makes a cycle that names its tasks in the right order.
func TestOrderFindsAnOrderOrACycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "tasks")
		w := &trace.Workload{}
		for i := range n {
			w.Files = append(w.Files, trace.File{Name: fmt.Sprint("f", i), Producer: int32(i)})
			one := trace.Task{Name: fmt.Sprint("t", i), Outputs: []int32{int32(i)}}
			for from := range i {
				if rapid.Bool().Draw(t, "reads") {
					one.Inputs = append(one.Inputs, int32(from))
				}
			}
			w.Tasks = append(w.Tasks, one)
		}
		order, err := w.Order()
		if err != nil || len(order) != n {
			t.Fatalf("%v %v", order, err)
		}
		made := make(map[int32]bool)
		for _, i := range order {
			for _, f := range w.Tasks[i].Inputs {
				if !made[f] {
					t.Fatalf("%v: task %d comes too early", order, i)
				}
			}
			made[i] = true
		}
		from := rapid.IntRange(0, n-2).Draw(t, "from")
		if len(w.Tasks[from+1].Inputs) == 0 || w.Tasks[from+1].Inputs[len(w.Tasks[from+1].Inputs)-1] != int32(from) {
			return
		}
		w.Tasks[from].Inputs = []int32{int32(from + 1)}
		_, err = w.Order()
		want := fmt.Sprintf("t%d -> t%d -> t%d", from, from+1, from)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %s", err, want)
		}
	})
}

func TestReplayedPayloadsMakeTheirFiles(t *testing.T) {
	w := &trace.Workload{
		Name:  "replay",
		Files: []trace.File{{Name: "-odd name/../x", Size: 1000, Producer: trace.External}, {Name: "out a", Size: 70_000, Producer: 0}, {Name: "out_a", Size: 0, Producer: 0}},
		Tasks: []trace.Task{{Name: "one [1]", Inputs: []int32{0}, Outputs: []int32{1, 2}, Runtime: time.Second, Cores: 1}},
	}
	plan, contents, err := w.Plan(trace.Scale{Time: 0.01, Size: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if err := trace.WriteContent(&content, contents[0].Name, contents[0].Size); err != nil || content.Len() != 100 {
		t.Fatalf("%d bytes, %v", content.Len(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in/0"), content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/bin/sh", "-c", plan.Tasks[0].Shell)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil || len(output) > 0 {
		t.Fatalf("%v: %s", err, output)
	}
	for i, size := range []int64{7000, 0} {
		info, err := os.Stat(filepath.Join(dir, plan.Tasks[0].Outputs[i].Name))
		if err != nil || info.Size() != size {
			t.Errorf("output %d: %v %v, want %d bytes", i, info, err, size)
		}
	}
	names := []string{plan.Files[0].Name, plan.Tasks[0].Outputs[0].LFN.Local(), plan.Tasks[0].Outputs[1].LFN.Local()}
	for i, name := range names {
		if err := task.ValidateLFN(name); err != nil {
			t.Error(err)
		}
		for _, other := range names[:i] {
			if other == name {
				t.Errorf("two files are called %s", name)
			}
		}
	}
}
