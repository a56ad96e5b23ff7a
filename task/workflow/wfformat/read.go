package wfformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Version is the schema version that is read.
const Version = "1.5"

// document is the part of the format that a simulation or a replay needs.
type document struct {
	Name          string `json:"name"`
	SchemaVersion string `json:"schemaVersion"`
	Workflow      *struct {
		Specification *specification `json:"specification"`
		Execution     execution      `json:"execution"`
	} `json:"workflow"`
}

type specification struct {
	Tasks []specified `json:"tasks"`
	Files []struct {
		ID   string   `json:"id"`
		Size *float64 `json:"sizeInBytes"`
	} `json:"files"`
}

type specified struct {
	ID          string   `json:"id"`
	Parents     []string `json:"parents"`
	Children    []string `json:"children"`
	InputFiles  []string `json:"inputFiles"`
	OutputFiles []string `json:"outputFiles"`
}

type execution struct {
	Tasks []executed `json:"tasks"`
}

type executed struct {
	ID      string   `json:"id"`
	Runtime *float64 `json:"runtimeInSeconds"`
	Cores   float64  `json:"coreCount"`
	Memory  float64  `json:"memoryInBytes"`
}

// Read reads a recording; name is what errors call it. The error is a
// *workflow.Error that names the place in the document.
func Read(name string, data []byte) (*trace.Workload, error) {
	r := &reader{file: name}
	w, err := r.read(data)
	if err != nil {
		return nil, err
	}
	return w, nil
}

type reader struct {
	file    string
	builder *trace.Builder
	ran     map[string]int // index in execution.tasks
}

// fault is an error at a place of the document, written as a path of keys.
func (r *reader) fault(place, hint, format string, args ...any) error {
	return &workflow.Error{File: r.file, Message: place + ": " + fmt.Sprintf(format, args...), Hint: hint}
}

func (r *reader) read(data []byte) (*trace.Workload, error) {
	d, err := r.decode(data)
	if err != nil {
		return nil, err
	}
	if d.SchemaVersion != Version {
		return nil, r.fault("schemaVersion", "convert the instance to WfFormat "+Version+" with the wfcommons tools",
			"is %q, only %s is read", d.SchemaVersion, Version)
	}
	if d.Workflow == nil || d.Workflow.Specification == nil || len(d.Workflow.Specification.Tasks) == 0 {
		return nil, r.fault("workflow.specification.tasks", "", "there are no tasks")
	}
	r.builder = trace.NewBuilder(d.Name)
	spec := d.Workflow.Specification
	if err := r.files(spec); err != nil {
		return nil, err
	}
	if err := r.runs(d.Workflow.Execution.Tasks); err != nil {
		return nil, err
	}
	if err := r.tasks(spec.Tasks, d.Workflow.Execution.Tasks); err != nil {
		return nil, err
	}
	if err := r.order(spec.Tasks); err != nil {
		return nil, err
	}
	w, err := r.builder.Workload()
	if err != nil {
		return nil, r.fault("workflow.specification.tasks", "a workflow must have an order: break the circle", "%v", err)
	}
	return w, nil
}

func (r *reader) decode(data []byte) (*document, error) {
	var d document
	decoder := json.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&d)
	if err == nil {
		if _, after := decoder.Token(); after != io.EOF {
			return nil, r.at(data, decoder.InputOffset(), "something follows the end of the document")
		}
		return &d, nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, r.at(data, syntax.Offset, "this is no JSON: "+syntax.Error())
	case errors.As(err, &kind):
		return nil, r.at(data, kind.Offset, fmt.Sprintf("%s: a %s stands where a %s belongs", kind.Field, kind.Value, kind.Type))
	default: // the text ends too early
		return nil, r.at(data, int64(len(data)), "the document ends too early: "+err.Error())
	}
}

func (r *reader) at(data []byte, offset int64, message string) error {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line := bytes.LastIndexByte(before, '\n')
	return &workflow.Error{
		File: r.file, Message: message,
		At: workflow.Position{Line: bytes.Count(before, []byte("\n")) + 1, Column: len([]rune(string(before[line+1:]))) + 1},
	}
}

