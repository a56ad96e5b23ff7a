package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// outlook tells the matrix what is expected of pilots and tasks while it is
// solved.
type outlook struct {
	at       *step
	roster   *roster
	list     *list
	placing  *placing
	replicas *replication
}

var (
	_ matcher.Patience  = outlook{}
	_ matcher.Foresight = outlook{}
)

// Soon satisfies matcher.Patience.
func (o outlook) Soon(id task.PilotID) int { return o.placing.comesTo(o.at, o.roster, o.replicas, id) }

// Waits satisfies matcher.Patience.
func (o outlook) Waits(id task.PilotID) bool { return o.placing.waits(o.at, o.roster, id) }

// Fresh satisfies matcher.Patience.
func (o outlook) Fresh(no uint64) bool { return o.placing.fresh(o.at, o.list, no) }

// Now satisfies matcher.Foresight.
func (o outlook) Now() time.Time { return o.at.now }

// Waited satisfies matcher.Foresight.
func (o outlook) Waited(no uint64) bool { return o.placing.waited(o.at, o.list, no) }

// Expected satisfies matcher.Foresight.
func (o outlook) Expected(no uint64) time.Duration { return o.placing.expected(o.list, no) }

// Occupancy satisfies matcher.Foresight.
func (o outlook) Occupancy(id task.PilotID) (matcher.Occupancy, bool) {
	return o.placing.occupancy(o.at, o.roster, o.replicas, id)
}
