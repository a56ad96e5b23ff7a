package wire

import (
	"errors"

	"github.com/pilotage-grid/pilotage/task"
)

// Limits of one message; Decode refuses what exceeds them.
const (
	// MaxMessage is the largest message in bytes: what the overlay carries
	// before compression.
	MaxMessage = 32 << 20

	maxName     = 512 // bytes of an id: a workflow and a task name with its index
	maxPeer     = 128
	maxLFN      = task.MaxLFN + 16 // with its workflow
	maxKey      = maxLFN + 4
	maxURL      = 4096
	maxReason   = 64 << 10
	maxFeature  = 256
	maxFeatures = 256

	maxTasks    = 50_000 // of a list, a hand-out, a pilot
	maxRemoved  = 200_000
	maxClasses  = 50_000
	maxFiles    = 200_000
	maxReplicas = 1_000
	maxOutcomes = 50_000
	maxLeases   = 10_000
	maxUpdates  = 10_000
	maxSlots    = 1 << 20
	maxAttempts = 1 << 30 // display number of an attempt
	maxOwners   = 10_000
)

// ErrMalformed is wrapped by every error of Decode.
var ErrMalformed = errors.New("malformed message between master and worker")
