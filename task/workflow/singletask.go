package workflow

import (
	"errors"
	"path"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pilotage-grid/pilotage/task"
)

// Single describes the workflow of "pilotage submit -- CMD ...": one task, or
// with Array one for each index. Numbers, sizes and durations are given as
// text, as on the command line; "" leaves the default.
type Single struct {
	Name string   // of workflow and task; "" takes the base name of the program
	Argv []string // program and arguments
	// Inputs are "SOURCE" or "NAME=SOURCE". SOURCE is the path of a local file
	// or "vo:" and the name of a shared file; NAME is the place in the work
	// folder, by default the last segment of SOURCE.
	Inputs []string
	// Outputs are "PLACE" or "LFN=PLACE". PLACE is the path in the work
	// folder; LFN is the file's name in the workflow, by default PLACE.
	Outputs []string
	Require string
	Rank    string

	// Settings of the task as written on a command line, by their keys in a
	// workflow file, e.g. "walltime": "1h".
	Settings map[string]string
	// Array gives indices such as "0-9", "00-19" or "1-3,7". There is one task
	// for each, called NAME[INDEX], and {i} stands for the index in Argv,
	// Inputs and Outputs.
	Array string
}

// SingleTask expands a Single like a workflow of one task whose outputs are
// all final. What does not fit is an *Errors with places by option.
func SingleTask(s Single, opts Options) (*Plan, error) {
	faults := &faults{}
	file := s.file(faults)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return file.Expand(opts)
}

func (s Single) file(faults *faults) *File {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		faults.add(Position{}, "write it behind --, as in: pilotage submit -- echo hello", "no command is given")
		return nil
	}
	name := s.Name
	if name == "" {
		name = nameOf(s.Argv[0])
	}
	spec := TaskTemplate{Argv: texts(s.Argv)}
	spec.Require = given(s.Require)
	spec.Rank = given(s.Rank)
	s.readSettings(faults, &spec.Settings)
	indices := s.array(faults, &spec)

	file := &File{Name: given(name)}
	for _, option := range s.Inputs {
		place, source := cutName(option)
		if place == "" {
			place = path.Base(strings.TrimPrefix(source, task.SharedPrefix))
		}
		lfn := source
		if !strings.HasPrefix(source, task.SharedPrefix) {
			lfn = s.addFile(faults, file, indices, source)
		}
		spec.Inputs.Items = append(spec.Inputs.Items, FileName{given(lfn), given(place)})
	}
	for _, option := range s.Outputs {
		lfn, place := cutName(option)
		if lfn == "" {
			lfn = place
		}
		spec.Outputs.Items = append(spec.Outputs.Items, FileName{given(lfn), given(place)})
	}
	file.Tasks.Entries = []Entry[TaskTemplate]{{given(name), spec}}
	return file
}

// addFile lists a local file, or with {i} in its path one for each index, and
// returns what the workflow calls it: its path, without what a file name may
// not hold.
func (s Single) addFile(faults *faults, file *File, indices []string, source string) (lfn string) {
	var variables []string
	if indices != nil {
		variables = []string{"i"}
	}
	paths, err := parsePattern(source, variables, inNames)
	if err == nil && paths.count() > 1 {
		err = errors.New("ranges are for workflow files")
	}
	if err != nil {
		faults.add(Position{}, "give --input once for each file, and write {{ or }} for a brace itself", "--input %s: %v", shorten(source), err)
		return ""
	}
	values := [][]string{nil}
	if !paths.constant() {
		values = values[:0]
		for _, index := range indices {
			values = append(values, []string{index})
		}
	}
	for _, value := range values {
		local := paths.expand(value)[0]
		entry := Entry[Source]{Key: given(localName(local))}
		entry.Value.Source = given(literalBraces(local))
		file.Files.Entries = append(file.Files.Entries, entry)
	}
	const index = "{i}"
	if paths.constant() {
		return localName(paths.expand(nil)[0])
	}
	return strings.ReplaceAll(localName(paths.expand([]string{"\x00"})[0]), "\x00", index)
}

// localName makes a logical file name from a path on this machine. NUL, which
// no path holds, stands for an index and is kept.
func localName(local string) string {
	name := strings.TrimLeft(path.Clean("/"+local), "/")
	return strings.Map(func(r rune) rune {
		if r == 0 || r == '/' || r < 0x80 && task.ValidateLFN("t"+string(r)) == nil {
			return r
		}
		return '_'
	}, strings.TrimLeft(name, "-"))
}

// literalBraces protects braces from being expanded once more.
func literalBraces(text string) string {
	return strings.NewReplacer("{", "{{", "}", "}}").Replace(text)
}

// cutName splits "NAME=REST". A path may hold an equals sign as well: what
// stands before the first one is a name only if it holds no slash.
func cutName(option string) (name, rest string) {
	before, after, found := strings.Cut(option, "=")
	if !found || strings.Contains(before, "/") {
		return "", option
	}
	return before, after
}

// nameOf makes a task name from the base name of a program.
func nameOf(program string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && task.ValidName("t"+string(r)) {
			return r
		}
		return '_'
	}, path.Base(program))
	if len(name) > 200 {
		name = name[:200]
	}
	if !task.ValidName(name) {
		name = "_" + name[1:]
	}
	return name
}

// readSettings reads numbers, sizes and durations under the limits of the
// workflow file.
func (s Single) readSettings(faults *faults, settings *Settings) {
	d := &decoder{faults: faults}
	for _, f := range fieldsOf(reflect.ValueOf(settings).Elem()) {
		key := f.tag.Get("key")
		if text := s.Settings[key]; text != "" {
			d.value("--"+key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}, f)
		}
	}
}

// array reads the indices and makes them the variable i of the task.
func (s Single) array(faults *faults, spec *TaskTemplate) (indices []string) {
	if s.Array == "" {
		return nil
	}
	entry := Entry[List]{Key: given("i")}
	for item := range strings.SplitSeq(s.Array, ",") {
		from, to, isRange := strings.Cut(item, "-")
		switch {
		case !isRange && allDigits(from):
		case isRange && allDigits(from) && allDigits(to):
			item = "{" + from + ".." + to + "}"
		default:
			faults.add(Position{}, "write ranges and numbers, such as 0-9 or 00-19 or 1-3,7", "--array %q", shorten(s.Array))
			return nil
		}
		entry.Value.Items = append(entry.Value.Items, given(item))
	}
	spec.Foreach = Map[List]{Entries: []Entry[List]{entry}, Set: true}
	c := &compiler{faults: faults, limits: workflowLimits}
	counted := &template{}
	c.foreach("--array", counted, spec.Foreach)
	if len(counted.values) == 0 {
		return nil
	}
	return counted.values[0]
}

func given(text string) Text { return Text{Value: text, Set: text != ""} }

func texts(list []string) List {
	items := make([]Text, len(list))
	for i, text := range list {
		items[i] = given(text)
	}
	return List{Items: items, Set: true}
}
