package matchmaker

import (
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// keepersShare bounds how many pilots keep slots at a time: one, and another one for so
// many pilots.
const keepersShare = 8

// overdue chooses for a pilot a task that would wait for ever beside smaller ones, as it
// needs more than the end of one task frees; "" is that there is none. The pilot is its
// own master, and keeps its slots for the task as masters do at other sites.
func (r *site) overdue(g *pilot, id task.PilotID, free matcher.Places, since taskqueue.Instant) task.ID {
	if g.keeps != "" || g.capacity.Stopped > 0 || r.nodes.State(g.node()) != health.Fit {
		return ""
	}
	keepers := 0
	for _, other := range r.pilots {
		if other.keeps != "" {
			keepers++
		}
	}
	if keepers <= len(r.pilots)/keepersShare {
		g.keeps = r.pool.MatchOverdue(id, free, moment(since))
	}
	return g.keeps
}
