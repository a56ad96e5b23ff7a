package workflow

import (
	"path"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// limits on what a workflow may become. They are checked before anything is
// allocated for it.
type limits struct {
	tasks      uint64 // and external files, and final outputs
	references uint64 // inputs and outputs of all tasks together
	text       uint64 // bytes of names and commands that expansion makes
}

var workflowLimits = limits{tasks: task.MaxWorkflow, references: 10_000_000, text: 1 << 30}

// Expand turns the file into tasks: it expands ranges and variables, fills in
// defaults and checks everything that can be known without a queue. The error
// is an *Errors.
func (f *File) Expand(opts Options) (*Plan, error) { return f.expandWithin(opts, workflowLimits) }

func (f *File) expandWithin(opts Options, within limits) (*Plan, error) {
	e := &expansion{
		file: f, opts: opts, limits: within,
		faults: &faults{file: f.path, source: f.source},
		plan:   &Plan{Name: f.Name.Value},
	}
	for _, stage := range []func(){e.externalFiles, e.compileTasks, e.checkExpressions, e.makeTasks} {
		stage()
	}
	// What follows looks at all tasks together and would blame what is only
	// missing because of an earlier error.
	for _, stage := range []func(){e.connect, e.finalOutputs, e.findCycle} {
		if e.faults.any() {
			break
		}
		stage()
	}
	if err := e.faults.err(); err != nil {
		return nil, err
	}
	return e.plan, nil
}

// expansion is one call of Expand.
type expansion struct {
	file      *File
	opts      Options
	limits    limits
	faults    *faults
	plan      *Plan
	templates []*template
	origin    []int32             // template of each task of the plan
	external  map[string]Position // where an external file is listed
	producers map[task.LFN]int32  // task of the plan that makes a file
}

// compileTasks parses every task and checks the sizes of what will come.
func (e *expansion) compileTasks() {
	if len(e.file.Tasks.Entries) == 0 {
		e.faults.add(e.file.Tasks.At, "describe at least one task", "the workflow has no tasks")
	}
	c := &compiler{faults: e.faults, defaults: e.file.Defaults, limits: e.limits}
	var references, text uint64
	for _, entry := range e.file.Tasks.Entries {
		t, ok := c.compile(entry)
		if !ok {
			continue
		}
		e.templates = append(e.templates, t)
		files, bytes := t.size()
		references += multiply(t.total, files)
		text += bytes
		hint := "split the work into several workflows, or let each task do more"
		switch {
		case references > e.limits.references:
			e.faults.add(entry.Key.At, hint, "task %s brings the workflow to %d inputs and outputs of all tasks: at most %d are allowed",
				t.name.Value, references, e.limits.references)
		case text > e.limits.text:
			e.faults.add(entry.Key.At, "put what the tasks share into a file that all of them read",
				"task %s brings the names and commands of the workflow to more than %s", t.name.Value, task.Bytes(e.limits.text))
		default:
			continue
		}
		c.exceeded = true
		break
	}
	if c.exceeded {
		e.templates = nil
	}
}

// size tells how many files a task of the template names, and bounds the
// bytes of text that expanding all its tasks makes.
func (t *template) size() (files, text uint64) {
	values := make([]int, len(t.values))
	for i, all := range t.values {
		for _, value := range all {
			values[i] = max(values[i], len(value))
		}
	}
	add := func(p pattern) {
		bytes := multiply(p.count(), p.longest(values))
		if len(p.parts) > 0 && !(p.constant() && p.count() == 1) {
			bytes = multiply(bytes, t.total)
		}
		text += min(bytes, 1<<50) // cannot overflow: fewer than 2^13 patterns of a kind
	}
	add(t.shell)
	for _, p := range t.argv {
		add(p)
	}
	for _, p := range t.env {
		add(p.value)
	}
	for _, list := range [][]filePattern{t.inputs, t.outputs} {
		for _, p := range list {
			files += p.count
			add(p.name)
			add(p.place)
		}
	}
	return files, text
}

// checkExpressions has each distinct expression compiled once.
func (e *expansion) checkExpressions() {
	if e.opts.CheckExpression == nil {
		return
	}
	type expression struct{ kind, text string }
	checked := make(map[expression]bool)
	for _, t := range e.templates {
		for _, one := range []struct {
			kind string
			text Text
		}{{"require", t.settings.Require}, {"rank", t.settings.Rank}} {
			key := expression{one.kind, one.text.Value}
			if one.text.Value == "" || checked[key] {
				continue
			}
			checked[key] = true
			if err := e.opts.CheckExpression(one.kind, one.text.Value); err != nil {
				e.faults.add(one.text.At, "", "task %s: %s: %v", t.name.Value, one.kind, err)
			}
		}
	}
}

// makeTasks expands all templates. The first error of a template ends it: its
// other tasks would have the same one.
func (e *expansion) makeTasks() {
	total := uint64(0)
	for _, t := range e.templates {
		total += t.total
	}
	if e.faults.full() {
		return
	}
	e.plan.Tasks = make([]task.Task, 0, total)
	e.origin = make([]int32, 0, total)
	for index, t := range e.templates {
		wheels := make([]int, len(t.values))
		values := make([]string, len(t.values))
		for range t.total {
			for i, wheel := range wheels {
				values[i] = t.values[i][wheel]
			}
			made := t.instantiate(values)
			if !e.acceptable(t, &made) {
				break
			}
			e.plan.Tasks = append(e.plan.Tasks, made)
			e.origin = append(e.origin, int32(index))
			turn(wheels, t.values)
		}
	}
}

// turn moves to the next combination of values, the last one fastest.
func turn(wheels []int, values [][]string) {
	for i := len(wheels) - 1; i >= 0; i-- {
		if wheels[i]++; wheels[i] < len(values[i]) {
			return
		}
		wheels[i] = 0
	}
}

// instantiate makes the task for one combination of values.
func (t *template) instantiate(values []string) task.Task {
	name := t.name.Value
	if len(values) > 0 {
		name += "[" + strings.Join(values, ",") + "]"
	}
	s := t.settings
	made := task.Task{
		ID:        task.ID(name),
		Resources: s.resources(),
		Require:   s.Require.Value,
		Rank:      s.Rank.Value,
		Container: s.Container.Value,
		Bound:     task.Bound(s.Bound.Value),
		Queue:     s.Queue.Value,
		Priority:  s.Priority.Value,
		Retries:   s.Retries.Value,
		Walltime:  s.Walltime.Value,
	}
	if len(t.shell.parts) > 0 {
		made.Shell = t.shell.expand(values)[0]
	}
	for _, word := range t.argv {
		made.Argv = append(made.Argv, word.expand(values)...)
	}
	if len(t.env) > 0 {
		made.Env = make(map[string]string, len(t.env))
		for _, variable := range t.env {
			made.Env[variable.name] = variable.value.expand(values)[0]
		}
	}
	for _, file := range t.inputs {
		names, places := file.expand(values)
		for i := range names {
			made.Inputs = append(made.Inputs, task.Input{LFN: task.LFN(names[i]), Name: places[i]})
		}
	}
	for _, file := range t.outputs {
		names, places := file.expand(values)
		for i := range names {
			made.Outputs = append(made.Outputs, task.Output{LFN: task.LFN(names[i]), Name: places[i]})
		}
	}
	return made
}

// expand gives the names and, in step, the places in the work folder.
func (f filePattern) expand(values []string) (names, places []string) {
	names = f.name.expand(values)
	if f.samePlace {
		return names, names
	}
	return names, f.place.expand(values)
}

// acceptable checks one task by itself.
func (e *expansion) acceptable(t *template, made *task.Task) bool {
	name := made.ID.Name()
	for i, in := range made.Inputs {
		if err := validName(string(in.LFN), true); err != nil {
			e.faults.add(t.itemAt(t.inputs, i).Name.At, "", "task %s: input: %v", name, err)
			return false
		}
		if err := task.ValidateLFN(in.Name); err != nil {
			e.faults.add(t.itemAt(t.inputs, i).Place.At, "", "task %s: input %s: place in the work folder: %v", name, shorten(string(in.LFN)), err)
			return false
		}
	}
	for i, out := range made.Outputs {
		if err := validName(string(out.LFN), false); err != nil {
			e.faults.add(t.itemAt(t.outputs, i).Name.At, "", "task %s: output: %v", name, err)
			return false
		}
		if err := task.ValidateLFN(out.Name); err != nil {
			e.faults.add(t.itemAt(t.outputs, i).Place.At, "", "task %s: output %s: place in the work folder: %v", name, shorten(string(out.LFN)), err)
			return false
		}
	}
	if lacksProgram(made) {
		hint := "list it among the task's inputs: a task begins in a folder that holds its inputs and nothing else"
		if t.program.Line == 0 { // of the command line
			hint = "add --input " + made.Argv[0] + ": a command begins in a folder that holds its inputs and nothing else"
		}
		e.faults.add(t.program, hint, "task %s runs %s, which is not in its work folder", name, shorten(made.Argv[0]))
		return false
	}
	if err := made.Validate(); err != nil {
		e.faults.add(t.name.At, "", "%v", err)
		return false
	}
	return true
}

// lacksProgram tells whether a task would start a program in its work folder that
// is not among its inputs. What has no slash is looked for in PATH.
func lacksProgram(t *task.Task) bool {
	if len(t.Argv) == 0 || !strings.Contains(t.Argv[0], "/") || path.IsAbs(t.Argv[0]) {
		return false
	}
	program := path.Clean(t.Argv[0])
	return !slices.ContainsFunc(t.Inputs, func(in task.Input) bool { return in.Name == program })
}

// itemAt finds the item of the file that the index-th expanded name came from.
func (t *template) itemAt(files []filePattern, index int) FileName {
	for _, file := range files {
		if uint64(index) < file.count {
			return file.written
		}
		index -= int(file.count)
	}
	return FileName{Name: t.name, Place: t.name}
}
