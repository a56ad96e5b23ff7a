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
	if s.Failures+s.PilotFaults+s.Losses == 0 {
		return nil
	}
	attempts := r.attemptsOf(s.ID)
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

// blamesNode tells whether an attempt ended in a way that its node may have
// caused.
func (a *Attempt) blamesNode() bool {
	switch a.State {
	case AttemptLost:
		return true
	case AttemptFailedState:
		return a.Outcome.Failure != task.StorageFailed && a.Outcome.Failure != task.KilledByUser
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
	j.loadSites()
	j.classes.load()
	class, spec := j.classes.known.byID[s.Class], j.specs.held[s.ID]
	for _, name := range j.siteNames {
		site := j.sites.held[name]
		if name != s.Site && (class == nil || !class.Allows(name)) || !j.live(site) ||
			spec != nil && j.refuses(site, spec.Class()) {
			continue
		}
		for _, p := range j.alive(name) {
			if !slices.Contains(nodes, p.Node()) && p.State == PilotAlive && p.Stopped == "" &&
				(spec == nil || p.Resources.Fits(spec.Resources)) {
				return true
			}
		}
	}
	return false
}
