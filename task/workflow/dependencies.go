package workflow

import (
	"fmt"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// connect finds the producer of every file and checks that every input comes
// from somewhere.
func (e *expansion) connect() {
	e.producers = make(map[task.LFN]int32, len(e.plan.Tasks))
	blamed := make(map[Position]bool) // one error for an item of the file is enough
	names := make(map[string]bool, len(e.plan.Tasks))
	for index := range e.plan.Tasks {
		made := &e.plan.Tasks[index]
		name := made.ID.Name()
		t := e.templates[e.origin[index]]
		if names[name] {
			e.faults.add(t.name.At, "rename one of the two", "two tasks are called %s", name)
		}
		names[name] = true
		for i, out := range made.Outputs {
			other, double := e.producers[out.LFN]
			listed, external := e.external[string(out.LFN)]
			if double || external {
				if at := t.itemAt(t.outputs, i).Name.At; !blamed[at] {
					blamed[at] = true
					e.blameOutput(at, out.LFN, made, double, other, listed)
				}
			}
			e.producers[out.LFN] = int32(index)
		}
	}
	clear(blamed)
	for index := range e.plan.Tasks {
		e.checkInputs(index, blamed)
	}
}

// blameOutput reports an output that has another origin: a task if double,
// else the files section.
func (e *expansion) blameOutput(at Position, lfn task.LFN, made *task.Task, double bool, other int32, listed Position) {
	name := made.ID.Name()
	switch rival := &e.plan.Tasks[other]; {
	case !double:
		e.faults.add(at, "rename one of the two", "task %s makes %s, which is also listed under files%s", name, lfn, atLine(listed))
	case rival == made:
		e.faults.add(at, "write it once", "task %s lists its output %s twice", name, lfn)
	default:
		e.faults.add(at, "give the files different names; inside a foreach, use its variables in them",
			"tasks %s and %s both make %s", rival.ID.Name(), name, lfn)
	}
}

func atLine(at Position) string {
	if at.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" at line %d", at.Line)
}

// checkInputs complains about inputs that come from nowhere or from the task
// itself.
func (e *expansion) checkInputs(index int, blamed map[Position]bool) {
	made := &e.plan.Tasks[index]
	t := e.templates[e.origin[index]]
	for i, in := range made.Inputs {
		producer, produced := e.producers[in.LFN]
		_, external := e.external[string(in.LFN)]
		self := produced && producer == int32(index)
		if self || !produced && !external && e.isMissing(string(in.LFN)) {
			at := t.itemAt(t.inputs, i).Name.At
			switch {
			case at.Line > 0 && blamed[at]:
			case self:
				e.faults.add(at, "read one file and write another", "task %s reads its own output %s", made.ID.Name(), in.LFN)
			case strings.HasPrefix(string(in.LFN), task.SharedPrefix):
				e.faults.add(at, "register it with \"pilotage file register\", or submit with --allow-missing to let the task wait for it",
					"task %s reads the shared file %s, which is not registered", made.ID.Name(), in.LFN)
			default:
				e.faults.add(at, e.missingHint(string(in.LFN)), "task %s reads %s, which no task makes and files does not list", made.ID.Name(), in.LFN)
			}
			blamed[at] = true
		}
	}
}

func (e *expansion) isMissing(name string) bool {
	if e.opts.AllowMissing {
		return false
	}
	if strings.HasPrefix(name, task.SharedPrefix) {
		return e.opts.Registered != nil && !e.opts.Registered(name)
	}
	return true
}

func (e *expansion) missingHint(name string) string {
	const otherwise = "list it under files, or submit with --allow-missing to let the task wait for it"
	if e.opts.Registered != nil && e.opts.Registered(task.SharedPrefix+name) {
		return fmt.Sprintf("did you mean the shared file %q?", task.SharedPrefix+name)
	}
	return didYouMean(name, e.knownNames(), otherwise)
}

// knownNames lists names that might have been meant, in the order of the
// file; a bounded number, because comparing is slow.
func (e *expansion) knownNames() []string {
	const most = 5_000
	var names []string
	for _, file := range e.plan.Files {
		if len(names) == most {
			return names
		}
		names = append(names, file.Name)
	}
	for i := range e.plan.Tasks {
		for _, out := range e.plan.Tasks[i].Outputs {
			if len(names) == most {
				return names
			}
			names = append(names, string(out.LFN))
		}
	}
	return names
}

