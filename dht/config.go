package dht

import (
	"cmp"
	"time"
)

// Config holds the overlay's timings and sizes. Zero fields take the default.
type Config struct {
	// Beat is how often a master makes itself heard: 2 s.
	Beat time.Duration
	// PingTimeout bounds a direct probe of the master, a redial, and the
	// acknowledgement of locations: 1 s.
	PingTimeout time.Duration

	Members   MembershipConfig
	Election  ElectionConfig
	Broadcast BroadcastConfig
	Locations LocationConfig
}

// MembershipConfig is about who is there.
type MembershipConfig struct {
	// Ping is how long the master waits for a member's answer to a probe:
	// 2 s, longer than PingTimeout, because a member taken for dead by mistake
	// loses its work, and a machine may be overloaded.
	Ping time.Duration
	// Pings is how many probes in a row a silent member may fail before the
	// master takes it for dead: 3.
	Pings int
	// Suspicion is how long an unresponsive member is passed over as a hop:
	// 10 s.
	Suspicion time.Duration
	// Farewells is how many members besides the master and those that take
	// over records hear a leaving pilot's goodbye; the rest learn it from the
	// master's beats: 16.
	Farewells int
}

// ElectionConfig is about the mastership.
type ElectionConfig struct {
	// Silence is how long the master may not be heard before a member probes it
	// itself: 3.5 s.
	Silence time.Duration
	// RollCall is every how many beats the master counts who is there: that
	// beat's replies are aggregated, so that a member which died or hangs
	// unseen is missed on an idle site too. 3.
	RollCall int
	// Look bounds the lookup of the lowest ids: 2.5 s, for a pilot that hangs may be
	// among those that are asked.
	Look time.Duration
	// Nudge is how long a member waits for a better candidate to claim the
	// mastership before it probes that candidate: 1.5 s.
	Nudge time.Duration
	// ClaimEvery is the pause between claims that the queue refused or that
	// did not reach it, 500 ms. It doubles up to ClaimMost, 10 s, when refusals
	// go on for longer than any failover takes: a part of a site that is cut
	// off from its master is not to storm the queue.
	ClaimEvery time.Duration
	ClaimMost  time.Duration
}

// BroadcastConfig is about messages to every member.
type BroadcastConfig struct {
	// Fanout bounds the regions, and so the peers, of one hop: eight (paper
	// 004, section III-B).
	Fanout int
	// HopAck is how long a hop may stay silent before its region is also
	// given to a second contact: 300 ms.
	HopAck time.Duration
	// ReplyHop is the time the replies may take per level of the tree below a
	// node: 500 ms.
	ReplyHop time.Duration
}

// LocationConfig is about who holds which file.
type LocationConfig struct {
	// Replicas is on how many nearest members a location is kept: 3.
	Replicas int
	// HoldersMost is how many holders of one file an answer names: 32. Of
	// more, every asker gets others, so that no holder serves the whole site.
	HoldersMost int
	// FindMost is how many members a finder asks before a file counts as
	// absent: 8.
	FindMost int
	// FindStep is how long a finder waits before it asks further members:
	// 300 ms.
	FindStep time.Duration
	// TTL is the life of a location that is not announced again: 15 min.
	TTL time.Duration
	// Reannounce is how often a holder repeats its announcements: 5 min.
	Reannounce time.Duration
	// AnnounceDelay gathers announcements into batches: 5 ms.
	AnnounceDelay time.Duration
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	return Config{
		Beat:        cmp.Or(c.Beat, 2*time.Second),
		PingTimeout: cmp.Or(c.PingTimeout, time.Second),
		Members: MembershipConfig{
			Ping:      cmp.Or(c.Members.Ping, 2*time.Second),
			Pings:     cmp.Or(c.Members.Pings, 3),
			Suspicion: cmp.Or(c.Members.Suspicion, 10*time.Second),
			Farewells: cmp.Or(c.Members.Farewells, 16),
		},
		Election: ElectionConfig{
			Silence:    cmp.Or(c.Election.Silence, 3500*time.Millisecond),
			RollCall:   cmp.Or(c.Election.RollCall, 3),
			Look:       cmp.Or(c.Election.Look, 2500*time.Millisecond),
			Nudge:      cmp.Or(c.Election.Nudge, 1500*time.Millisecond),
			ClaimEvery: cmp.Or(c.Election.ClaimEvery, 500*time.Millisecond),
			ClaimMost:  cmp.Or(c.Election.ClaimMost, 10*time.Second),
		},
		Broadcast: BroadcastConfig{
			Fanout:   cmp.Or(c.Broadcast.Fanout, 8),
			HopAck:   cmp.Or(c.Broadcast.HopAck, 300*time.Millisecond),
			ReplyHop: cmp.Or(c.Broadcast.ReplyHop, 500*time.Millisecond),
		},
		Locations: LocationConfig{
			Replicas:      cmp.Or(c.Locations.Replicas, 3),
			HoldersMost:   cmp.Or(c.Locations.HoldersMost, 32),
			FindMost:      cmp.Or(c.Locations.FindMost, 8),
			FindStep:      cmp.Or(c.Locations.FindStep, 300*time.Millisecond),
			TTL:           cmp.Or(c.Locations.TTL, 15*time.Minute),
			Reannounce:    cmp.Or(c.Locations.Reannounce, 5*time.Minute),
			AnnounceDelay: cmp.Or(c.Locations.AnnounceDelay, 5*time.Millisecond),
		},
	}
}
