package task

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// ErrInvalid is wrapped by every error of Validate.
var ErrInvalid = errors.New("invalid task")

// Validate checks a description that came from outside and names the task,
// the field and the rule that it breaks. Expressions are checked elsewhere.
func (t Task) Validate() error {
	for _, check := range []func() error{
		t.validateSize, t.validateCommand, t.validateEnv, t.validateFiles, t.validateResources,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%w %s: %w", ErrInvalid, t.ID.Name(), err)
		}
	}
	return nil
}

func (t Task) validateSize() error {
	if size := t.TextBytes(); size > MaxTaskBytes {
		return fmt.Errorf("its description has %d bytes, names of files and places included: at most %d", size, MaxTaskBytes)
	}
	return nil
}

// TextBytes is how much all texts of a description have.
func (t *Task) TextBytes() int {
	size := len(t.Shell) + len(t.Require) + len(t.Rank) + len(t.Container) + len(t.Queue)
	for _, word := range t.Argv {
		size += len(word)
	}
	for name, value := range t.Env {
		size += len(name) + len(value)
	}
	for _, in := range t.Inputs {
		size += len(in.LFN) + len(in.Name)
	}
	for _, out := range t.Outputs {
		size += len(out.LFN) + len(out.Name)
	}
	return size
}

func (t Task) validateCommand() error {
	if !ValidName(t.ID.Name()) {
		return fmt.Errorf("name %q: use letters, digits and ._+=:@- (at most 200), first not a dash", t.ID.Name())
	}
	if (len(t.Argv) == 0) == (t.Shell == "") {
		return errors.New("give exactly one of argv and shell")
	}
	if len(t.Argv) > MaxArgv {
		return fmt.Errorf("argv has %d words: at most %d", len(t.Argv), MaxArgv)
	}
	total := 0
	for _, word := range append([]string{t.Shell}, t.Argv...) {
		total += len(word)
		if strings.IndexByte(word, 0) >= 0 {
			return errors.New("the command contains a NUL byte")
		}
	}
	if total > MaxArgvBytes {
		return fmt.Errorf("the command has %d bytes: at most %d", total, MaxArgvBytes)
	}
	if len(t.Argv) > 0 && t.Argv[0] == "" {
		return errors.New("argv[0] is empty")
	}
	return nil
}

