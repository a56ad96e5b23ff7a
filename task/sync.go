package task

import (
	"cmp"
	"time"
)

// Sync is what a site's master tells the queue, in full: it is declarative
// and idempotent, renews the leases it lists, and is the site's sign of life.
type Sync struct {
	Site  Site
	Term  Term
	Pilot PilotID
	// Leases held, and how many tasks of each; an open lease of the site that is
	// not listed, or of which the queue knows more tasks, is sent again. No Tasks at
	// all tells nothing of them.
	Leases   []LeaseID
	Tasks    []int
	Capacity Capacity
	Outcomes []Outcome
	Seals    []*Seal // of the outcomes of other pilots
	Starts   []Start
	Returns  []Returned
	FileNews
	Departed []Departure
	Census
	NodeHealth
	Pauses  []Pause // of pilots that have stopped taking work since, or take it again
	Refused []Refusal
	// Confirmed lists revocations that were carried out.
	Confirmed []Revoked
	// Requests made by the site's pilots to storage elements and the sums of
	// bytes, since the last acknowledged Sync with the given number.
	Report SiteReport
	// Hold asks the queue to park the call for at most this long when it has
	// nothing to say.
	Hold time.Duration
	// Number of the call among those of its pilot that tell more than its state does, all
	// of which are numbered upwards; of another call that of the last such one before it, 0
	// if there was none. What one has told that its pilot gave up is told again by the next
	// one.
	Number uint64
}

// Census lists pilots whose whole state the master has heard since the last Sync, and
// the attempts that they run, or whose outcomes are under way: other attempts of theirs
// have ended.
type Census struct {
	Joined []PilotID
	InHand []AttemptID
}

// FileNews are copies that were stored, and files that were lost.
type FileNews struct {
	Stored []Stored
	Lost   []LostFile
}

// NodeHealth lists nodes that the master has set back. Judges tells that they are all: a
// new master learns first what its predecessor thought of them.
type NodeHealth struct {
	Nodes  []NodeMark
	Judges bool
}

// SyncReply is the queue's answer.
type SyncReply struct {
	Leases []Lease
	// Unknown lists held leases that the queue does not know (any more):
	// unstarted tasks of them are to be dropped, running ones go on.
	Unknown []LeaseID
	Revoked []Revoked
	Acks    []Ack
	Denied  []PeerID  // the whole deny list of the site, see DeniedSignature
	Drain   []PilotID // pilots that an operator wants drained
	// Nodes are those that an earlier master has set back, for one that does not
	// know them yet.
	Nodes []NodeMark
	// Check lists files that are announced at the site, on no storage element,
	// and that nobody stores by itself: their maker is gone, or made them for an
	// earlier run. They are sent until they are stored or lost.
	Check []File
	// Drop lists files that nobody needs any more: caches drop what they have of them,
	// and the master then reports them lost. They are sent until it has.
	Drop []File
	// Wanted are cached files that somebody waits for, at the queue.
	Wanted []WantedFile
	// Settings of the site, as they are now.
	Settings SiteSettings
	// Roll is another one with every master that speaks for the site, and whenever the
	// queue has started and may have gone back to a backup: all members join anew.
	Roll uint64
	// ReportSeq acknowledges the SiteReport with this number.
	ReportSeq uint64
	// DeniedSignature is the queue's of Denied: pilots that have no word from the queue
	// themselves take the list from others by it.
	DeniedSignature []byte
}

// WantedFile is a cached file that somebody waits for, under the number of its
// wait.
type WantedFile struct {
	ID   string
	File File
}

// Capacity is what a master reports of its site, from rows and slot events.
type Capacity struct {
	Pilots     int
	Slots      int
	FreeSlots  int
	Assigned   int // assigned or prefilled, payload not started
	Running    int
	Waiting    int // leased, not yet assigned
	CacheBytes Bytes
	CacheUsed  Bytes
	Evictions  uint64
	Damaged    uint64 // cached files that had rotted
	// Stopped pilots take no new work: by a policy of their own, after failures,
	// or because they end. Their slots are not in Slots.
	Stopped      int
	StoppedSlots int
	StoppedWhy   string // of one of them
}

// Add adds what others have to offer.
func (c *Capacity) Add(other Capacity) {
	c.Pilots += other.Pilots
	c.Slots += other.Slots
	c.FreeSlots += other.FreeSlots
	c.Assigned += other.Assigned
	c.Running += other.Running
	c.Waiting += other.Waiting
	c.CacheBytes += other.CacheBytes
	c.CacheUsed += other.CacheUsed
	c.Evictions += other.Evictions
	c.Damaged += other.Damaged
	c.Stopped += other.Stopped
	c.StoppedSlots += other.StoppedSlots
	c.StoppedWhy = cmp.Or(c.StoppedWhy, other.StoppedWhy)
}

// SiteReport carries sums since the last acknowledged report.
type SiteReport struct {
	Seq     uint64
	SEReads []SERead
	// Replicas are copies that replica policies have had made.
	Replicas ReplicaSum
}

// ReplicaSum counts copies made before tasks asked for them.
type ReplicaSum struct {
	Files uint64
	Bytes Bytes
}

