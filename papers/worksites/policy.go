package worksites

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/papers/dispatch"
	"github.com/pilotage-grid/pilotage/sim"
)

// NewScheduler makes the scheduler of a name: "workqueue" (FIFO),
// "storage_affinity", or one of dispatch.ParsePolicy, such as combined.2. The
// seed is that of its draws.
func NewScheduler(config *Config, name string, seed uint64) (Scheduler, error) {
	switch name {
	case "workqueue":
		return Dispatch(config, &dispatch.Workqueue{}), nil
	case "storage_affinity":
		return StorageAffinity(config, false), nil
	}
	policy, err := dispatch.ParsePolicy(name)
	if err != nil {
		return nil, fmt.Errorf("%w, or workqueue, storage_affinity", err)
	}
	return Dispatch(config, dispatch.NewWorkerCentric(policy, sim.Random(seed, "choose"))), nil
}
