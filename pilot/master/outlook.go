package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// outlook tells the matrix what is expected of pilots and tasks while it is
// solved.
type outlook struct{ m *Master }

var (
	_ matcher.Patience  = outlook{}
	_ matcher.Foresight = outlook{}
)

// Soon satisfies matcher.Patience.
func (o outlook) Soon(id task.PilotID) int { return o.m.comesTo(id) }

// Waits satisfies matcher.Patience.
func (o outlook) Waits(id task.PilotID) bool { return o.m.waits(id) }

// Fresh satisfies matcher.Patience.
func (o outlook) Fresh(no uint64) bool { return o.m.fresh(no) }

// Now satisfies matcher.Foresight.
func (o outlook) Now() time.Time { return o.m.now }

// Waited satisfies matcher.Foresight.
func (o outlook) Waited(no uint64) bool { return o.m.waited(no) }

// Expected satisfies matcher.Foresight.
func (o outlook) Expected(no uint64) time.Duration { return o.m.expected(no) }

// Occupancy satisfies matcher.Foresight.
func (o outlook) Occupancy(id task.PilotID) (matcher.Occupancy, bool) { return o.m.occupancy(id) }
