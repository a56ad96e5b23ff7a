package message

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// weight is about what an outcome takes on the wire, in bytes.
func weight(o *task.Outcome) int {
	return 256 + len(o.Stdout) + len(o.Stderr) + len(o.Reason) + 192*(len(o.Outputs)+len(o.Reads))
}

// SplitOutcomes returns how many outcomes fit into a number of bytes, at
// least one.
func SplitOutcomes(outcomes []task.Outcome, most int) int {
	for i := range outcomes {
		if most -= weight(&outcomes[i]); most < 0 {
			return max(1, i)
		}
	}
	return len(outcomes)
}

// Jitter draws a pause of at most that long ("full jitter"), so that many pilots do
// not come back together. What is drawn follows from who draws and when.
func Jitter(who task.PilotID, now time.Time, most time.Duration) time.Duration {
	seed := fnv.New64a()
	seed.Write([]byte(who))
	return 1 + time.Duration(rand.New(rand.NewPCG(seed.Sum64(), uint64(now.UnixNano()))).Int64N(int64(most)))
}

// ReplicaShare is which part of a cache, one in so many bytes, replicas may
// overwrite: the rest belongs to what tasks have asked for.
const ReplicaShare = 2
