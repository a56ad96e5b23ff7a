package dht

import "time"

// Config holds the overlay's timings and sizes. Zero fields take the default.
type Config struct {
	// Beat is how often a master makes itself heard.
	Beat time.Duration
	// BeatMisses is how many beats may be missed before a member probes the
	// master itself.
	BeatMisses int
	// RollCall is every how many beats the master counts who is there: that
	// beat's replies are aggregated, so that a member which died or hangs
	// unseen is missed on an idle site too.
	RollCall int
	// PingTimeout bounds a direct probe of the master, a redial, and the
	// acknowledgement of locations.
	PingTimeout time.Duration
	// MemberPing is how long the master waits for a member's answer to a
	// probe: longer than PingTimeout, because a member taken for dead by
	// mistake loses its work, and a machine may be overloaded.
	MemberPing time.Duration
	// Pings is how many probes in a row a silent member may fail before the
	// master takes it for dead.
	Pings int
	// Nudge is how long a member waits for a better candidate to claim the
	// mastership before it probes that candidate.
	Nudge time.Duration
	// ClaimEvery is the pause between claims that the queue refused or that
	// did not reach it. It doubles up to ClaimMost when refusals go on for
	// longer than any failover takes: a part of a site that is cut off from
	// its master is not to storm the queue.
	ClaimEvery time.Duration
	ClaimMost  time.Duration
	// Fanout bounds the regions, and so the peers, of one broadcast hop
	// (paper 004, section III-B: eight).
	Fanout int
	// HopAck is how long a hop may stay silent before its region is also
	// given to a second contact.
	HopAck time.Duration
	// ReplyHop is the time a broadcast's replies may take per level of the
	// tree below a node.
	ReplyHop time.Duration
	// Suspicion is how long an unresponsive member is passed over as a hop.
	Suspicion time.Duration
	// Replicas is on how many nearest members a location is kept.
	Replicas int
	// HoldersMost is how many holders of one file an answer names. Of more,
	// every asker gets others, so that no holder serves the whole site.
	HoldersMost int
	// FindMost is how many members a finder asks before a file counts as
	// absent.
	FindMost int
	// FindStep is how long a finder waits before it asks further members.
	FindStep time.Duration
	// LocationTTL is the life of a location that is not announced again.
	LocationTTL time.Duration
	// Reannounce is how often a holder repeats its announcements.
	Reannounce time.Duration
	// AnnounceDelay gathers announcements into batches.
	AnnounceDelay time.Duration
	// WelcomePause gathers newcomers: one snapshot of the roster is made for
	// all that came within it.
	WelcomePause time.Duration
	// Farewells is how many members besides the master and those that take
	// over records hear a leaving pilot's goodbye; the rest learn it from the
	// roster.
	Farewells int
}

// DefaultConfig returns the timings of DESIGN section 10 with the reasons
// above.
func DefaultConfig() Config {
	return Config{
		Beat:          time.Second,
		BeatMisses:    3,
		RollCall:      5,
		PingTimeout:   time.Second,
		MemberPing:    2 * time.Second,
		Pings:         3,
		Nudge:         1500 * time.Millisecond,
		ClaimEvery:    500 * time.Millisecond,
		ClaimMost:     10 * time.Second,
		Fanout:        8,
		HopAck:        300 * time.Millisecond,
		ReplyHop:      500 * time.Millisecond,
		Suspicion:     10 * time.Second,
		Replicas:      3,
		HoldersMost:   32,
		FindMost:      8,
		FindStep:      300 * time.Millisecond,
		LocationTTL:   15 * time.Minute,
		Reannounce:    5 * time.Minute,
		AnnounceDelay: 5 * time.Millisecond,
		WelcomePause:  100 * time.Millisecond,
		Farewells:     16,
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
	duration(&c.Beat, d.Beat)
	duration(&c.PingTimeout, d.PingTimeout)
	duration(&c.MemberPing, d.MemberPing)
	duration(&c.Nudge, d.Nudge)
	duration(&c.ClaimEvery, d.ClaimEvery)
	duration(&c.ClaimMost, d.ClaimMost)
	duration(&c.HopAck, d.HopAck)
	duration(&c.ReplyHop, d.ReplyHop)
	duration(&c.Suspicion, d.Suspicion)
	duration(&c.FindStep, d.FindStep)
	duration(&c.LocationTTL, d.LocationTTL)
	duration(&c.Reannounce, d.Reannounce)
	duration(&c.AnnounceDelay, d.AnnounceDelay)
	duration(&c.WelcomePause, d.WelcomePause)
	number(&c.BeatMisses, d.BeatMisses)
	number(&c.RollCall, d.RollCall)
	number(&c.Pings, d.Pings)
	number(&c.Fanout, d.Fanout)
	number(&c.Replicas, d.Replicas)
	number(&c.FindMost, d.FindMost)
	number(&c.HoldersMost, d.HoldersMost)
	number(&c.Farewells, d.Farewells)
	return c
}
