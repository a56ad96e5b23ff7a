package coadd

import (
	"slices"
	"strconv"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Bag is a bag of tasks: for each task the sorted numbers of the files it reads.
type Bag struct {
	Name  string
	Files int
	Tasks [][]int32
}

// Generate makes a bag of a shape. File numbers are shuffled, so that a number
// says nothing about the place in the sky.
func Generate(shape Shape, seed uint64) *Bag {
	s := observe(shape, seed)
	s.correct()
	names := make([]int32, len(s.files))
	for i := range names {
		names[i] = int32(i)
	}
	for i := len(names) - 1; i > 0; i-- {
		j := s.random.below(i + 1)
		names[i], names[j] = names[j], names[i]
	}
	bag := &Bag{Name: shape.Name, Files: len(s.files), Tasks: make([][]int32, s.tasks)}
	all := make([]int32, s.total)
	for t, n := range s.load {
		bag.Tasks[t], all = all[:0:n], all[n:]
	}
	for i, f := range s.files {
		for t := f.from; t <= f.to; t++ {
			bag.Tasks[t] = append(bag.Tasks[t], names[i])
		}
	}
	for _, files := range bag.Tasks {
		slices.Sort(files)
	}
	return bag
}

// Shuffled keeps how many files each task reads and how many tasks read each
// file, and draws anew who reads what: the control that has no locality beyond
// popularity.
func (b *Bag) Shuffled(seed uint64) *Bag {
	r := &random{seed}
	var accesses []int32
	owners := make([]int32, 0)
	for t, files := range b.Tasks {
		accesses = append(accesses, files...)
		for range files {
			owners = append(owners, int32(t))
		}
	}
	for i := len(accesses) - 1; i > 0; i-- {
		j := r.below(i + 1)
		accesses[i], accesses[j] = accesses[j], accesses[i]
	}
	// A task must not read a file twice: swap such an access with a random one
	// as long as that breaks nothing elsewhere.
	reads := make([]map[int32]int, len(b.Tasks))
	for t := range reads {
		reads[t] = make(map[int32]int, len(b.Tasks[t]))
	}
	for i, f := range accesses {
		reads[owners[i]][f]++
	}
	for i := range accesses {
		for reads[owners[i]][accesses[i]] > 1 {
			j := r.below(len(accesses))
			if reads[owners[j]][accesses[i]] > 0 || reads[owners[i]][accesses[j]] > 0 {
				continue
			}
			reads[owners[i]][accesses[i]]--
			reads[owners[j]][accesses[j]]--
			accesses[i], accesses[j] = accesses[j], accesses[i]
			reads[owners[i]][accesses[i]]++
			reads[owners[j]][accesses[j]]++
		}
	}
	shuffled := &Bag{Name: b.Name + "-shuffled", Files: b.Files, Tasks: make([][]int32, len(b.Tasks))}
	for t, files := range b.Tasks {
		shuffled.Tasks[t], accesses = slices.Sorted(slices.Values(accesses[:len(files)])), accesses[len(files):]
	}
	return shuffled
}

// Workload turns the bag into tasks whose run time is linear in the number of
// files (001, table 1), on a machine of speed 1.
func (b *Bag) Workload(fileSize task.Bytes, perFile time.Duration) *trace.Workload {
	w := &trace.Workload{Name: b.Name, Files: make([]trace.File, b.Files), Tasks: make([]trace.Task, len(b.Tasks))}
	for f := range w.Files {
		w.Files[f] = trace.File{Name: "f" + strconv.Itoa(f), Size: fileSize, Producer: trace.External}
	}
	for t, files := range b.Tasks {
		w.Tasks[t] = trace.Task{Name: "t" + strconv.Itoa(t), Inputs: files, Runtime: perFile * time.Duration(len(files)), Cores: 1}
	}
	return w
}

// Disordered is the same bag with its tasks in random order.
func (b *Bag) Disordered(seed uint64) *Bag {
	r := &random{seed}
	disordered := &Bag{Name: b.Name + "-disordered", Files: b.Files, Tasks: slices.Clone(b.Tasks)}
	for i := len(disordered.Tasks) - 1; i > 0; i-- {
		j := r.below(i + 1)
		disordered.Tasks[i], disordered.Tasks[j] = disordered.Tasks[j], disordered.Tasks[i]
	}
	return disordered
}
