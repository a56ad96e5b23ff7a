package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// NodeEnd is how a payload ended at a node, or that a pilot died there with what
// it ran.
type NodeEnd struct {
	Site      task.Site
	Node      string
	What      string // the task, or the pilot
	At        Instant
	OK        bool
	Why       string   // the error
	Elsewhere []string // where the task has failed
}

// noteEnd has an accepted outcome count for the health of its node. Faults of
// storage elements and files that nobody has are no node's.
func (j *judgement) noteEnd(s *TaskState, o *task.Outcome) {
	if !j.site.InForce().Central() || !o.OK && o.Failure != task.PayloadFailed && o.Failure != task.PilotFailed {
		return
	}
	ended := NodeEnd{
		Site: j.site.Name, Node: j.pilots.held[o.Attempt.Pilot].Node(), What: string(s.ID), At: j.Clock, OK: o.OK, Why: o.Reason,
	}
	if !o.OK {
		ended.Elsewhere = j.failedAt(s)
	}
	j.Effects.Ends = append(j.Effects.Ends, ended)
}

// noteDeath has a pilot's death count, once whatever it was running.
func (j *outcomes) noteDeath(site *SiteRecord, pilot *PilotRecord, reason string) {
	if site.InForce().Central() {
		j.Effects.Ends = append(j.Effects.Ends, NodeEnd{
			Site: site.Name, Node: pilot.Node(), What: string(pilot.ID), At: j.Clock, Why: "a pilot died with what it ran: " + reason,
		})
	}
}
