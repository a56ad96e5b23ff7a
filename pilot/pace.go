package pilot

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// The pace of a master, as functions of how large its site is and how busy:
// models of sites go by the same.

// OutcomeDelay is how long outcomes are gathered when so many are: not at all
// when they make a batch. Where no task is ready the queue should know soon: the
// fewer payloads run, the less would be gathered by waiting.
func (c Config) OutcomeDelay(gathered, ready, running int) time.Duration {
	switch {
	case gathered >= c.SyncBatch:
		return 0
	case ready == 0:
		return c.GatherDelay(running) * time.Duration(min(running, c.SyncBatch)) / time.Duration(c.SyncBatch)
	}
	return c.GatherDelay(running)
}

// GatherDelay is how long other news for the queue is gathered: the larger a
// site, the more comes with a call, up to three times as long.
func (c Config) GatherDelay(running int) time.Duration {
	return c.SyncDelay * time.Duration(min(max(running, gatherAt), 3*gatherAt)) / gatherAt
}

// gatherAt is how many running payloads have their news gathered for SyncDelay.
const gatherAt = 250

// ParkPause is how long no call is parked at the queue after one with content.
// At a large site the next one comes soon and would end it.
func (c Config) ParkPause(running int) time.Duration {
	if running < c.SyncBatch {
		return 0
	}
	return 2 * c.GatherDelay(running)
}

// Window is how many ready tasks are listed at the most.
func (c Config) Window(slots int) int {
	return min(max(c.WindowPerSlot*slots, c.WindowLeast), c.WindowMost)
}

// RoundDelay is how long so many new tasks wait for others to be broadcast with.
func (c Config) RoundDelay(added int) time.Duration {
	return c.RoundLow + (c.RoundHigh-c.RoundLow)*time.Duration(min(added, 1000))/1000
}

// SolvePause is the least time between two solutions. Each looks at all pilots
// with places, and at a large site something changes all the time: gathering
// the changes keeps the master's work from growing with the square of its size.
func SolvePause(members int) time.Duration {
	pause := time.Duration(members) * solvePausePerMember
	if pause < leastSolvePause {
		return 0
	}
	return min(pause, mostSolvePause)
}

const (
	solvePausePerMember = 20 * time.Microsecond
	leastSolvePause     = 2 * time.Millisecond // 100 pilots: smaller sites are served at once
	mostSolvePause      = 50 * time.Millisecond
)

// SessionPause is the least time between two sessions of replica policies,
// which look at every listed task and pilot.
func (c Config) SessionPause(tasks, members int) time.Duration {
	return max(c.SessionEvery, time.Duration(tasks+members)*sessionPauseEach)
}

// sessionPauseEach is more than ten times what a session costs for each.
const sessionPauseEach = 50 * time.Microsecond

// jitter draws a pause of at most that long ("full jitter"), so that many pilots do
// not come back together. What is drawn follows from who draws and when.
func jitter(who task.PilotID, now time.Time, most time.Duration) time.Duration {
	seed := fnv.New64a()
	seed.Write([]byte(who))
	return 1 + time.Duration(rand.New(rand.NewPCG(seed.Sum64(), uint64(now.UnixNano()))).Int64N(int64(most)))
}
