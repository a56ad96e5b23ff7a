package workflow

import (
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Plan is an expanded workflow, ready to be submitted.
type Plan struct {
	Name  string
	Tasks []task.Task // in the order of the file; their IDs are bare names until Bind
	Files []ExternalFile
	// Outputs are the final outputs, as bare names in order.
	Outputs []string
}

// ExternalFile is an input that exists before the workflow runs.
type ExternalFile struct {
	Name    string               // as the workflow calls it
	Source  string               // path on the submitting machine; "" when At is given
	At      map[task.Site]string // URL of the copy at a site; nil when Source is given
	Size    task.Bytes           // -1 while not known
	Adler32 string               // 8 lower-case hex digits, "" when not given
	Digest  task.Digest          // zero when not given
	Exec    bool
}

// Bind names the tasks and files of the plan for a workflow: every task gets
// its id and every file name of a task is qualified. It may be called again
// for another workflow. Files and Outputs keep their bare names; Qualify gives
// the name that the tasks use for them.
func (p *Plan) Bind(id task.WorkflowID) {
	qualified := make(map[string]task.LFN)
	qualify := func(name task.LFN) task.LFN {
		bare := name.Local()
		if strings.HasPrefix(string(name), task.SharedPrefix) {
			bare = string(name)
		}
		known, ok := qualified[bare]
		if !ok {
			known = Qualify(id, bare)
			qualified[bare] = known
		}
		return known
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.ID = task.NewID(id, t.ID.Name())
		for j := range t.Inputs {
			t.Inputs[j].LFN = qualify(t.Inputs[j].LFN)
		}
		for j := range t.Outputs {
			t.Outputs[j].LFN = qualify(t.Outputs[j].LFN)
		}
	}
}

// Qualify makes a name as written in a workflow unique in the queue. Names
// of shared files ("vo:...") are unique already.
func Qualify(id task.WorkflowID, name string) task.LFN {
	if strings.HasPrefix(name, task.SharedPrefix) {
		return task.LFN(name)
	}
	return task.Qualify(id, name)
}

// Options of Expand.
type Options struct {
	// Dir is the folder of the workflow file; relative sources start there.
	Dir string
	// AllowMissing accepts inputs that nothing makes, lists or has registered:
	// their tasks wait.
	AllowMissing bool
	// CheckExpression compiles an expression; kind is "require" or "rank". Nil
	// leaves expressions to the queue.
	CheckExpression func(kind, expression string) error
	// Registered tells whether a shared file ("vo:...") is known. Nil leaves
	// that to the queue.
	Registered func(lfn string) bool
}
