package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// drawn is a workload that is made up task by task.
type drawn struct {
	trace.Workload
	random *rand.Rand
}

func newDrawn(name string) *drawn {
	return &drawn{Workload: trace.Workload{Name: name}, random: sim.Random(7, name)}
}

// file adds a file that no task makes.
func (d *drawn) file(size task.Bytes) int32 {
	d.Files = append(d.Files, trace.File{Name: fmt.Sprintf("f%04d", len(d.Files)), Size: size, Producer: trace.External})
	return int32(len(d.Files) - 1)
}

// task adds a task of a usual run time, half as long to half as long again, that makes
// so many files of a size.
func (d *drawn) task(usual time.Duration, inputs []int32, outputs int, size task.Bytes) (made []int32) {
	for range outputs {
		made = append(made, d.file(size))
		d.Files[made[len(made)-1]].Producer = int32(len(d.Tasks))
	}
	d.Tasks = append(d.Tasks, trace.Task{
		Name: fmt.Sprintf("t%04d", len(d.Tasks)), Inputs: inputs, Outputs: made, Cores: 1,
		Runtime: time.Duration((0.5 + d.random.Float64()) * float64(usual)),
	})
	return made
}

func (d *drawn) files(count int, size task.Bytes) (files []int32) {
	for range count {
		files = append(files, d.file(size))
	}
	return files
}

const megabyte = task.Bytes(1e6)

// Shapes are workloads of the common shapes of workflows, drawn from a fixed seed.
func Shapes() []*trace.Workload {
	return []*trace.Workload{chains(), shuffle(), tree(), sharing(), dataSets(), forks()}
}

// chains are pipelines of five tasks.
func chains() *trace.Workload {
	d := newDrawn("chains")
	for range 60 {
		last := d.files(1, 100*megabyte)
		for range 5 {
			last = d.task(15*time.Second, last, 1, 100*megabyte)
		}
	}
	return &d.Workload
}

// shuffle is map and reduce: each of the latter reads a file of each of the former.
func shuffle() *trace.Workload {
	d := newDrawn("shuffle")
	parts := make([][]int32, 16)
	for _, input := range d.files(80, 250*megabyte) {
		for i, made := range d.task(20*time.Second, []int32{input}, len(parts), 10*megabyte) {
			parts[i] = append(parts[i], made)
		}
	}
	for _, part := range parts {
		d.task(30*time.Second, part, 1, 100*megabyte)
	}
	return &d.Workload
}

// tree merges files two by two.
func tree() *trace.Workload {
	d := newDrawn("tree")
	level := d.files(128, 100*megabyte)
	for len(level) > 1 {
		var next []int32
		for i := 0; i+1 < len(level); i += 2 {
			next = append(next, d.task(10*time.Second, level[i:i+2:i+2], 1, 100*megabyte)...)
		}
		level = next
	}
	return &d.Workload
}

// sharing is a bag of tasks that read two of few files, with makers and their readers.
func sharing() *trace.Workload {
	d := newDrawn("sharing")
	inputs := d.files(40, 200*megabyte)
	pair := func(of []int32) []int32 {
		a := d.random.IntN(len(of))
		return []int32{of[a], of[(a+1+d.random.IntN(len(of)-1))%len(of)]}
	}
	for range 200 {
		d.task(10*time.Second, pair(inputs), 0, 0)
	}
	var made []int32
	for range 200 {
		made = append(made, d.task(10*time.Second, nil, 1, 50*megabyte)...)
	}
	for range 200 {
		d.task(10*time.Second, pair(made), 0, 0)
	}
	return &d.Workload
}

// dataSets has many tasks on each of few large data sets.
func dataSets() *trace.Workload {
	d := newDrawn("data sets")
	sets := d.files(12, 1000*megabyte)
	for range 240 {
		d.task(20*time.Second, []int32{sets[d.random.IntN(len(sets))]}, 1, megabyte)
	}
	return &d.Workload
}

// forks splits and joins, stage by stage.
func forks() *trace.Workload {
	d := newDrawn("forks")
	last := d.files(1, 500*megabyte)
	for range 5 {
		var made []int32
		for _, part := range d.task(5*time.Second, last, 40, 25*megabyte) {
			made = append(made, d.task(20*time.Second, []int32{part}, 1, 25*megabyte)...)
		}
		last = d.task(5*time.Second, made, 1, 500*megabyte)
	}
	return &d.Workload
}
