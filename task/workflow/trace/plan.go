package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// Scale turns recorded times and sizes into those of a replay: both factors are
// positive, and 1 is the recording's own.
type Scale struct {
	Time float64
	Size float64
}

// Check tells what is wrong with a scale.
func (s Scale) Check() error {
	for _, factor := range []struct {
		of    string
		value float64
	}{{"time", s.Time}, {"size", s.Size}} {
		if !(factor.value > 0) || math.IsInf(factor.value, 0) {
			return fmt.Errorf("the %[1]s scale is %[2]v: give a number above 0, 1 for the recorded %[1]s", factor.of, factor.value)
		}
	}
	return nil
}

func (s Scale) bytes(size task.Bytes) task.Bytes {
	return task.Bytes(math.Ceil(float64(size) * s.Size))
}

// ExternalContent is a file that must be made before a replay is submitted.
type ExternalContent struct {
	Name string
	Size task.Bytes
}

// WriteContent writes what a file of a replay holds: its name again and again,
// so that two files of one size are not the same.
func WriteContent(to io.Writer, name string, size task.Bytes) error {
	line := []byte(name + "\n")
	block := bytes.Repeat(line, 1+(64<<10)/len(line))
	for left := int64(size); left > 0; {
		n, err := to.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// Plan makes real tasks of the workload: each reads all its inputs, sleeps for
// its scaled run time and writes its outputs in their scaled sizes. The external
// files are named with the sources that the caller is to make. Task and file
// names that the grid does not allow are changed to such that it does. A task
// reserves one core whatever was recorded, since sleeping takes none: so a
// recording of large machines runs on small pilots, too.
func (w *Workload) Plan(scale Scale) (*workflow.Plan, []ExternalContent, error) {
	if err := scale.Check(); err != nil {
		return nil, nil, err
	}
	plan := &workflow.Plan{Name: safeName(w.Name, "trace")}
	files, tasks := newNames(), newNames()
	names := make([]string, len(w.Files))
	var contents []ExternalContent
	for i, f := range w.Files {
		names[i] = files.unique(safeFile(f.Name))
		if f.Producer == External {
			size := scale.bytes(f.Size)
			contents = append(contents, ExternalContent{Name: names[i], Size: size})
			plan.Files = append(plan.Files, workflow.ExternalFile{Name: names[i], Source: names[i], Size: size})
		}
	}
	for _, f := range w.Finals() {
		plan.Outputs = append(plan.Outputs, names[f])
	}
	for i := range w.Tasks {
		t := w.live(&w.Tasks[i], names, scale)
		t.ID = task.ID(tasks.unique(safeName(w.Tasks[i].Name, "task")))
		if err := t.Validate(); err != nil {
			return nil, nil, fmt.Errorf("task %s as a real one: %w", w.Tasks[i].Name, err)
		}
		plan.Tasks = append(plan.Tasks, t)
	}
	return plan, contents, nil
}

// live makes a payload. Its files lie in two folders of their own, numbered, so
// that the command stays short whatever they are called.
func (w *Workload) live(recorded *Task, names []string, scale Scale) task.Task {
	t := task.Task{
		Retries: task.DefaultRetries, Walltime: task.DefaultWalltime,
		Resources: task.Resources{Cores: 1, Memory: task.DefaultMemory, Disk: task.DefaultDisk},
	}
	var command strings.Builder
	command.WriteString("set -e\n")
	for i, f := range recorded.Inputs {
		t.Inputs = append(t.Inputs, task.Input{LFN: task.LFN(names[f]), Name: "in/" + strconv.Itoa(i)})
	}
	if len(t.Inputs) > 0 {
		command.WriteString("cat in/* >/dev/null\n")
	}
	if pause := time.Duration(float64(recorded.Runtime) * scale.Time); pause > 0 {
		fmt.Fprintf(&command, "sleep %.6f\n", pause.Seconds())
	}
	if len(recorded.Outputs) > 0 {
		// yes ends when its reader has enough; that is no failure.
		command.WriteString("mkdir -p out\nmake() { { yes \"$2\" || :; } 2>/dev/null | head -c \"$1\" >\"out/$3\"; }\n")
	}
	for i, f := range recorded.Outputs {
		place := strconv.Itoa(i)
		t.Outputs = append(t.Outputs, task.Output{LFN: task.LFN(names[f]), Name: "out/" + place})
		fmt.Fprintf(&command, "make %d %s %s\n", scale.bytes(w.Files[f].Size), names[f], place)
	}
	t.Shell = command.String()
	return t
}

// names keeps names apart.
type names struct{ used map[string]bool }

func newNames() *names { return &names{used: make(map[string]bool)} }

func (n *names) unique(name string) string {
	for i, candidate := 2, name; ; i++ {
		if !n.used[candidate] {
			n.used[candidate] = true
			return candidate
		}
		candidate = name + "_" + strconv.Itoa(i)
	}
}

// safeFile turns a file id into a logical file name: a relative path without
// odd characters, not beginning with a dash.
func safeFile(name string) string {
	var segments []string
	for segment := range strings.SplitSeq(name, "/") {
		segment = replaceOdd(segment, "._+=:@-")
		if strings.Trim(segment, ".") != "" {
			segments = append(segments, segment)
		}
	}
	safe := strings.TrimLeft(strings.Join(segments, "/"), "-")
	if len(safe) > task.MaxLFN/2 {
		safe = safe[len(safe)-task.MaxLFN/2:]
	}
	safe = strings.TrimLeft(safe, "-/.")
	if safe == "" {
		return "file"
	}
	return safe
}

// safeName turns a name into a word that tasks and workflows may be called.
func safeName(name, other string) string {
	safe := strings.TrimLeft(replaceOdd(name, "._-"), "._-")
	if len(safe) > 60 {
		safe = safe[:20] + "_" + strings.TrimLeft(safe[len(safe)-39:], "._-")
	}
	if safe == "" {
		return other
	}
	return safe
}

func replaceOdd(text, also string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(also, c) {
			return c
		}
		return '_'
	}, text)
}
