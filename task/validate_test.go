package task_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func goodTask() task.Task {
	return task.Task{
		ID:        "w-abcdefghij/index[07]",
		Argv:      []string{"./tools.sh", "index"},
		Env:       map[string]string{"LC_ALL": "C"},
		Inputs:    []task.Input{{LFN: "w-abcdefghij:part.07.fa", Name: "in.fa"}, {LFN: "vo:tools.sh", Name: "tools.sh"}},
		Outputs:   []task.Output{{LFN: "w-abcdefghij:part.07.idx", Name: "out/part.idx"}},
		Resources: task.Resources{Cores: 1, Memory: task.DefaultMemory, Disk: task.DefaultDisk},
		Retries:   task.DefaultRetries,
		Walltime:  task.DefaultWalltime,
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*task.Task){
		"as it is":             func(*task.Task) {},
		"shell":                func(x *task.Task) { x.Argv, x.Shell = nil, "sort a > b" },
		"no files":             func(x *task.Task) { x.Inputs, x.Outputs = nil, nil },
		"longest variable":     func(x *task.Task) { x.Env = map[string]string{"A": strings.Repeat("a", task.MaxArgvBytes)} },
		"longest argv":         func(x *task.Task) { x.Argv = []string{strings.Repeat("a", task.MaxArgvBytes)} },
		"longest shell":        func(x *task.Task) { x.Argv, x.Shell = nil, strings.Repeat("a", task.MaxArgvBytes) },
		"empty words":          func(x *task.Task) { x.Argv = []string{"a", "", "-"} },
		"no disk":              func(x *task.Task) { x.Resources.Disk = 0 },
		"in a queue":           func(x *task.Task) { x.Queue = "blast-n_2.1" },
		"bound by its input":   func(x *task.Task) { x.Bound = task.IOBound },
		"lowest priority":      func(x *task.Task) { x.Priority = -task.MaxPriority },
		"folders side by side": func(x *task.Task) { x.Outputs[0].Name = "in.fa.d/x" },
	} {
		x := goodTask()
		change(&x)
		if err := x.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	manyInputs := make([]task.Input, task.MaxInputs+1)
	manyOutputs := make([]task.Output, task.MaxOutputs+1)
	manyVariables := map[string]string{}
	longVariables := map[string]string{}
	for i := range task.MaxEnv + 1 {
		manyVariables[fmt.Sprintf("V%d", i)] = ""
		longVariables[fmt.Sprintf("V%d", i)] = strings.Repeat("a", task.MaxTaskBytes/task.MaxEnv)
	}
	for _, c := range []struct {
		change func(*task.Task)
		want   string
	}{
		{func(x *task.Task) { x.ID = "w-abcdefghij/-rf" }, "name"},
		{func(x *task.Task) { x.ID = "w-abcdefghij/../x" }, "name"},
		{func(x *task.Task) { x.Container = "el9" }, "container"},
		{func(x *task.Task) { x.Env = longVariables }, "at most 4194304"},
		{func(x *task.Task) { x.Container = "/" }, "container"},
		{func(x *task.Task) { x.Container = "/cvmfs/../root" }, "container"},
		{func(x *task.Task) { x.Container = "/cvmfs/a b" }, "container"},
		{func(x *task.Task) { x.Container = "/cvmfs/a/" }, "container"},
		{func(x *task.Task) { x.Container = `/cvmfs/"+x` }, "container"},
		{func(x *task.Task) { x.Container, x.Require = "/cvmfs/a", strings.Repeat("a", task.MaxExpression-9) }, "longer"},
		{func(x *task.Task) { x.Argv = nil }, "exactly one of argv and shell"},
		{func(x *task.Task) { x.Shell = "true" }, "exactly one of argv and shell"},
		{func(x *task.Task) { x.Argv = make([]string, task.MaxArgv+1) }, "words"},
		{func(x *task.Task) { x.Argv = []string{"a\x00"} }, "NUL"},
		{func(x *task.Task) { x.Argv, x.Shell = nil, "a\x00" }, "NUL"},
		{func(x *task.Task) { x.Argv = []string{"a", strings.Repeat("a", task.MaxArgvBytes)} }, "bytes"},
		{func(x *task.Task) { x.Argv = []string{"", "a"} }, "argv[0]"},
		{func(x *task.Task) { x.Env = manyVariables }, "variables"},
		{func(x *task.Task) { x.Env = map[string]string{"1A": ""} }, `"1A"`},
		{func(x *task.Task) { x.Env = map[string]string{"A=B": ""} }, `"A=B"`},
		{func(x *task.Task) { x.Env = map[string]string{"PILOTAGE_TASK": ""} }, "PILOTAGE_"},
		{func(x *task.Task) { x.Env = map[string]string{"A": "\x00"} }, "NUL"},
		{func(x *task.Task) { x.Env = map[string]string{"A": strings.Repeat("a", task.MaxArgvBytes+1)} }, "longer"},
		{func(x *task.Task) { x.Inputs = manyInputs }, "10001 inputs"},
		{func(x *task.Task) { x.Outputs = manyOutputs }, "10001 outputs"},
		{func(x *task.Task) { x.Inputs[0].LFN = "w-abcdefghij:../a" }, "segment"},
		{func(x *task.Task) { x.Inputs[0].Name = "../a" }, "work folder"},
		{func(x *task.Task) { x.Outputs[0].Name = "-o" }, "dash"},
		{func(x *task.Task) { x.Outputs[0].Name = "in.fa" }, "would both be"},
		{func(x *task.Task) { x.Inputs[1].Name = "in.fa" }, "would both be"},
		{func(x *task.Task) { x.Outputs[0].Name = "in.fa/x" }, "also the folder"},
		{func(x *task.Task) {
			x.Outputs = []task.Output{{LFN: "a", Name: "x"}, {LFN: "a/b", Name: "y"}}
		}, `outputs: "a" is a file and also the folder of "a/b"`},
		{func(x *task.Task) { x.Resources.Cores = 0 }, "cores"},
		{func(x *task.Task) { x.Resources.Cores = task.MaxCores + 1 }, "cores"},
		{func(x *task.Task) { x.Resources.Memory = 0 }, "memory"},
		{func(x *task.Task) { x.Resources.Memory = 1025 * task.TiB }, "memory"},
		{func(x *task.Task) { x.Resources.Disk = -1 }, "disk"},
		{func(x *task.Task) { x.Resources.Disk = 1025 * task.TiB }, "disk"},
		{func(x *task.Task) { x.Retries = -1 }, "retries"},
		{func(x *task.Task) { x.Retries = task.MaxRetries + 1 }, "retries"},
		{func(x *task.Task) { x.Walltime = 0 }, "walltime"},
		{func(x *task.Task) { x.Walltime = 366 * 24 * time.Hour }, "walltime"},
		{func(x *task.Task) { x.Priority = task.MaxPriority + 1 }, "priority"},
		{func(x *task.Task) { x.Queue = "two words" }, "queue is"},
		{func(x *task.Task) { x.Queue = strings.Repeat("q", task.MaxQueue+1) }, "up to 64 letters"},
		{func(x *task.Task) { x.Bound = "disk" }, "give cpu, io or nothing"},
		{func(x *task.Task) { x.Require = strings.Repeat("x", task.MaxExpression+1) }, "require"},
		{func(x *task.Task) { x.Rank = strings.Repeat("x", task.MaxExpression+1) }, "rank"},
	} {
		x := goodTask()
		c.change(&x)
		err := x.Validate()
		switch {
		case err == nil:
			t.Errorf("accepted; want an error with %q", c.want)
		case !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), x.ID.Name()):
			t.Errorf("got %q; want the task's name and %q", err, c.want)
		}
	}
}

