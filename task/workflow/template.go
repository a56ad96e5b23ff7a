package workflow

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// template is a TaskTemplate with its patterns parsed and its settings
// resolved: all that is the same for each of its tasks.
type template struct {
	name      Text
	settings  Settings
	variables []string
	values    [][]string // of each variable
	total     uint64     // tasks
	argv      []pattern
	program   Position // of the first word of argv
	shell     pattern
	env       []envPattern
	inputs    []filePattern
	outputs   []filePattern
}

type envPattern struct {
	name  string
	value pattern
}

// filePattern is one item under inputs or outputs.
type filePattern struct {
	written   FileName
	name      pattern
	place     pattern
	samePlace bool // place is name
	count     uint64
}

const maxVariables = 8 // of a foreach: more cannot be read by a person

// compiler turns task templates into templates.
type compiler struct {
	faults   *faults
	defaults Settings
	limits   limits
	tasks    uint64 // of the templates so far
	exceeded bool   // too many tasks: none is made
}

// compile parses all patterns of a task. ok is false after an error.
func (c *compiler) compile(entry Entry[TaskTemplate]) (t *template, ok bool) {
	before := len(c.faults.found.List)
	t = &template{name: entry.Key, settings: merge(entry.Value.Settings, c.defaults)}
	where := "task " + shorten(entry.Key.Value)
	if !task.ValidName(entry.Key.Value) || strings.Contains(entry.Key.Value, "[") {
		c.faults.add(entry.Key.At, "use letters, digits and . _ + = : @ - (at most 200), first not a sign; indices come from foreach",
			"task name %q", shorten(entry.Key.Value))
	}
	c.foreach(where, t, entry.Value.Foreach)
	if len(c.faults.found.List) > before || c.faults.found.More > 0 {
		return nil, false // patterns with unknown variables would only repeat the error
	}
	c.command(where, t, entry.Key.At, entry.Value)
	for _, variable := range t.settings.Env.Entries {
		value := c.single(where+": env "+variable.Key.Value, t, variable.Value)
		t.env = append(t.env, envPattern{variable.Key.Value, value})
	}
	t.inputs = c.files(where, "input", t, entry.Value.Inputs, task.MaxInputs)
	t.outputs = c.files(where, "output", t, entry.Value.Outputs, task.MaxOutputs)
	return t, len(c.faults.found.List) == before && c.faults.found.More == 0
}

// foreach counts the tasks and, if they are not too many, expands the values
// of the variables.
func (c *compiler) foreach(where string, t *template, variables Map[List]) {
	t.total = 1
	if len(variables.Entries) > maxVariables {
		c.faults.add(variables.At, "name files by fewer variables", "%s: foreach has %d variables: at most %d", where, len(variables.Entries), maxVariables)
		return
	}
	if variables.Set && len(variables.Entries) == 0 {
		c.faults.add(variables.At, `name a variable, as in foreach: {p: "{00..19}"}`, "%s: foreach has no variable", where)
	}
	patterns := make([][]pattern, len(variables.Entries))
	for i, entry := range variables.Entries {
		if !isVariable(entry.Key.Value) {
			c.faults.add(entry.Key.At, "use letters, digits and _ (at most 64), first not a digit", "%s: variable name %q", where, shorten(entry.Key.Value))
			return
		}
		count := uint64(0)
		for _, item := range entry.Value.Items {
			p, ok := c.pattern(where+": foreach "+entry.Key.Value, item, nil, inNames)
			if !ok {
				return
			}
			patterns[i] = append(patterns[i], p)
			if count += p.count(); count < p.count() {
				count = math.MaxUint64
			}
		}
		t.total = multiply(t.total, count)
	}
	if t.total > c.limits.tasks || c.tasks+t.total > c.limits.tasks {
		c.faults.add(t.name.At, "split the work into several workflows, or let each task do more",
			"%s makes %s: at most %d are allowed in a workflow", where, tally(t.total, c.tasks), c.limits.tasks)
		c.exceeded = true
		return
	}
	c.tasks += t.total
	for i, entry := range variables.Entries {
		t.variables = append(t.variables, entry.Key.Value)
		t.values = append(t.values, c.variable(where+": foreach "+entry.Key.Value, entry, patterns[i]))
	}
}

