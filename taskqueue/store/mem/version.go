package mem

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// version is one state of all tables.
type version struct {
	values   table[string, []byte]
	counters table[string, uint64]
	order    uint64 // number of the last record that is ordered by first Save

	workflows workflows
	tasks     tasks
	files     files
	attempts  attempts
	leases    leases
	sites     table[task.Site, *taskqueue.SiteRecord]
	pilots    pilots
	grants    table[string, *taskqueue.Grant]
}

func newVersion(inPlace bool) *version {
	return &version{
		values:    newTable[string, []byte](),
		counters:  newTable[string, uint64](),
		workflows: newWorkflows(),
		tasks:     newTasks(inPlace),
		files:     newFiles(),
		attempts:  newAttempts(inPlace),
		leases:    newLeases(),
		sites:     newTable[task.Site, *taskqueue.SiteRecord](),
		pilots:    newPilots(inPlace),
		grants:    newTable[string, *taskqueue.Grant](),
	}
}

// copy returns a version that can be changed without changing v.
func (v *version) copy() *version {
	return &version{
		values:    v.values.copy(),
		counters:  v.counters.copy(),
		order:     v.order,
		workflows: v.workflows.copy(),
		tasks:     v.tasks.copy(),
		files:     v.files.copy(),
		attempts:  v.attempts.copy(),
		leases:    v.leases.copy(),
		sites:     v.sites.copy(),
		pilots:    v.pilots.copy(),
		grants:    v.grants.copy(),
	}
}

// next numbers a record that is ordered by first Save.
func (v *version) next() uint64 {
	v.order++
	return v.order
}
