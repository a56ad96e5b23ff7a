package matcher

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/pilotage-grid/pilotage/task"
)

// Facts are what an expression may look at: one task and one pilot.
type Facts struct {
	Pilot *Pilot
	Task  *task.Task
	Files []FileInfo
	// Local tells whether the pilot's cache has a file; nil means it has none.
	Local func(task.FileKey) bool

	conditions *Conditions // of a pilot's own policy, which looks at nothing else
}

func (f *Facts) has(file FileInfo) bool { return f.Local != nil && f.Local(file.Key) }

// Uses says on what an expression depends, and with it how often it must be
// evaluated. The resources of a task belong to its class and count for nothing.
type Uses struct {
	Pilot bool // what the pilot is
	Task  bool // what differs between the tasks of a class
	Files bool // which inputs the pilot has
	Live  bool // what runs at the pilot: changes with each payload
	Node  bool // what nobody knows before the pilot is there: its node, and what it finds there
}

func (u Uses) and(other Uses) Uses {
	return Uses{u.Pilot || other.Pilot, u.Task || other.Task, u.Files || other.Files, u.Live || other.Live, u.Node || other.Node}
}

// perTask tells whether the value may differ between the tasks of a class.
func (u Uses) perTask() bool { return u.Task || u.Files }

// attribute is one name of the expression language.
type attribute struct {
	name  string
	kind  *cel.Type
	uses  Uses
	value func(*Facts) any
}

var (
	ofPilot = Uses{Pilot: true}
	ofNode  = Uses{Pilot: true, Node: true}
	ofLive  = Uses{Pilot: true, Live: true, Node: true}
	ofTask  = Uses{Task: true}
	ofFiles = Uses{Files: true}
	ofClass = Uses{}
)

// attributes is the whole vocabulary of requirements and ranks beside the
// unit constants; docs/workflow.md lists it.
var attributes = append(resourceAttributes(), []attribute{
	{"pilot.id", cel.StringType, ofNode, func(f *Facts) any { return string(f.Pilot.ID) }},
	{"pilot.site", cel.StringType, ofPilot, func(f *Facts) any { return string(f.Pilot.Site) }},
	{"pilot.host", cel.StringType, ofNode, func(f *Facts) any { return f.Pilot.Host }},
	{"pilot.slots", cel.IntType, ofPilot, func(f *Facts) any { return int64(f.Pilot.Slots) }},
	{"pilot.features", cel.ListType(cel.StringType), ofPilot, func(f *Facts) any { return f.Pilot.Features }},
	{"pilot.confinement", cel.IntType, ofNode, func(f *Facts) any { return int64(f.Pilot.Walls.Confinement) }},
	{"pilot.walls", cel.ListType(cel.StringType), ofNode, func(f *Facts) any { return f.Pilot.Walls.Up }},
	{"pilot.images", cel.ListType(cel.StringType), ofNode, func(f *Facts) any { return f.Pilot.Walls.Images() }},
	{"pilot.arch", cel.StringType, ofPilot, func(f *Facts) any { return f.Pilot.Arch }},
	{"pilot.os", cel.StringType, ofPilot, func(f *Facts) any { return f.Pilot.OS }},
	{"pilot.core_speed", cel.DoubleType, ofNode, func(f *Facts) any { return f.Pilot.CoreSpeed }},
	{"pilot.free_cores", cel.IntType, ofLive, func(f *Facts) any { return int64(f.Pilot.FreeCores) }},
	{"pilot.cpu_bound", cel.IntType, ofLive, func(f *Facts) any { return int64(f.Pilot.CPUBound) }},
	{"pilot.io_bound", cel.IntType, ofLive, func(f *Facts) any { return int64(f.Pilot.IOBound) }},
	{"pilot.load", cel.DoubleType, ofNode, func(f *Facts) any { return f.Pilot.Load }},
	{"pilot.lifetime_seconds", cel.DoubleType, ofPilot, func(f *Facts) any { return f.Pilot.Lifetime.Seconds() }},

	{"task.id", cel.StringType, ofTask, func(f *Facts) any { return string(f.Task.ID) }},
	{"task.name", cel.StringType, ofTask, func(f *Facts) any { return f.Task.ID.Name() }},
	{"task.workflow", cel.StringType, ofTask, func(f *Facts) any { return string(f.Task.ID.Workflow()) }},
	{"task.priority", cel.IntType, ofTask, func(f *Facts) any { return int64(f.Task.Priority) }},
	{"task.bound", cel.StringType, ofTask, func(f *Facts) any { return string(f.Task.Bound) }},
	{"task.walltime_seconds", cel.DoubleType, ofTask, func(f *Facts) any { return f.Task.Walltime.Seconds() }},
	{"task.inputs", cel.IntType, ofTask, func(f *Facts) any { return int64(len(f.Files)) }},
	{"task.input_bytes", cel.IntType, ofTask, func(f *Facts) any { return int64(f.bytes(false)) }},
	{"task.local_inputs", cel.IntType, ofFiles, func(f *Facts) any { return f.localInputs() }},
	{"task.local_bytes", cel.IntType, ofFiles, func(f *Facts) any { return int64(f.bytes(true)) }},

	{"files", cel.ListType(fileType), ofFiles, func(f *Facts) any { return f.fileList() }},
}...)

