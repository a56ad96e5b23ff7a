package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// Effects tells the edge what changed, once the transaction is durable.
type Effects struct {
	// WakeAll asks for every site's parked Sync to look again.
	WakeAll bool
	// Wake lists sites whose parked Sync should look again.
	Wake map[string]struct{}
	// Workflows lists workflows whose progress changed.
	Workflows map[string]struct{}
	// Pilots lists pilots whose parked Pull should look again.
	Pilots map[task.PilotID]struct{}
	// Tasks lists tasks that became READY, or ceased to be, or whose inputs
	// changed while they were; TooMany tells that they are not listed because
	// they are many.
	Tasks   map[task.ID]struct{}
	TooMany bool
	// Nodes tells which worker nodes were set back, or are no more.
	Nodes []NodeNews
	// Ends tells what speaks for or against nodes of sites where the queue matches.
	Ends []NodeEnd
	// Modes tells that sites were added or changed, Sites what of it is for the log.
	Modes bool
	Sites []SiteNews
	// News is what people are told of, besides Nodes and Sites.
	News []News
}

// note adds to a set that is made with its first member.
func note[K comparable](set *map[K]struct{}, key K) {
	if *set == nil {
		*set = make(map[K]struct{})
	}
	(*set)[key] = struct{}{}
}

func (e *Effects) wake(site task.Site) { note(&e.Wake, string(site)) }

func (e *Effects) wakePilot(id task.PilotID) { note(&e.Pilots, id) }

func (e *Effects) progress(id task.WorkflowID) { note(&e.Workflows, string(id)) }

// mostStirred is how many tasks one turn's effects list.
const mostStirred = 20_000

// stir tells those who match tasks that one is READY, or was.
func (e *Effects) stir(id task.ID) {
	switch {
	case e.TooMany:
	case len(e.Tasks) >= mostStirred:
		e.Tasks, e.TooMany = nil, true
	default:
		note(&e.Tasks, id)
	}
}