// With several things wrong the complaint is the same every time, so that it
// can be compared and retried.
func TestValidateAlwaysSaysTheSame(t *testing.T) {
	x := goodTask()
	x.Env = map[string]string{"1": "", "2": "", "3": "", "4": "", "5": ""}
	first := x.Validate().Error()
	for range 50 {
		if again := x.Validate().Error(); again != first {
			t.Fatalf("%q, then %q", first, again)
		}
	}
}

func drawResources(t *rapid.T, label string) task.Resources {
	return task.Resources{
		Cores:  rapid.IntRange(0, 3).Draw(t, label+" cores"),
		Memory: task.Bytes(rapid.Int64Range(0, 3).Draw(t, label+" memory")),
		Disk:   task.Bytes(rapid.Int64Range(0, 3).Draw(t, label+" disk")),
	}
}

// Resources that fit can be taken and given back, and nothing goes below zero.
func TestResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, need := drawResources(t, "have"), drawResources(t, "need")
		left := have.Sub(need)
		if left.Add(need) != have {
			t.Fatalf("%+v less and plus %+v is %+v", have, need, left.Add(need))
		}
		if enough := left.Cores >= 0 && left.Memory >= 0 && left.Disk >= 0; have.Fits(need) != enough {
			t.Fatalf("%+v fits into %+v: %v", need, have, have.Fits(need))
		}
	})
}

func TestClassIsWhatAPilotSees(t *testing.T) {
	a, b := goodTask(), goodTask()
	b.ID, b.Argv, b.Inputs, b.Priority = "w-abcdefghij/other", []string{"true"}, nil, 7
	if a.Class() != b.Class() {
		t.Error("tasks alike to a pilot are of different classes")
	}
	for _, change := range []func(*task.Task){
		func(x *task.Task) { x.Require = "true" },
		func(x *task.Task) { x.Rank = "rest" },
		func(x *task.Task) { x.Resources.Cores++ },
	} {
		c := goodTask()
		change(&c)
		if c.Class() == a.Class() {
			t.Errorf("%+v is of the same class as %+v", c, a)
		}
	}
}