// resourceAttributes are what a pilot offers and a task needs, under the names of
// task.AllResources.
func resourceAttributes() (list []attribute) {
	for _, resource := range task.AllResources {
		list = append(list,
			attribute{"pilot." + resource.Name, cel.IntType, ofPilot, func(f *Facts) any { return resource.Get(f.Pilot.Resources) }},
			attribute{"task." + resource.Name, cel.IntType, ofClass, func(f *Facts) any { return resource.Get(f.Task.Resources) }})
	}
	return list
}

// constants are the units of sizes, and the levels of confinement.
var constants = func() map[string]int64 {
	all := map[string]int64{
		"KiB": int64(task.KiB), "MiB": int64(task.MiB), "GiB": int64(task.GiB), "TiB": int64(task.TiB),
		"MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
	for level, name := range task.ConfinementNames {
		all[name] = int64(level)
	}
	return all
}()

var attributeByName = func() map[string]*attribute {
	byName := make(map[string]*attribute, len(attributes)+len(acceptAttributes))
	for _, known := range [][]attribute{attributes, acceptAttributes} {
		for i := range known {
			byName[known[i].name] = &known[i]
		}
	}
	return byName
}()

// bytes sums the known sizes of all inputs, or of those in the pilot's cache.
func (f *Facts) bytes(localOnly bool) (sum task.Bytes) {
	for _, file := range f.Files {
		if file.Size > 0 && (!localOnly || f.has(file)) {
			sum += file.Size
		}
	}
	return sum
}

func (f *Facts) localInputs() (count int64) {
	for _, file := range f.Files {
		if f.has(file) {
			count++
		}
	}
	return count
}

func (f *Facts) fileList() ref.Val {
	values := make([]ref.Val, len(f.Files))
	for i, file := range f.Files {
		values[i] = fileValue{file, f.has(file)}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values)
}

// activation hands the facts to a CEL program name by name, so that nothing
// is computed that the expression does not ask for.
type activation struct {
	facts *Facts
	known map[string]any // what was computed from the inputs
}

// ResolveName finds the value of a qualified name such as "pilot.memory".
func (a *activation) ResolveName(name string) (any, bool) {
	attribute, found := attributeByName[strings.TrimPrefix(name, ".")]
	if !found {
		return nil, false
	}
	if !attribute.uses.perTask() {
		return attribute.value(a.facts), true
	}
	if value, found := a.known[attribute.name]; found {
		return value, true
	}
	if a.known == nil {
		a.known = make(map[string]any)
	}
	value := attribute.value(a.facts)
	a.known[attribute.name] = value
	return value, true
}

// Parent is part of the interface; there is none.
func (*activation) Parent() cel.Activation { return nil }
