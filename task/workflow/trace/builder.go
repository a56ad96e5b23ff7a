package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Unknown is the size of a file that the source does not give.
const Unknown task.Bytes = -1

// Builder joins tasks and files that are named by text. The readers check what
// is wrong with their own format first, where they can name the place.
type Builder struct {
	workload Workload
	files    map[string]int32
	tasks    map[string]int32
	parents  [][]int32 // by task, as the source lists them beside the files
}

// NewBuilder starts a workload.
func NewBuilder(name string) *Builder {
	return &Builder{workload: Workload{Name: name}, files: make(map[string]int32), tasks: make(map[string]int32)}
}

// File makes a file known and returns its index; a second call with another
// size changes it.
func (b *Builder) File(name string, size task.Bytes) int32 {
	index, found := b.files[name]
	if !found {
		index = int32(len(b.workload.Files))
		b.files[name] = index
		b.workload.Files = append(b.workload.Files, File{Name: name, Producer: External})
	}
	b.workload.Files[index].Size = size
	return index
}

// Find returns a file's index.
func (b *Builder) Find(name string) (int32, bool) {
	index, found := b.files[name]
	return index, found
}

// Size of a file by its index.
func (b *Builder) Size(file int32) task.Bytes { return b.workload.Files[file].Size }

// Recorded is a task as a source describes it; files are known to the Builder.
type Recorded struct {
	Name            string
	Inputs, Outputs []string
	Runtime         time.Duration
	Cores           int
	Memory          task.Bytes
}

// Task adds a task. A file listed twice counts once. A file that the task both
// reads and writes is changed in place; files are immutable here, so it counts
// as read only. Of two producers of a file the first counts, and the second
// one's readers find the first one's. Both are noted.
func (b *Builder) Task(r Recorded) error {
	if _, found := b.tasks[r.Name]; found {
		return fmt.Errorf("two tasks are called %s: names must be unique", r.Name)
	}
	index := int32(len(b.workload.Tasks))
	t := Task{Name: r.Name, Runtime: r.Runtime, Cores: max(r.Cores, 1), Memory: r.Memory}
	var err error
	if t.Inputs, err = b.indices(r.Name, r.Inputs); err != nil {
		return err
	}
	outputs, err := b.indices(r.Name, r.Outputs)
	if err != nil {
		return err
	}
	for _, f := range outputs {
		file := &b.workload.Files[f]
		switch {
		case slices.Contains(t.Inputs, f):
			b.Note("task %s reads and writes %s: taken as read only", r.Name, file.Name)
		case file.Producer != External:
			b.Note("%s is made by %s and by %s: the first counts", file.Name, b.workload.Tasks[file.Producer].Name, r.Name)
		default:
			file.Producer = index
			t.Outputs = append(t.Outputs, f)
		}
	}
	b.tasks[r.Name] = index
	b.workload.Tasks = append(b.workload.Tasks, t)
	b.parents = append(b.parents, nil)
	return nil
}

func (b *Builder) indices(of string, names []string) ([]int32, error) {
	list, seen := make([]int32, 0, len(names)), make(map[int32]bool, len(names))
	for _, name := range names {
		f, found := b.files[name]
		if !found {
			return nil, fmt.Errorf("task %s names file %s, which is not described", of, name)
		}
		if !seen[f] {
			seen[f] = true
			list = append(list, f)
		}
	}
	return list, nil
}

// After says that a task starts after another one; both must have been added.
func (b *Builder) After(child, parent string) error {
	c, found := b.tasks[child]
	if !found {
		return fmt.Errorf("there is no task %s", child)
	}
	p, found := b.tasks[parent]
	if !found {
		return fmt.Errorf("task %s comes after %s, which there is not", child, parent)
	}
	if !slices.Contains(b.parents[c], p) {
		b.parents[c] = append(b.parents[c], p)
	}
	return nil
}

// Note records a decision for people.
func (b *Builder) Note(format string, args ...any) {
	b.workload.Notes = append(b.workload.Notes, fmt.Sprintf(format, args...))
}

// Workload finishes the workload. Where a task comes after another one without
// reading a file of it, a marker of no bytes is put between them, since only
// files make tasks wait. The error is a *Cycle.
func (b *Builder) Workload() (*Workload, error) {
	w, markers := &b.workload, 0
	for child, parents := range b.parents {
		for _, parent := range parents {
			reads := slices.ContainsFunc(w.Tasks[child].Inputs, func(f int32) bool { return w.Files[f].Producer == parent })
			if reads {
				continue
			}
			marker := b.marker(parent)
			w.Tasks[child].Inputs = append(w.Tasks[child].Inputs, marker)
			markers++
		}
	}
	if markers > 0 {
		b.Note("%d dependencies have no file: markers of no bytes stand for them", markers)
	}
	if _, err := w.Order(); err != nil {
		return nil, err
	}
	return w, nil
}

func (b *Builder) marker(parent int32) int32 {
	name := "ended/" + b.workload.Tasks[parent].Name
	for {
		f, found := b.files[name]
		if !found {
			break
		}
		if b.workload.Files[f].Producer == parent {
			return f
		}
		name += "+"
	}
	f := b.File(name, 0)
	b.workload.Files[f].Producer = parent
	b.workload.Tasks[parent].Outputs = append(b.workload.Tasks[parent].Outputs, f)
	return f
}
