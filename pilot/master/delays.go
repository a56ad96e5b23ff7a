package master

import (
	"time"
)

// The pace of a master, as functions of how large its site is and how busy:
// models of sites go by the same.

// OutcomeDelay is how long outcomes are gathered when so many are: not at all
// when they make a batch. Where no task is ready the queue should know soon: the
// fewer payloads run, the less would be gathered by waiting.
func (c QueueConfig) OutcomeDelay(gathered, ready, running int, usual time.Duration) time.Duration {
	switch {
	case gathered >= c.Batch:
		return 0
	case ready == 0:
		return c.GatherDelay(running, usual) * time.Duration(min(running, c.Batch)) / time.Duration(c.Batch)
	}
	return c.GatherDelay(running, usual)
}

// GatherDelay is how long other news for the queue is gathered: the larger a
// site, the more comes with a call, and the longer its payloads usually run, the
// less it matters; up to three times as long.
func (c QueueConfig) GatherDelay(running int, usual time.Duration) time.Duration {
	return min(max(c.Delay, c.Delay*time.Duration(running)/gatherAt, usual*gatherPercent/100), 3*c.Delay)
}

const (
	gatherAt      = 150 // running payloads have their news gathered for Delay
	gatherPercent = 3   // of the usual run time
)

// ParkPause is how long no call is parked at the queue after one with content: the
// next one comes soon and would end it at a large site, and wherever the slots have
// work. A small site whose work is all given out hears of more at once.
func (c QueueConfig) ParkPause(ready, running int, usual time.Duration) time.Duration {
	if ready == 0 && running < c.Batch {
		return 0
	}
	return 2 * c.GatherDelay(running, usual)
}

// Window is how many ready tasks are listed at the most.
func (c ListConfig) Window(slots int) int {
	return min(max(c.PerSlot*slots, c.Least), c.Most)
}

// RoundDelay is how long so many new tasks wait for others to be broadcast with.
func (c ListConfig) RoundDelay(added int) time.Duration {
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
func (c ReplicasConfig) SessionPause(tasks, members int) time.Duration {
	return max(c.SessionEvery, time.Duration(tasks+members)*sessionPauseEach)
}

// sessionPauseEach is more than ten times what a session costs for each.
const sessionPauseEach = 50 * time.Microsecond
