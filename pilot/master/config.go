package master

import (
	"time"
)

// Config holds the timings and sizes of a master's parts. The zero value
// is DefaultConfig.
type Config struct {
	Queue    QueueConfig
	List     ListConfig
	Members  MembersConfig
	Placing  PlacingConfig
	Copies   CopiesConfig
	Replicas ReplicasConfig
	// LostWait is how long a file may be looked for before a census decides
	// that it is lost.
	LostWait time.Duration
}

// QueueConfig is how a master speaks with the queue.
type QueueConfig struct {
	// Every is the longest silence: lease renewal and sign of life.
	Every time.Duration
	// Delay gathers outcomes and starts into one Sync, Batch sends it at once.
	Delay time.Duration
	Batch int
	// Autonomy is the part of the lease TTL for which a master that the queue
	// does not answer may start tasks.
	Autonomy float64
}

// ListConfig sizes the task list and its rounds.
type ListConfig struct {
	// RoundLow and RoundHigh bound how long list changes are gathered before
	// a broadcast: the more there are, the longer.
	RoundLow, RoundHigh time.Duration
	// RoundWait is how long a broadcast may be under way. The overlay ends it
	// by itself, and earlier; until then nobody is taken to have missed it.
	RoundWait time.Duration
	// PerSlot, Least and Most size the window: the oldest ready tasks. A small
	// site runs short tasks faster than rounds come, so its list is longer than
	// its slots ask for.
	PerSlot, Least, Most int
}

// MembersConfig is how long a master waits for its members.
type MembersConfig struct {
	// CensusWait is how long a new master waits for the census.
	CensusWait time.Duration
	// AuditAfter is how long a pilot with work may be silent before it is asked
	// for its state.
	AuditAfter time.Duration
}

// PlacingConfig is who gets which task when.
type PlacingConfig struct {
	// PrefillTime is what the tasks that a slot gets early should last, of at
	// most PrefillMost, where its site prefills at all: tasks that are shorter
	// than a message's way would else leave the slot waiting for the next one.
	PrefillTime time.Duration
	PrefillMost int
	// RetractAfter is how long an idle slot waits before it takes a prefilled
	// task from another pilot.
	RetractAfter time.Duration
	// ReserveAfter is how long a ready task that fits at no pilot waits before the
	// slots of one are kept for it.
	ReserveAfter time.Duration
	// ElsewhereWait is how long a task that has failed waits for another node.
	ElsewhereWait time.Duration
}

// CopiesConfig is who else holds the hand-out.
type CopiesConfig struct {
	// Keepers is how many other pilots hold it for the master, which speaks of
	// it at least every Every.
	Keepers int
	Every   time.Duration
}

// ReplicasConfig is how often replica policies decide.
type ReplicasConfig struct {
	// SessionEvery is the least time between two sessions (002, section 4).
	SessionEvery time.Duration
	// Rest is for how long a pilot is given no copies after one has failed.
	Rest time.Duration
}

// DefaultConfig returns the default timings.
func DefaultConfig() Config {
	return Config{
		Queue: QueueConfig{Every: 2 * time.Second, Delay: 200 * time.Millisecond, Batch: 100, Autonomy: 0.9},
		List: ListConfig{
			RoundLow: 20 * time.Millisecond, RoundHigh: 200 * time.Millisecond, RoundWait: time.Minute,
			PerSlot: 4, Least: 256, Most: 10_000,
		},
		Members: MembersConfig{CensusWait: 2 * time.Second, AuditAfter: 30 * time.Second},
		Placing: PlacingConfig{
			PrefillTime: 20 * time.Millisecond, PrefillMost: 16, RetractAfter: 50 * time.Millisecond,
			ReserveAfter: 30 * time.Second, ElsewhereWait: 2 * time.Minute,
		},
		Copies:   CopiesConfig{Keepers: 2, Every: 10 * time.Second},
		Replicas: ReplicasConfig{SessionEvery: 200 * time.Millisecond, Rest: 30 * time.Second},
		LostWait: 500 * time.Millisecond,
	}
}
