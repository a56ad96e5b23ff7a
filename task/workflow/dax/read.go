package dax

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Read reads a DAX document; name is what errors call it. The error is a
// *workflow.Error that names the line.
func Read(name string, data []byte) (*trace.Workload, error) {
	r := &reader{file: name, sizes: make(map[string]*sizes), jobs: make(map[string]bool)}
	r.decoder = xml.NewDecoder(bytes.NewReader(data))
	if err := r.document(); err != nil {
		return nil, err
	}
	w, err := r.build()
	if err != nil {
		return nil, err
	}
	return w, nil
}

type reader struct {
	file    string
	decoder *xml.Decoder
	name    string
	order   []string // files in the order they are named
	sizes   map[string]*sizes
	list    []job
	jobs    map[string]bool
	after   []dependency
}

// sizes of one file as the jobs give them.
type sizes struct {
	made     task.Bytes // by the producer, trace.Unknown if none says
	largest  task.Bytes // by anybody
	conflict bool
}

type job struct {
	trace.Recorded
	line int
}

type dependency struct {
	child, parent string
	line          int
}

func (r *reader) fault(line int, hint, format string, args ...any) error {
	return &workflow.Error{File: r.file, At: workflow.Position{Line: line, Column: 1}, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func (r *reader) line() int {
	line, _ := r.decoder.InputPos()
	return line
}

func (r *reader) document() error {
	root := false
	for {
		token, err := r.decoder.Token()
		if errors.Is(err, io.EOF) {
			if !root {
				return r.fault(r.line(), "a DAX document has the root element adag", "there is no element adag")
			}
			return nil
		}
		if err != nil {
			return r.broken(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !root && start.Name.Local != "adag" {
			return r.fault(r.line(), "a DAX document has the root element adag", "the root element is %q", start.Name.Local)
		}
		root = true
		if err := r.element(start); err != nil {
			return err
		}
	}
}

func (r *reader) broken(err error) error {
	line := r.line()
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		line = syntax.Line
	}
	return r.fault(line, "", "this is no XML: %v", err)
}

func (r *reader) element(start xml.StartElement) error {
	switch start.Name.Local {
	case "adag":
		r.name = attribute(start, "name")
		if version := attribute(start, "version"); version != "" && !strings.HasPrefix(version, "2.") {
			return r.fault(r.line(), "", "this is DAX %s: version 2.1 is read", version)
		}
	case "job":
		return r.job(start)
	case "child":
		return r.child(start)
	}
	return nil
}

func attribute(start xml.StartElement, name string) string {
	for _, a := range start.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// inside calls do for each element of the given name up to the end of the
// element that has just begun.
func (r *reader) inside(name string, do func(xml.StartElement) error) error {
	for depth := 1; depth > 0; {
		token, err := r.decoder.Token()
		if err != nil {
			return r.broken(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			if t.Name.Local == name {
				if err := do(t); err != nil {
					return err
				}
			}
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

func (r *reader) job(start xml.StartElement) error {
	j := job{line: r.line(), Recorded: trace.Recorded{Name: attribute(start, "id"), Cores: 1}}
	if j.Name == "" {
		return r.fault(j.line, "", "a job has no id")
	}
	if r.jobs[j.Name] {
		return r.fault(j.line, "", "two jobs have the id %q", j.Name)
	}
	r.jobs[j.Name] = true
	seconds, err := strconv.ParseFloat(attribute(start, "runtime"), 64)
	if err != nil || seconds < 0 || seconds > 1e9 {
		return r.fault(j.line, "give runtime in seconds", "job %q has the run time %q", j.Name, attribute(start, "runtime"))
	}
	j.Runtime = time.Duration(seconds * float64(time.Second))
	err = r.inside("uses", func(use xml.StartElement) error { return r.use(&j, use) })
	r.list = append(r.list, j)
	return err
}

func (r *reader) use(j *job, use xml.StartElement) error {
	name := attribute(use, "file")
	if name == "" {
		return r.fault(r.line(), "", "job %q uses a file without a name", j.Name)
	}
	known := r.sizes[name]
	if known == nil {
		known = &sizes{made: trace.Unknown, largest: trace.Unknown}
		r.sizes[name] = known
		r.order = append(r.order, name)
	}
	size := trace.Unknown
	if text := attribute(use, "size"); text != "" {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 {
			return r.fault(r.line(), "give whole bytes", "job %q gives file %q the size %q", j.Name, name, text)
		}
		size = task.Bytes(number)
		known.conflict = known.conflict || known.largest != trace.Unknown && known.largest != size
		known.largest = max(known.largest, size)
	}
	switch link := attribute(use, "link"); link {
	case "input":
		j.Inputs = append(j.Inputs, name)
	case "output":
		j.Outputs = append(j.Outputs, name)
		if known.made == trace.Unknown {
			known.made = size
		}
	case "inout":
		j.Inputs, j.Outputs = append(j.Inputs, name), append(j.Outputs, name)
	default:
		return r.fault(r.line(), "", "job %q uses file %q with link %q: input, output or inout is meant", j.Name, name, link)
	}
	return nil
}

func (r *reader) child(start xml.StartElement) error {
	child := attribute(start, "ref")
	return r.inside("parent", func(parent xml.StartElement) error {
		r.after = append(r.after, dependency{child, attribute(parent, "ref"), r.line()})
		return nil
	})
}

func (r *reader) build() (*trace.Workload, error) {
	if len(r.list) == 0 {
		return nil, r.fault(r.line(), "", "there are no jobs")
	}
	b := trace.NewBuilder(r.name)
	for _, name := range r.order {
		known := r.sizes[name]
		size := known.made
		if size == trace.Unknown {
			size = known.largest
		}
		if size == trace.Unknown {
			return nil, r.fault(r.lineOf(name), "give size in a uses element of it", "no job says how large file %q is", name)
		}
		if known.conflict {
			b.Note("%s is given different sizes: %d bytes taken", name, size)
		}
		b.File(name, size)
	}
	for _, j := range r.list {
		if err := b.Task(j.Recorded); err != nil {
			return nil, r.fault(j.line, "", "%v", err)
		}
	}
	for _, d := range r.after {
		if err := b.After(d.child, d.parent); err != nil {
			return nil, r.fault(d.line, "", "%v", err)
		}
	}
	w, err := b.Workload()
	if err != nil {
		return nil, r.fault(r.list[0].line, "a workflow must have an order: break the circle", "%v", err)
	}
	return w, nil
}

func (r *reader) lineOf(file string) int {
	for _, j := range r.list {
		for _, names := range [][]string{j.Inputs, j.Outputs} {
			for _, name := range names {
				if name == file {
					return j.line
				}
			}
		}
	}
	return 1
}
