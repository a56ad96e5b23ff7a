package batch

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pilotage-grid/pilotage/pilot/factory"
)

// Definition describes a batch system by its commands. Each word of a command is
// a template of text/template, which sees the fields of [Job] for submit and
// script, .User for list, and .IDs for cancel. A word that comes out empty is left
// out; one that is exactly {{.Arguments}} or {{.IDs}} becomes as many words as
// there are.
type Definition struct {
	Name    string  `yaml:"name"`
	Tried   string  `yaml:"tried"`  // on which real system, if on any
	Script  string  `yaml:"script"` // template of the job's file
	Submit  Command `yaml:"submit"`
	List    Command `yaml:"list"`
	Cancel  Command `yaml:"cancel"`
	Timeout string  `yaml:"timeout"` // of each command; 2m if empty

	script  *template.Template
	timeout time.Duration
}

// Command is one command of a batch system.
type Command struct {
	Words []string `yaml:"command,flow"`
	// Match finds one job for each match in what the command prints, by the named
	// groups id, name, state, node and why. Submit needs id only.
	Match string `yaml:"match"`
	// States translates what the group state holds; states that are not listed are
	// those of jobs that have ended.
	States map[string]factory.State `yaml:"states"`
	// Absent, when what the command prints matches it, says that the jobs do not
	// exist (any more), or that there are none to list. What is neither a list nor
	// this is no answer.
	Absent string `yaml:"absent"`
	// Unsure, when what a submission prints on failure matches it, says that there
	// may be a job all the same.
	Unsure string `yaml:"unsure"`

	words  []*template.Template
	match  *regexp.Regexp
	absent *regexp.Regexp
	unsure *regexp.Regexp
}

// Job is what a submission is made of.
type Job struct {
	Name      string
	Script    string   // path of the job's file
	Log       string   // path for what the job prints
	Arguments []string // of the shape
	Exclude   []string // nodes to stay away from
	Command   string   // what the job runs, one line of shell
	Access    string   // content of the pilot's access file
	User      string
	IDs       []string // to be cancelled
}

// functions are what templates may call beside those of text/template.
var functions = template.FuncMap{"join": strings.Join}

//go:embed systems/*.yaml
var systems embed.FS

// Names lists the batch systems that ship.
func Names() []string {
	entries, _ := systems.ReadDir("systems")
	names := []string{"local"}
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Text returns the definition of a batch system that ships, to be changed by a site.
func Text(name string) ([]byte, error) {
	text, err := systems.ReadFile("systems/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("batch system %q is not known: give one of %s, or a definition of your own", name, strings.Join(Names(), ", "))
	}
	return text, nil
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// LoadStrictly reads YAML into a structure, and refuses keys that it does not have.
func LoadStrictly(text []byte, into any) error {
	err := yaml.Load(text, into, yaml.WithKnownFields())
	if err == nil {
		return nil
	}
	return errors.New(unknownField.ReplaceAllString(err.Error(), `unknown key "$1"`)) // people do not know Go's types
}

// Parse reads a definition.
func Parse(text []byte) (*Definition, error) {
	d := &Definition{}
	if err := LoadStrictly(text, d); err != nil {
		return nil, fmt.Errorf("read the definition of a batch system: %w", err)
	}
	var err error
	if d.timeout, err = time.ParseDuration(orDefault(d.Timeout, "2m")); err != nil || d.timeout <= 0 {
		return nil, fmt.Errorf("batch system %s: timeout %q is no positive duration", d.Name, d.Timeout)
	}
	if d.script, err = template.New("script").Funcs(functions).Parse(d.Script); err != nil {
		return nil, fmt.Errorf("batch system %s: script: %w", d.Name, err)
	}
	for _, command := range []struct {
		name   string
		of     *Command
		groups []string
	}{{"submit", &d.Submit, []string{"id"}}, {"list", &d.List, []string{"id", "name", "state"}}, {"cancel", &d.Cancel, nil}} {
		if err := command.of.parse(command.groups); err != nil {
			return nil, fmt.Errorf("batch system %s: %s: %w", d.Name, command.name, err)
		}
	}
	return d, nil
}

func orDefault(text, usual string) string {
	if text == "" {
		return usual
	}
	return text
}

func (c *Command) parse(groups []string) error {
	if len(c.Words) == 0 {
		return fmt.Errorf("there is no command")
	}
	for _, word := range c.Words {
		parsed, err := template.New("word").Funcs(functions).Parse(word)
		if err != nil {
			return fmt.Errorf("word %q: %w", word, err)
		}
		c.words = append(c.words, parsed)
	}
	var err error
	if c.match, err = regexp.Compile(c.Match); err != nil {
		return fmt.Errorf("match: %w", err)
	}
	for _, group := range groups {
		if c.match.SubexpIndex(group) < 0 {
			return fmt.Errorf("match has no group (?P<%s>...)", group)
		}
	}
	if c.absent, err = regexp.Compile(c.Absent); err != nil {
		return fmt.Errorf("absent: %w", err)
	}
	if c.unsure, err = regexp.Compile(c.Unsure); err != nil {
		return fmt.Errorf("unsure: %w", err)
	}
	for text, state := range c.States {
		if state != factory.Pending && state != factory.Running && state != factory.Ended {
			return fmt.Errorf("state %s becomes %q: give pending, running or ended", text, state)
		}
	}
	return nil
}

// fill makes the words of a command.
func (c *Command) fill(job *Job) ([]string, error) {
	var words []string
	for i, word := range c.words {
		switch strings.ReplaceAll(c.Words[i], " ", "") {
		case "{{.Arguments}}":
			words = append(words, job.Arguments...)
			continue
		case "{{.IDs}}":
			words = append(words, job.IDs...)
			continue
		}
		var text strings.Builder
		if err := word.Execute(&text, job); err != nil {
			return nil, fmt.Errorf("fill in %q: %w", c.Words[i], err)
		}
		if text.Len() > 0 {
			words = append(words, text.String())
		}
	}
	return words, nil
}

// jobs reads what a command has printed.
func (c *Command) jobs(printed string) []factory.Listed {
	var jobs []factory.Listed
	group := func(match []string, name string) string {
		if at := c.match.SubexpIndex(name); at >= 0 {
			return strings.TrimSpace(match[at])
		}
		return ""
	}
	for _, match := range c.match.FindAllStringSubmatch(printed, -1) {
		state, known := c.States[group(match, "state")]
		if !known {
			state = factory.Ended
		}
		jobs = append(jobs, factory.Listed{
			ID: group(match, "id"), Name: group(match, "name"), Node: group(match, "node"), State: state, Why: group(match, "why"),
		})
	}
	return jobs
}