func (r *reader) files(spec *specification) error {
	for i, f := range spec.Files {
		place := fmt.Sprintf("workflow.specification.files[%d]", i)
		switch {
		case f.ID == "":
			return r.fault(place, "", "has no id")
		case f.Size == nil:
			return r.fault(place, "give sizeInBytes, 0 if it is empty", "file %q has no size", f.ID)
		case *f.Size < 0 || *f.Size > math.MaxInt64/2 || *f.Size != math.Trunc(*f.Size):
			return r.fault(place, "", "file %q has the size %v: give a whole number of bytes", f.ID, *f.Size)
		}
		size := task.Bytes(*f.Size)
		if known, found := r.builder.Find(f.ID); found {
			if first := r.builder.Size(known); first != size {
				return r.fault(place, "keep one of them", "file %q is listed with %d and with %d bytes", f.ID, first, size)
			}
		}
		r.builder.File(f.ID, size)
	}
	return nil
}

func (r *reader) runs(tasks []executed) error {
	r.ran = make(map[string]int, len(tasks))
	for i, t := range tasks {
		place := fmt.Sprintf("workflow.execution.tasks[%d]", i)
		switch {
		case t.ID == "":
			return r.fault(place, "", "has no id")
		case t.Runtime == nil:
			return r.fault(place, "give runtimeInSeconds", "task %q has no run time", t.ID)
		case *t.Runtime < 0 || *t.Runtime > 1e9:
			return r.fault(place, "", "task %q ran for %v s", t.ID, *t.Runtime)
		case t.Cores < 0 || t.Cores > task.MaxCores || t.Memory < 0 || t.Memory > math.MaxInt64/2:
			return r.fault(place, "", "task %q has %v cores and %v bytes of memory", t.ID, t.Cores, t.Memory)
		}
		if _, twice := r.ran[t.ID]; twice {
			return r.fault(place, "", "task %q is listed twice", t.ID)
		}
		r.ran[t.ID] = i
	}
	return nil
}

func (r *reader) tasks(tasks []specified, runs []executed) error {
	for i, t := range tasks {
		place := fmt.Sprintf("workflow.specification.tasks[%d]", i)
		if t.ID == "" {
			return r.fault(place, "", "has no id")
		}
		run, found := r.ran[t.ID]
		if !found {
			return r.fault(place, "the instance must be of an execution, with a run time for each task",
				"task %q is not in workflow.execution.tasks", t.ID)
		}
		for _, names := range [][]string{t.InputFiles, t.OutputFiles} {
			for _, name := range names {
				if _, known := r.builder.Find(name); !known {
					return r.fault(place, "add it with its size to workflow.specification.files",
						"task %q names file %q, which is not in workflow.specification.files: its size is missing", t.ID, name)
				}
			}
		}
		err := r.builder.Task(trace.Recorded{
			Name: t.ID, Inputs: t.InputFiles, Outputs: t.OutputFiles,
			Runtime: time.Duration(*runs[run].Runtime * float64(time.Second)),
			Cores:   int(math.Ceil(runs[run].Cores)), Memory: task.Bytes(runs[run].Memory),
		})
		if err != nil {
			return r.fault(place, "", "%v", err)
		}
	}
	return nil
}

// order takes over parents and children: each pair may be named by either side.
func (r *reader) order(tasks []specified) error {
	for i, t := range tasks {
		for _, parent := range t.Parents {
			if err := r.builder.After(t.ID, parent); err != nil {
				return r.fault(fmt.Sprintf("workflow.specification.tasks[%d].parents", i), "", "%v", err)
			}
		}
		for _, child := range t.Children {
			if err := r.builder.After(child, t.ID); err != nil {
				return r.fault(fmt.Sprintf("workflow.specification.tasks[%d].children", i), "", "%v", err)
			}
		}
	}
	return nil
}
