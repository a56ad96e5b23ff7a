package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Config holds every timing and limit of the rules.
type Config struct {
	Lease    LeaseConfig
	Retry    RetryConfig
	HandOut  HandOutConfig
	Site     SiteConfig
	Workflow WorkflowConfig
	Match    MatchConfig
	Fallback FallbackConfig
	Retain   RetainConfig
}

// LeaseConfig bounds a site's autonomy.
type LeaseConfig struct {
	// TTL is how long a site may go on without being heard.
	TTL time.Duration
	// RenewBelow is the remaining time, as a share of TTL, under which a
	// renewal is written; above it a Sync writes nothing.
	RenewBelow float64
}

// RetryConfig says what failures cost.
type RetryConfig struct {
	BackoffMin time.Duration // before a failed task is handed out again
	BackoffMax time.Duration // the longest; of tasks that lost pilots together one after the other waits for another one
	// MaxGenerations bounds how often a task's lost output is made again.
	MaxGenerations int
	// QuarantineLosses is how many pilots a task may take with it where pilots
	// hardly vanish; see Fates. Where they do, it may be as many as make it less likely
	// than QuarantineChance that one of all tasks has lost them by coincidence, but never
	// more than QuarantineMost.
	QuarantineLosses int
	QuarantineChance float64
	QuarantineMost   int
	// SecondOpinion is how many failures beyond its retries a task is given, all
	// of them at one node, while another node could run it.
	SecondOpinion int
	// SecondLook is how long after a node's word that the last copy of a file is
	// bad the same node's is believed.
	SecondLook time.Duration
	// PilotFaults is how many failures of pilots are not held against a task.
	PilotFaults int
	// StorageFaults is how often a storage element that does not answer is not
	// held against a task.
	StorageFaults int
}

// HandOutConfig says how much work a site gets.
type HandOutConfig struct {
	Work         time.Duration // of work per slot at the observed median
	Max          int           // tasks in one hand-out
	UnknownTasks int           // tasks per slot while durations are unknown
	UnknownTime  time.Duration // what such a task counts as
	KnownAfter   int           // outcomes that make durations known
	Sample       int           // newest run times of a site that are kept
	FloorTasks   int           // per free slot, while the share allows
	// AheadTasks is how many tasks are leased before their inputs exist, while
	// other sites are live, for each slot or task at hand.
	AheadTasks int
	// ShareWait is how long a READY task is kept for the sites whose share it
	// is; after that any idle slot may have it.
	ShareWait time.Duration
	// RefusalHold is how long a class is not offered to a site that has no
	// pilot for it.
	RefusalHold time.Duration
	// ElsewhereWait is how long a task that has failed waits for another node,
	// where the queue matches.
	ElsewhereWait time.Duration
	RecallScan    int // tasks looked at in one recall
}

// SiteConfig is about masterships and signs of life.
type SiteConfig struct {
	ClaimSilence  time.Duration // since the master's last Sync, before another may claim
	BrokenSilence time.Duration // the same since the master's connection broke
	MarkEvery     time.Duration // how exactly the last Sync is remembered
	LiveFor       time.Duration // since the last Sync, while a site counts in shares
	ContactSample int           // contacts told to a new pilot
	MaxHistory    int           // masterships remembered
	Prefill       int           // further tasks per slot
	LocalityWait  time.Duration // for which free slots leave tasks to pilots that have their inputs
	Pilot         PilotConfig
}

// PilotConfig says how long the queue counts on pilots and remembers them.
type PilotConfig struct {
	// LateFor is how long, beyond a lease's TTL, outcomes of a pilot that has gone
	// may still come.
	LateFor time.Duration
	// MemberAfterEnd is how long a membership outlives a pilot's declared end.
	MemberAfterEnd time.Duration
	MaxLifetime    time.Duration // of a pilot that declares no end
	// Protocol is the newest that pilots may speak with each other, 0 any: a newer one
	// has all others of its site drained.
	Protocol uint32
	// DeadAfterEnd is how long after its declared end a pilot of which nothing
	// was heard is taken for dead, and OverdueEvery the time between two looks
	// for such.
	DeadAfterEnd time.Duration
	// AbsentAfter is how long after its registration, and after its master took
	// office, a pilot that this one has not met is taken for dead.
	AbsentAfter  time.Duration
	OverdueEvery time.Duration
	// MinConfinement is how strictly pilots of all sites have to confine payloads;
	// a site may ask for more.
	MinConfinement task.Confinement
}