func tally(own, others uint64) string {
	switch {
	case own == math.MaxUint64:
		return "more tasks than can be counted"
	case others > 0:
		return fmt.Sprintf("%d tasks after %d others", own, others)
	}
	return fmt.Sprintf("%d tasks", own)
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// variable expands the values of one variable, which have been counted.
func (c *compiler) variable(where string, entry Entry[List], patterns []pattern) []string {
	const longest = 200 // the values become part of the task's name
	var values []string
	seen := make(map[string]bool)
	for i, item := range entry.Value.Items {
		if patterns[i].longest(nil) > longest {
			c.faults.add(item.At, "values become part of the task's name", "%s: value %q is longer than %d bytes", where, shorten(item.Value), longest)
			return nil
		}
		for _, value := range patterns[i].expand(nil) {
			if !task.ValidName("t["+value+"]") || strings.Contains(value, ",") {
				c.faults.add(item.At, "values become part of the task's name: use letters, digits and . _ + = : @ -", "%s: value %q", where, shorten(value))
				return nil
			}
			if seen[value] {
				c.faults.add(item.At, "remove one: both would make the same task", "%s: value %q is there twice", where, value)
				return nil
			}
			seen[value] = true
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		c.faults.add(entry.Key.At, "give a range or a list of values", "%s has no values", where)
	}
	return values
}

// command parses argv or shell.
func (c *compiler) command(where string, t *template, at Position, spec TaskTemplate) {
	argv, shell := len(spec.Argv.Items) > 0, spec.Shell.Value != ""
	if argv == shell {
		problem, hint := "has neither argv nor shell", "say what to run: argv: [program, argument] or shell: commands"
		if argv {
			problem, hint = "has both argv and shell", "keep one of the two"
		}
		c.faults.add(at, hint, "%s %s", where, problem)
		return
	}
	if shell {
		t.shell = c.single(where+": shell", t, spec.Shell)
		return
	}
	t.program = spec.Argv.Items[0].At
	words := uint64(0)
	for _, word := range spec.Argv.Items {
		p, ok := c.pattern(where+": argv", word, t.variables, inCommands)
		if words += min(p.count(), task.MaxArgv+1); words > task.MaxArgv {
			c.faults.add(word.At, "pass a pattern or a file with the names instead", "%s: argv has more than %d words", where, task.MaxArgv)
			return
		}
		if ok {
			t.argv = append(t.argv, p)
		}
	}
}

// single parses a text that is one whatever happens: a range has no meaning there.
func (c *compiler) single(where string, t *template, text Text) pattern {
	p, _ := c.pattern(where, text, t.variables, inCommands)
	for _, part := range p.parts {
		if part.isRange {
			c.faults.add(text.At, "a POSIX shell knows no ranges: use a glob such as part.*.fa, list the files in argv, or write {{a..b}} for the text itself",
				"%s holds a range", where)
			return pattern{}
		}
	}
	return p
}

// pattern parses a text and reports what is wrong with it.
func (c *compiler) pattern(where string, text Text, variables []string, strict strictness) (pattern, bool) {
	p, err := parsePattern(text.Value, variables, strict)
	var wrong *patternError
	if errors.As(err, &wrong) {
		c.faults.add(text.At, wrong.hint, "%s: %q: %s", where, shorten(text.Value), wrong.message)
		return pattern{}, false
	}
	return p, true
}

// files parses inputs or outputs and counts them before anything is expanded.
func (c *compiler) files(where, kind string, t *template, files FileNames, most uint64) []filePattern {
	var patterns []filePattern
	total := uint64(0)
	for _, item := range files.Items {
		if item.Place == item.Name { // in the work folder, shared files lose their "vo:"
			item.Place.Value = strings.TrimPrefix(item.Name.Value, task.SharedPrefix)
		}
		name, nameOK := c.pattern(where+": "+kind, item.Name, t.variables, inNames)
		if !nameOK {
			continue
		}
		place, ok := c.pattern(where+": "+kind+" "+shorten(item.Name.Value), item.Place, t.variables, inNames)
		if !ok {
			continue
		}
		count := name.count()
		if places := place.count(); places != count {
			c.faults.add(item.Place.At, "write the same range on both sides",
				"%s: %s %q names %d files but %q %d places", where, kind, shorten(item.Name.Value), count, shorten(item.Place.Value), places)
			continue
		}
		if total += min(count, most+1); total > most {
			c.faults.add(item.Name.At, "pack files together, or merge them in several steps", "%s has more than %d %ss", where, most, kind)
			return nil
		}
		patterns = append(patterns, filePattern{item, name, place, item.Place == item.Name, count})
	}
	return patterns
}

// merge fills in what a task does not say.
func merge(own, defaults Settings) Settings {
	merged := own
	fill(&merged.Retries, defaults.Retries, task.DefaultRetries)
	fill(&merged.Walltime, defaults.Walltime, task.DefaultWalltime)
	merged.ResourceSettings.merge(defaults.ResourceSettings)
	fill(&merged.Require, defaults.Require, "")
	fill(&merged.Rank, defaults.Rank, "")
	fill(&merged.Container, defaults.Container, "")
	fill(&merged.Bound, defaults.Bound, "")
	fill(&merged.Queue, defaults.Queue, "")
	fill(&merged.Priority, defaults.Priority, 0)
	merged.Env = Map[Text]{}
	taken := make(map[string]bool)
	for _, entry := range append(append([]Entry[Text]{}, own.Env.Entries...), defaults.Env.Entries...) {
		if !taken[entry.Key.Value] {
			taken[entry.Key.Value] = true
			merged.Env.Entries = append(merged.Env.Entries, entry)
		}
	}
	return merged
}

func fill[T any](value *Value[T], fallback Value[T], builtin T) {
	switch {
	case value.Set:
	case fallback.Set:
		*value = fallback
	default:
		value.Value = builtin
	}
}
