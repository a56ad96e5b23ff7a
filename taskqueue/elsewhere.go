package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Node names the worker node of a pilot: pilots of one host share its faults.
func (p *PilotRecord) Node() string { return task.NodeOf(p.Host, p.ID) }

// maxAvoid bounds the nodes that a retry avoids: one that has failed at so many
// is hardly held up by any of them.
const maxAvoid = 8

// FailedAt lists the nodes, by name, at which attempts of a task's generation
// have failed or were lost.
func FailedAt(t *Turn, s *TaskState) (nodes []string, err error) {
	defer catch(&err)
	return newRecords(t, nil).failedAt(s), nil
}

// Inputs reads the descriptions of tasks, and the files that they read.
func Inputs(t *Turn, tasks []*TaskState) (specs map[task.ID]*task.Task, files map[task.LFN]*FileRecord, err error) {
	defer catch(&err)
	r := newRecords(t, nil)
	ids := make([]task.ID, len(tasks))
	for i, s := range tasks {
		ids[i] = s.ID
	}
	r.loadInputs(ids)
	return r.specs.held, r.files.held, nil
}

// failedAt lists the nodes, by name, at which attempts of a task's generation
// have failed or were lost. A retry goes to others first.
func (r *records) failedAt(s *TaskState) []string {
	if s.untroubled() {
		return nil
	}
	attempts := r.attempts.ofTask(s.ID)
	var pilots []task.PilotID
	for _, a := range attempts {
		if id := a.Outcome.Attempt; id.Generation == s.Generation && a.blamesNode() && !slices.Contains(pilots, id.Pilot) {
			pilots = append(pilots, id.Pilot)
		}
	}
	r.pilots.load(pilots...)
	var nodes []string
	for _, id := range pilots {
		if p := r.pilots.held[id]; p != nil && !slices.Contains(nodes, p.Node()) {
			nodes = append(nodes, p.Node())
		}
	}
	nodes = nodes[max(0, len(nodes)-maxAvoid):]
	slices.Sort(nodes)
	return nodes
}

// untroubled tells whether no attempt of a task's generation has failed or was lost.
func (s *TaskState) untroubled() bool {
	return s.Failures+s.PilotFaults+s.StorageFaults+s.Losses == 0
}

// blamesNode tells whether an attempt ended in a way that its node may have
// caused. It may lack the mount or the rights for what storage did not give.
func (a *Attempt) blamesNode() bool {
	switch a.State {
	case AttemptLost:
		return true
	case AttemptFailedState:
		return a.Outcome.Failure != task.KilledByUser
	}
	return false
}

// lastFailure tells whether a LEASED task that has just failed has used up its
// retries. One node alone does not decide that, if another could run the task.
func (j *outcomes) lastFailure(s *TaskState, retries int) bool {
	if s.Failures <= retries {
		return false
	}
	if retries == 0 || s.Failures > retries+j.config.Retry.SecondOpinion {
		return true
	}
	return !j.oneNodesWord(s)
}

// oneNodesWord tells whether a LEASED task has failed at one node only, while
// another one is there that could run it.
func (j *outcomes) oneNodesWord(s *TaskState) bool {
	nodes := j.failedAt(s)
	if len(nodes) != 1 {
		return false
	}
	j.specs.load(s.ID)
	j.sites.loadAll()
	j.classes.load()
	class, spec := j.classes.known.byID[s.Class], j.specs.held[s.ID]
	e := elsewhere{records: j.records}
	return slices.ContainsFunc(j.sites.names, func(name task.Site) bool {
		site := j.sites.held[name]
		return (name == s.Site || class == nil || class.Allows(name)) && j.sites.live(site) &&
			(spec == nil || !j.sites.refuses(site, spec.Class())) && e.another(site, nodes, spec)
	})
}

// elsewhere tells which tasks that have failed at all nodes of a site are left to
// another one for a while. It is of one turn.
type elsewhere struct {
	*records
	pilots map[task.Site][]*PilotRecord
}

// crowd is how many pilots are more than one node has.
const crowd = 1000

// another tells whether a site has a pilot at a node that is none of those, and which
// the task fits if its description is known.
func (e *elsewhere) another(site *SiteRecord, nodes []string, spec *task.Task) bool {
	if site.Pilots > crowd*len(nodes) {
		return true // without reading them all
	}
	pilots, known := e.pilots[site.Name]
	if !known {
		if e.pilots == nil {
			e.pilots = make(map[task.Site][]*PilotRecord)
		}
		pilots = e.records.pilots.alive(site.Name)
		e.pilots[site.Name] = pilots
	}
	return slices.ContainsFunc(pilots, func(p *PilotRecord) bool { return p.MayRetry(nodes, spec) })
}

// MayRetry tells whether a pilot takes work, is at a node that is none of those, and has
// room for the task if its description is known.
func (p *PilotRecord) MayRetry(nodes []string, spec *task.Task) bool {
	return !slices.Contains(nodes, p.Node()) && p.State == PilotAlive && p.Stopped == "" &&
		(spec == nil || p.Resources.Fits(spec.Resources))
}

// left names the live site that gets the next turn with a READY task because all nodes
// of this site have failed it, and until when; "" if this site may have it.
func (e *elsewhere) left(site *SiteRecord, s *TaskState, class *Eligibility) (task.Site, Instant) {
	until := s.NotBefore.Add(e.config.HandOut.ElsewhereWait)
	if s.untroubled() || until <= e.Clock || class == nil {
		return "", 0
	}
	nodes := e.failedAt(s)
	if len(nodes) == 0 {
		return "", 0
	}
	e.specs.load(s.ID)
	spec := e.specs.held[s.ID]
	if e.another(site, nodes, spec) {
		return "", 0
	}
	for other := range e.sites.all() {
		if other != site && class.Allows(other.Name) && e.sites.live(other) && !e.sites.refuses(other, class.Work) && e.another(other, nodes, spec) {
			return other.Name, until
		}
	}
	return "", 0
}

// LeftUntil is when a site, where the queue matches, may have a READY task that is left
// to another site because all nodes of this one have failed it; 0 if it is not.
func LeftUntil(t *Turn, config *Config, site *SiteRecord, s *TaskState, class *Eligibility) (until Instant, err error) {
	defer catch(&err)
	if s.untroubled() {
		return 0, nil
	}
	e := elsewhere{records: newRecords(t, config)}
	_, until = e.left(site, s, class)
	return until, nil
}