// finalOutputs expands and checks the outputs of the workflow.
func (e *expansion) finalOutputs() {
	if !e.file.Outputs.Set {
		e.plan.Outputs = e.unreadOutputs()
		return
	}
	c := &compiler{faults: e.faults, limits: e.limits}
	seen := make(map[string]bool)
	for _, item := range e.file.Outputs.Items {
		names, _ := c.inStep("outputs", item, uint64(len(e.plan.Outputs)), nil)
		for _, name := range names {
			_, produced := e.producers[task.LFN(name)]
			_, external := e.external[name]
			switch {
			case !produced && !external:
				hint := didYouMean(name, e.knownNames(), "name outputs of tasks, or files listed under files")
				e.faults.add(item.At, hint, "outputs: no task makes %q", shorten(name))
			case seen[name]:
				e.faults.add(item.At, "write it once", "outputs: %q is listed twice", name)
			default:
				seen[name] = true
				e.plan.Outputs = append(e.plan.Outputs, name)
				continue
			}
			break
		}
	}
}

// unreadOutputs are the outputs that no task reads.
func (e *expansion) unreadOutputs() []string {
	read := make(map[task.LFN]bool)
	for i := range e.plan.Tasks {
		for _, in := range e.plan.Tasks[i].Inputs {
			read[in.LFN] = true
		}
	}
	var names []string
	for i := range e.plan.Tasks {
		for _, out := range e.plan.Tasks[i].Outputs {
			if !read[out.LFN] {
				names = append(names, string(out.LFN))
			}
		}
	}
	return names
}

// findCycle walks from every task to the producers of its inputs, depth first
// without recursion, and reports the first cycle.
func (e *expansion) findCycle() {
	const (
		fresh = iota
		open
		finished
	)
	state := make([]uint8, len(e.plan.Tasks))
	type step struct{ index, input int32 }
	var path []step
	for start := range e.plan.Tasks {
		if state[start] != fresh {
			continue
		}
		state[start] = open
		path = append(path[:0], step{index: int32(start)})
		for len(path) > 0 {
			top := &path[len(path)-1]
			inputs := e.plan.Tasks[top.index].Inputs
			if int(top.input) == len(inputs) {
				state[top.index] = finished
				path = path[:len(path)-1]
				continue
			}
			producer, produced := e.producers[inputs[top.input].LFN]
			top.input++
			switch {
			case !produced || state[producer] == finished:
			case state[producer] == fresh:
				state[producer] = open
				path = append(path, step{index: producer})
			default:
				indices := make([]int32, 0, len(path))
				for i := len(path) - 1; path[i].index != producer; i-- {
					indices = append(indices, path[i].index)
				}
				e.reportCycle(append(indices, producer))
				return
			}
		}
	}
}

// reportCycle names the tasks of a cycle, each the producer of an input of
// the one after it, and the last of the first.
func (e *expansion) reportCycle(cycle []int32) {
	const most = 10
	var b strings.Builder
	for i, index := range cycle {
		if i == most && len(cycle) > most+1 {
			fmt.Fprintf(&b, " -> ... %d more", len(cycle)-most)
			break
		}
		if i > 0 {
			b.WriteString(" -> ")
		}
		b.WriteString(e.plan.Tasks[index].ID.Name())
	}
	first := &e.plan.Tasks[cycle[0]]
	last := &e.plan.Tasks[cycle[len(cycle)-1]]
	at, via := e.templates[e.origin[cycle[0]]].name.At, ""
	for i, in := range first.Inputs {
		if producer, produced := e.producers[in.LFN]; produced && producer == cycle[len(cycle)-1] {
			t := e.templates[e.origin[cycle[0]]]
			at, via = t.itemAt(t.inputs, i).Name.At, string(in.LFN)
			break
		}
	}
	e.faults.add(at, "a file cannot be made from itself: remove one of the dependencies",
		"tasks wait for each other in a circle: %s -> %s (%s reads %s, which %s makes)",
		b.String(), first.ID.Name(), first.ID.Name(), via, last.ID.Name())
}