// Add adds another sum.
func (s *ReplicaSum) Add(other ReplicaSum) {
	s.Files += other.Files
	s.Bytes += other.Bytes
}

// Empty tells that a report says nothing.
func (r *SiteReport) Empty() bool { return len(r.SEReads) == 0 && r.Replicas == (ReplicaSum{}) }

// SERead sums reads from one storage element by the site's pilots: transfers,
// not inputs (one transfer may serve many reads).
type SERead struct {
	Owner Site // of the storage element
	Files uint64
	Bytes Bytes
}

// Start tells that an attempt's payload was started.
type Start struct {
	Attempt AttemptID
	Number  int
	Started time.Time // pilot's wall clock, for people
	Process int       // as in Outcome
}

// Returned gives an unstarted task back.
type Returned struct {
	Task       ID
	Generation uint32
	Lease      LeaseID
	Reason     string
	Unread     bool // its inputs could not be read
}

// Refusal gives back a whole class: no live pilot of the site can run it.
// Its tasks come as returns in the same Sync.
type Refusal struct {
	Class   Class
	Pilots  int
	Clauses []ClauseCount
}

// ClauseCount counts the pilots that fail a clause of a requirement.
type ClauseCount struct {
	Clause string
	Pilots int
}

// Stored tells that an output has reached a storage element.
type Stored struct {
	LFN     LFN
	Attempt AttemptID
	URL     string
	Size    Bytes
	Digest  Digest
}

// Output names what was stored.
func (s Stored) Output() OutputID { return OutputID{Attempt: s.Attempt, LFN: s.LFN} }

// LostFile tells that no pilot of the site holds a file any more, or, with a
// URL, that a storage element has no such copy or other bytes in its place.
type LostFile struct {
	LFN    LFN
	Digest Digest
	URL    string  // of the bad copy; empty: of the site's caches
	Pilot  PilotID // that found the copy bad
	Reason string
}

// Departure tells that a pilot left or died.
type Departure struct {
	Pilot  PilotID
	Dead   bool
	Reason string
}

// NodeMark tells that a worker node is set back: its payloads fail, and
// elsewhere they do not.
type NodeMark struct {
	Name   string
	Failed int           // different tasks in a row
	Pauses int           // in a row
	Left   time.Duration // of the pause; 0: it is on trial
	Why    string        // the last error
}

// Pause tells that a pilot takes no new work, or takes it again.
type Pause struct {
	Pilot PilotID
	Why   string // "": it takes work again
}

// Revoked names a task that the queue wants back.
type Revoked struct {
	Lease  LeaseID
	Task   ID
	Cancel bool // kill it if it runs; else return it if unstarted
}

// AckVerdict is the queue's judgement of an outcome.
type AckVerdict uint8

// Verdicts. Every verdict is final: the pilot may forget the outcome.
const (
	AckAccepted  AckVerdict = iota + 1
	AckDuplicate            // another attempt had won; booked as wasted
	AckStale                // generation or input attempt is not the winner's
	AckUnknown              // no such task
)

// Ack acknowledges one outcome.
type Ack struct {
	Attempt AttemptID
	Verdict AckVerdict
	Winner  AttemptID // of the task, when there is one
}

// Lease is a hand-out of tasks to a site.
type Lease struct {
	ID    LeaseID
	TTL   time.Duration // renewed by every Sync that lists it
	Tasks []LeasedTask
	// Files describes every input of the tasks.
	Files []File
}

// LeasedTask is one task of a lease.
type LeasedTask struct {
	Task       Task
	Generation uint32
	Number     int    // of the next attempt
	Age        uint64 // order over the whole queue; smaller is older
	// Avoid are nodes at which it has failed: others come first.
	Avoid []string
	// Blocked tells that some inputs are still to be made by tasks that this
	// site holds; the master decides when it may start.
	Blocked bool
}

// SiteSettings are what pilots need to know of their site and its peers.
type SiteSettings struct {
	Site       Site
	SE         string
	RemoteRead bool
	Mode       string
	ModeSince  uint64 // the larger, the later the mode came; a restored queue may begin again
	Draining   bool
	Trial      uint64         // that pilots of a fallen-back site are to answer; 0: none
	Secrets    StorageSecrets // open the storage elements that its pilots read and write
	SiteScheduling
}

// SiteScheduling is how a site's master matches tasks to pilots.
type SiteScheduling struct {
	RoundEvery   time.Duration // 0 means driven by events
	Prefill      int           // further tasks per slot
	Solver       string        // who gets which task; empty means greedy
	Rank         string        // of tasks that give none; empty means locality
	Replicate    string        // replica policies in their order; empty means none
	LocalityWait time.Duration // that a free slot leaves tasks to pilots that have their inputs; 0 is none
}

// Modes of a site in which the queue matches tasks to pilots.
const (
	ModeCentralized = "centralized"
	ModeIsolated    = "isolated"
)

// Central tells whether the queue matches tasks to pilots.
func (s SiteSettings) Central() bool { return s.Mode == ModeCentralized || s.Mode == ModeIsolated }
