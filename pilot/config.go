package pilot

import "time"

// Config holds the timings and sizes of both roles. Zero fields take the
// default.
type Config struct {
	// SyncEvery is the longest silence towards the queue: lease renewal and
	// sign of life.
	SyncEvery time.Duration
	// SyncDelay gathers outcomes and starts into one Sync, SyncBatch sends it
	// at once.
	SyncDelay time.Duration
	SyncBatch int
	// RoundLow and RoundHigh bound how long list changes are gathered before
	// a broadcast: the more there are, the longer.
	RoundLow, RoundHigh time.Duration
	// RoundWait is how long a broadcast may be under way. The overlay ends it
	// by itself, and earlier; until then nobody is taken to have missed it.
	RoundWait time.Duration
	// WindowPerSlot, WindowLeast and WindowMost size the task list: the oldest
	// ready tasks. A small site runs short tasks faster than rounds come, so
	// its list is longer than its slots ask for.
	WindowPerSlot, WindowLeast, WindowMost int
	// ReportDelay gathers a worker's news for its master; outcomes and freed
	// slots do not wait, or a quarter of it while work for more than the freed
	// slots is at hand.
	ReportDelay time.Duration
	// PrefillTime is what the tasks that a slot gets early should last, of at
	// most PrefillMost, where its site prefills at all: tasks that are shorter
	// than a message's way would else leave the slot waiting for the next one.
	PrefillTime time.Duration
	PrefillMost int
	// CensusWait is how long a new master waits for the census.
	CensusWait time.Duration
	// AuditAfter is how long a pilot with work may be silent before it is asked
	// for its state.
	AuditAfter time.Duration
	// RetractAfter is how long an idle slot waits before it takes a prefilled
	// task from another pilot.
	RetractAfter time.Duration
	// ReserveAfter is how long a ready task that fits at no pilot waits before the
	// slots of one are kept for it.
	ReserveAfter time.Duration
	// Copies is how many other pilots hold the hand-out for the master, which
	// speaks of it at least every CopyEvery.
	Copies    int
	CopyEvery time.Duration
	// ResendAfter is how long a worker without master waits before it
	// delivers outcomes to the queue itself.
	ResendAfter time.Duration
	// ElsewhereWait is how long a task that has failed waits for another node.
	ElsewhereWait time.Duration
	// LostWait is how long a file may be looked for before a census decides
	// that it is lost.
	LostWait time.Duration
	// SessionEvery is the least time between two sessions of replica policies
	// (002, section 4), and ReplicaRest for how long a pilot is given no
	// copies after one has failed.
	SessionEvery, ReplicaRest time.Duration
	// RestAfter is how many tasks in a row must fail through a pilot before it
	// takes no work for RestLeast, twice as long each further time, at the
	// longest RestMost.
	RestAfter           int
	RestLeast, RestMost time.Duration
	// MeasureEvery is how often a solution of the rank matrix is compared with
	// the best one, and MeasureSlots up to how many free slots: that costs an
	// exact solution.
	MeasureEvery time.Duration
	MeasureSlots int
	// Autonomy is the part of the lease TTL for which a master that the queue
	// does not answer may start tasks.
	Autonomy float64
}

// DefaultConfig returns the timings of DESIGN section 10.
func DefaultConfig() Config {
	return Config{
		SyncEvery: 2 * time.Second, SyncDelay: 200 * time.Millisecond, SyncBatch: 100,
		RoundLow: 20 * time.Millisecond, RoundHigh: 200 * time.Millisecond, RoundWait: time.Minute,
		WindowPerSlot: 4, WindowLeast: 256, WindowMost: 10_000,
		ReportDelay: 20 * time.Millisecond, PrefillTime: 20 * time.Millisecond, PrefillMost: 16, CensusWait: 2 * time.Second,
		AuditAfter: 30 * time.Second, RetractAfter: 50 * time.Millisecond, ReserveAfter: 30 * time.Second,
		Copies: 2, CopyEvery: 10 * time.Second,
		SessionEvery: 200 * time.Millisecond, ReplicaRest: 30 * time.Second,
		RestAfter: 3, RestLeast: 30 * time.Second, RestMost: 10 * time.Minute,
		ResendAfter: 5 * time.Second, LostWait: 500 * time.Millisecond,
		ElsewhereWait: 2 * time.Minute,
		MeasureEvery:  10 * time.Second, MeasureSlots: 500, Autonomy: 0.9,
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	duration := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	number := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	duration(&c.SyncEvery, d.SyncEvery)
	duration(&c.SyncDelay, d.SyncDelay)
	duration(&c.RoundLow, d.RoundLow)
	duration(&c.RoundHigh, d.RoundHigh)
	duration(&c.RoundWait, d.RoundWait)
	duration(&c.ReportDelay, d.ReportDelay)
	duration(&c.PrefillTime, d.PrefillTime)
	duration(&c.CensusWait, d.CensusWait)
	duration(&c.AuditAfter, d.AuditAfter)
	duration(&c.RetractAfter, d.RetractAfter)
	duration(&c.ReserveAfter, d.ReserveAfter)
	duration(&c.CopyEvery, d.CopyEvery)
	duration(&c.SessionEvery, d.SessionEvery)
	duration(&c.ReplicaRest, d.ReplicaRest)
	duration(&c.ResendAfter, d.ResendAfter)
	duration(&c.LostWait, d.LostWait)
	duration(&c.ElsewhereWait, d.ElsewhereWait)
	duration(&c.RestLeast, d.RestLeast)
	duration(&c.RestMost, d.RestMost)
	duration(&c.MeasureEvery, d.MeasureEvery)
	number(&c.MeasureSlots, d.MeasureSlots)
	number(&c.RestAfter, d.RestAfter)
	number(&c.SyncBatch, d.SyncBatch)
	number(&c.WindowPerSlot, d.WindowPerSlot)
	number(&c.WindowLeast, d.WindowLeast)
	number(&c.PrefillMost, d.PrefillMost)
	number(&c.WindowMost, d.WindowMost)
	number(&c.Copies, d.Copies)
	if c.Autonomy <= 0 {
		c.Autonomy = d.Autonomy
	}
	return c
}
