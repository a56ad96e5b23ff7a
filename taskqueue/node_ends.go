package taskqueue

import (
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// NodeEnd is what speaks for or against a node of a site where the queue judges.
type NodeEnd struct {
	health.End
	Site task.Site
	At   Instant
}

// noteEnd has an accepted outcome count for the health of its node.
func (j *judgement) noteEnd(s *TaskState, o *task.Outcome) {
	end, counts := health.Ended(j.pilots.held[o.Attempt.Pilot].Node(), o)
	if !counts || !j.site.InForce().Central() {
		return
	}
	if !o.OK {
		end.Elsewhere = j.failedAt(s)
	}
	j.outcomes.noteEnd(j.site, end)
}

// noteUnread has tasks count that a pilot gave back because it could not read their inputs.
func (j *outcomes) noteUnread(site *SiteRecord, pilot *PilotRecord, returns []task.Returned) {
	for _, back := range returns {
		if back.Unread {
			j.noteEnd(site, health.Unread(pilot.Node(), back.Task, back.Reason))
		}
	}
}

// noteDeath has a pilot's death count.
func (j *outcomes) noteDeath(site *SiteRecord, pilot *PilotRecord, reason string) {
	j.noteEnd(site, health.Died(pilot.Node(), pilot.ID, reason))
}

// noteEnd has an end count where the queue judges.
func (j *outcomes) noteEnd(site *SiteRecord, end health.End) {
	if site.InForce().Central() {
		j.Effects.Ends = append(j.Effects.Ends, NodeEnd{End: end, Site: site.Name, At: j.Clock})
	}
}