// WorkflowConfig bounds submissions and the queue's own housekeeping.
type WorkflowConfig struct {
	MaxTasks    int
	UnsealedFor time.Duration // since its newest part, until an unsealed workflow is dropped
	SweepPage   int           // records looked at in one tick of a sweep
	TickEvery   time.Duration // longest time between ticks
	RestEvery   time.Duration // the same since a tick that changed nothing, while nobody else does
	// LookFor is how long the queue's server may look at the storage element of a
	// site whose last pilot has gone for what its caches held alone: it may have been
	// stored without a word. It begins anew with each file that was looked for; 0 is
	// that nobody looks.
	LookFor time.Duration
}

// MatchConfig bounds what the queue keeps to match tasks to pilots.
type MatchConfig struct {
	Window       int           // READY tasks of a site that are looked at
	Prints       int           // cached files of all pilots that are remembered
	PilotSilence time.Duration // until a pilot is taken for dead
	// BrokenSilence is the same after the connection of a parked call broke.
	BrokenSilence time.Duration
	// ReserveAfter is how long a READY task that fits at no pilot waits before the
	// slots of one are kept for it.
	ReserveAfter time.Duration
	RetractEvery time.Duration // between two looks for prefilled tasks that idle slots could run
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Lease: LeaseConfig{
			TTL:        10 * time.Minute, // longer than any restart of a queue, shorter than a user's patience
			RenewBelow: .97,              // a master may start tasks until 0.9 of TTL after its last Sync: the lease must outlive that
		},
		Retry: RetryConfig{
			BackoffMin:       time.Second, // a transient fault is seldom over sooner
			BackoffMax:       time.Minute,
			MaxGenerations:   3,    // more often than that, the loss is systematic
			QuarantineLosses: 3,    // three pilots are no coincidence,
			QuarantineChance: 1e-3, // unless that is what a large workflow must expect
			QuarantineMost:   20,
			SecondOpinion:    3,           // a retry goes elsewhere first: more is asked only where all others were full
			SecondLook:       time.Minute, // a reader has come to another node by then, if there is one
			PilotFaults:      10,
			StorageFaults:    120, // about an hour, at half of BackoffMax each
		},
		HandOut: HandOutConfig{
			Work:          10 * time.Minute, // a site works on through a queue's restart
			Max:           20_000,           // about 10 MB of descriptions
			UnknownTasks:  2,                // one running, one waiting
			UnknownTime:   time.Minute,
			KnownAfter:    5,
			Sample:        32,
			FloorTasks:    4, // the master needs a choice to find locality
			AheadTasks:    2, // a slot goes on with what it made
			ShareWait:     3 * time.Second,
			RefusalHold:   10 * time.Minute,
			ElsewhereWait: 2 * time.Minute,
			RecallScan:    1_000,
		},
		Site: SiteConfig{
			ClaimSilence:  3 * time.Second, // longer than the longest time between Syncs, 2 s
			BrokenSilence: 2 * time.Second, // a master notices with its next call, within 1.2 s, and dials
			MarkEvery:     500 * time.Millisecond,
			LiveFor:       10 * time.Second, // five missed Syncs
			ContactSample: 16,               // more than the bucket size, so that a join finds its neighbours
			MaxHistory:    16,
			Prefill:       1,
			LocalityWait:  30 * time.Second, // a slot of tasks that last minutes loses little by it
			Pilot: PilotConfig{
				LateFor:        24 * time.Hour, // the longest that a lease can be set to
				MemberAfterEnd: time.Hour,
				MaxLifetime:    30 * 24 * time.Hour,
				DeadAfterEnd:   5 * time.Minute, // hosts' clocks differ, and batch systems are late to kill
				AbsentAfter:    2 * time.Minute, // joining takes seconds; who is later is taken back
				OverdueEvery:   time.Minute,
			},
		},
		Workflow: WorkflowConfig{
			MaxTasks:    task.MaxWorkflow,
			UnsealedFor: time.Hour,
			SweepPage:   2_000, // some 20 ms of work
			TickEvery:   time.Second,
			RestEvery:   10 * time.Second, // what is due by the minute is little late
		},
		Retain: RetainConfig{Intermediates: 7 * 24 * time.Hour}, // somebody looks at results within a week
		Fallback: FallbackConfig{
			TrialAfter: 30 * time.Second, // a switch that restarts takes no longer
			TrialMost:  time.Hour,        // a trial is a few connections of each pilot
			TrialTime:  30 * time.Second, // ten of jitter, and what a firewall swallows takes twelve
		},
		Match: MatchConfig{
			Window:        20_000,           // about 20 MB
			Prints:        2_000_000,        // about 150 MB
			PilotSilence:  25 * time.Second, // two missed calls, which are parked for 10 s
			BrokenSilence: 5 * time.Second,  // pilots at sites without peers have no other witness
			ReserveAfter:  30 * time.Second, // as masters do
			RetractEvery:  time.Second,
		},
	}
}