func (t Task) validateEnv() error {
	if len(t.Env) > MaxEnv {
		return fmt.Errorf("env has %d variables: at most %d", len(t.Env), MaxEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) { // the same complaint every time
		value := t.Env[name]
		if !envForm.MatchString(name) {
			return fmt.Errorf("env name %q: use letters, digits and _, first not a digit", name)
		}
		if strings.HasPrefix(name, "PILOTAGE_") {
			return fmt.Errorf("env name %q: names beginning with PILOTAGE_ are set by the pilot", name)
		}
		if strings.IndexByte(value, 0) >= 0 || len(value) > MaxArgvBytes {
			return fmt.Errorf("env %s: the value contains a NUL byte or is longer than %d bytes", name, MaxArgvBytes)
		}
	}
	return nil
}

func (t Task) validateFiles() error {
	if len(t.Inputs) > MaxInputs {
		return fmt.Errorf("has %d inputs: at most %d", len(t.Inputs), MaxInputs)
	}
	if len(t.Outputs) > MaxOutputs {
		return fmt.Errorf("has %d outputs: at most %d", len(t.Outputs), MaxOutputs)
	}
	places := make(map[string]string, len(t.Inputs)+len(t.Outputs))
	place := func(kind string, lfn LFN, name string) error {
		if err := ValidateLFN(localName(lfn)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := ValidateLFN(name); err != nil {
			return fmt.Errorf("%s %s: place in the work folder: %w", kind, lfn, err)
		}
		if other, taken := places[name]; taken {
			return fmt.Errorf("%s %s and %s would both be %q in the work folder", kind, lfn, other, name)
		}
		places[name] = string(lfn)
		return nil
	}
	for _, in := range t.Inputs {
		if err := place("input", in.LFN, in.Name); err != nil {
			return err
		}
	}
	for _, out := range t.Outputs {
		if err := place("output", out.LFN, out.Name); err != nil {
			return err
		}
	}
	if err := fileAndFolder(places); err != nil {
		return err
	}
	made := make(map[string]string, len(t.Outputs))
	for _, out := range t.Outputs {
		made[localName(out.LFN)] = string(out.LFN)
	}
	if err := fileAndFolder(made); err != nil { // an attempt's outputs share a folder on the storage element
		return fmt.Errorf("outputs: %w", err)
	}
	return nil
}

// fileAndFolder complains about a name that is the folder of another.
func fileAndFolder(names map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for i := range name {
			if name[i] == '/' {
				if _, file := names[name[:i]]; file {
					return fmt.Errorf("%q is a file and also the folder of %q", name[:i], name)
				}
			}
		}
	}
	return nil
}

func (t Task) validateResources() error {
	if err := t.Resources.validateNeed(); err != nil {
		return err
	}
	switch {
	case t.Retries < 0 || t.Retries > MaxRetries:
		return fmt.Errorf("retries is %d: give 0 to %d", t.Retries, MaxRetries)
	case t.Walltime <= 0 || t.Walltime > 365*24*time.Hour:
		return fmt.Errorf("walltime is %s: give more than 0 and at most a year", t.Walltime)
	case t.Bound != "" && t.Bound != CPUBound && t.Bound != IOBound:
		return fmt.Errorf("bound is %q: give %s, %s or nothing", t.Bound, CPUBound, IOBound)
	case t.Priority < -MaxPriority || t.Priority > MaxPriority:
		return fmt.Errorf("priority is %d: give %d to %d", t.Priority, -MaxPriority, MaxPriority)
	case !ValidQueue(t.Queue):
		return fmt.Errorf("queue is %.80q: give up to %d letters, digits, '.', '_' and '-', or nothing", t.Queue, MaxQueue)
	case t.Container != "" && !validContainer(t.Container):
		return fmt.Errorf("container is %.80q: give the absolute path of an unpacked image's folder, e.g. /cvmfs/unpacked.cern.ch/..., of letters, digits and ._:@+=,-", t.Container)
	case len(t.Requirement()) > MaxExpression || len(t.Rank) > MaxExpression:
		return fmt.Errorf("require or rank is longer than %d bytes", MaxExpression)
	}
	return nil
}

var containerForm = regexp.MustCompile(`^/[A-Za-z0-9._:@+=,/-]+$`)

func validContainer(folder string) bool {
	return len(folder) <= MaxContainer && containerForm.MatchString(folder) && path.Clean(folder) == folder
}

var queueForm = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// ValidQueue tells whether a task may be submitted to a queue of that name.
func ValidQueue(name string) bool { return len(name) <= MaxQueue && queueForm.MatchString(name) }

// Qualify makes a workflow's own file name unique in the queue.
func Qualify(workflow WorkflowID, name string) LFN { return LFN(string(workflow) + ":" + name) }

// SharedPrefix marks files that were registered for every workflow.
const SharedPrefix = "vo:"

// localName strips the qualification of a name, if it has one.
func localName(name LFN) string {
	prefix, local, found := strings.Cut(string(name), ":")
	if found && (prefix == "vo" || wflowForm.MatchString(prefix)) {
		return local
	}
	return string(name)
}

// Local is the name as its workflow wrote it, without qualification.
func (n LFN) Local() string { return localName(n) }

// Workflow is the one that a qualified name belongs to, "" of other names.
func (n LFN) Workflow() WorkflowID {
	if prefix, _, found := strings.Cut(string(n), ":"); found && wflowForm.MatchString(prefix) {
		return WorkflowID(prefix)
	}
	return ""
}
