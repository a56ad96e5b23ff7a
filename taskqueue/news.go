package taskqueue

import (
	"cmp"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// NewsKind is what has happened.
type NewsKind string

// Kinds of news. Programs read them, in the stream of events.
const (
	NewsPilotJoined  NewsKind = "pilot-joined"
	NewsPilotLeft    NewsKind = "pilot-left"
	NewsPilotDied    NewsKind = "pilot-died"
	NewsPilotHeld    NewsKind = "pilot-held" // it takes no new work
	NewsPilotGoesOn  NewsKind = "pilot-goes-on"
	NewsNodeSetBack  NewsKind = "node-set-back"
	NewsNodeGoesOn   NewsKind = "node-goes-on"
	NewsSiteMaster   NewsKind = "site-master"
	NewsSiteUnheard  NewsKind = "site-unheard" // its master is not heard
	NewsSiteHeard    NewsKind = "site-heard"
	NewsSiteSilent   NewsKind = "site-silent" // its pilots are taken for dead
	NewsSiteMode     NewsKind = "site-mode"
	NewsClassRefused NewsKind = "class-refused" // no live pilot of a site can run it
	NewsStepFailed   NewsKind = "step-failed"   // tasks of one step of a workflow
	NewsWorkflowOver NewsKind = "workflow-over"
)

// Warns tells whether somebody should look into news of this kind.
func (k NewsKind) Warns() bool {
	switch k {
	case NewsPilotDied, NewsPilotHeld, NewsNodeSetBack, NewsSiteUnheard, NewsSiteSilent, NewsClassRefused, NewsStepFailed:
		return true
	}
	return false
}

// Quotes tells whether the text of news of this kind may quote what tasks require and how
// they have failed, whoever owns them: only those are told who look after the site.
func (k NewsKind) Quotes() bool {
	return k == NewsPilotHeld || k == NewsNodeSetBack || k == NewsClassRefused
}

// News is a change that people are told of: by the log, the stream of events and the
// live page.
type News struct {
	Kind     NewsKind
	Site     task.Site
	Pilot    task.PilotID
	Node     string
	Workflow task.WorkflowID
	Step     string  // of the workflow
	Task     task.ID // one of the tasks that failed
	Count    int     // of tasks that failed; else 0
	Text     string
}

// mostNews is how much one turn tells of.
const mostNews = 2_000

// tell adds news. Tasks of one step that fail for the same reason are told of once.
func (e *Effects) tell(n News) {
	if n.Kind == NewsStepFailed {
		for i := len(e.News) - 1; i >= max(0, len(e.News)-16); i-- {
			if told := &e.News[i]; told.Kind == n.Kind && told.Workflow == n.Workflow && told.Step == n.Step && told.Text == n.Text {
				told.Count++
				return
			}
		}
	}
	if len(e.News) < mostNews {
		e.News = append(e.News, n)
	}
}

func (e *Effects) tellOfPilot(kind NewsKind, p *PilotRecord, text string) {
	e.tell(News{Kind: kind, Site: p.Site, Pilot: p.ID, Node: p.Host, Text: text})
}

// tellOfTask tells of a task that is not tried again.
func (e *Effects) tellOfTask(s *TaskState) {
	if s.State == task.Failed || s.State == task.Quarantined {
		e.tell(News{Kind: NewsStepFailed, Site: s.Site, Workflow: s.ID.Workflow(), Step: StepOf(s.ID), Task: s.ID, Count: 1, Text: task.Brief(s.Reason)})
	}
}

// tellOfEnd tells of a workflow that is over.
func (e *Effects) tellOfEnd(w *Workflow) {
	text := task.Counted(w.Counts[task.Done], "task") + " done"
	for _, state := range []task.State{task.Failed, task.Cancelled, task.Quarantined} {
		if n := w.Counts[state]; n > 0 {
			text += ", " + strings.ToLower(state.String()) + ": " + task.Counted(n, "task")
		}
	}
	e.tell(News{Kind: NewsWorkflowOver, Workflow: w.ID, Text: w.Name + ": " + text})
}

// StepOf is the step of its workflow that a task belongs to: its name without the
// index that foreach adds, or the number of at least four digits that recorded
// workflows have at the end of names.
func StepOf(id task.ID) string {
	_, name, _ := strings.Cut(string(id), "/")
	name, _, _ = strings.Cut(name, "[")
	if bare := strings.TrimRight(name, "0123456789"); len(name)-len(bare) >= 4 {
		bare = strings.TrimRight(strings.TrimSuffix(bare, "ID"), "-_.")
		return cmp.Or(bare, name)
	}
	return name
}
