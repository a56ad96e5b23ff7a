package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Workflow is a submitted set of tasks.
type Workflow struct {
	ID        task.WorkflowID
	Name      string
	Owner     string // the person who submitted it
	Group     string // whose members use it as if it were theirs; Everybody may look; "" is the owner alone
	Key       string // the client's idempotency key, as Person.key makes it
	Created   time.Time
	Ended     time.Time     // zero while open
	Sealed    bool          // false until the last part of the submission arrived
	Parts     int           // parts received
	Sent      []task.Digest // what each part was, until the last has arrived
	Cancelled bool
	Reused    int                // tasks taken over as done from an earlier run of the same name
	Counts    map[task.State]int // tasks by state
	Outputs   []task.LFN         // final outputs
	Unstored  int                // final outputs that are on no storage element yet
	Held      map[task.Site]int  // of them, those that only caches have, by site
	Homeless  int                // of these, those at sites without a storage element
	Last      Instant            // of the newest part; unsealed workflows are dropped an hour later
	Closed    Instant            // when it was over; 0 while open

	WorkflowRetention `record:"inline"`
}

// WorkflowRetention is what becomes of a workflow when it is over.
type WorkflowRetention struct {
	Keep    bool // its user wants its intermediates kept
	Cleared bool // copies of its intermediates have gone
	Deleted bool // it is being cleared away: for users it is gone
	// SecondLook is when the folders of its tasks are to be looked through for a second
	// time for what nobody told; 0: not before a first time, or never.
	SecondLook Instant
}

// Total is the number of tasks.
func (w Workflow) Total() int {
	total := 0
	for _, n := range w.Counts {
		total += n
	}
	return total
}

// open is the number of tasks that have not ended.
func (w Workflow) open() int {
	return w.Counts[task.Blocked] + w.Counts[task.Ready] + w.Counts[task.Leased]
}

// Finished tells whether all tasks are done and all final outputs stored.
func (w Workflow) Finished() bool {
	return w.Sealed && w.Counts[task.Done] == w.Total() && w.Unstored == 0
}

// Over tells whether nothing will happen any more unless somebody retries it,
// gives a site a storage element, or a cache loses what it alone has.
func (w Workflow) Over() bool {
	if !w.Sealed {
		return false
	}
	if w.open() > 0 {
		return false
	}
	return w.Unstored == w.Homeless || w.Counts[task.Done] < w.Total()
}

// ClassID numbers an interned eligibility class.
type ClassID uint32

// Eligibility is an interned class of READY tasks: the set of sites that may
// run them, the one they prefer because most of their input bytes are there,
// and what they ask of a pilot, so that a class which no pilot of a site can
// run is passed over without looking at its tasks. What Key returns is unique
// among the interned; a store keeps every field.
type Eligibility struct {
	ID     ClassID
	Sites  []task.Site // sorted; nil means every site
	Prefer task.Site   // "" means none
	Final  bool        // final outputs come of them, which only sites with storage elements keep
	Work   task.Class  // requirement, rank and resources
}

// TaskState is the mutable half of a task; its description is a task.Task,
// stored apart because it never changes. Its groups are stored as if their fields were
// its own.
type TaskState struct {
	ID         task.ID
	Seq        uint64 // age: order of submission over the whole queue
	State      task.State
	Priority   int
	Generation uint32       // starts at 1
	Missing    int          // inputs that nobody can read yet
	Class      ClassID      // eligibility, meaningful while READY; of a bare task that waits to be sealed it may have gone
	NotBefore  Instant      // backoff: not handed out earlier
	Lease      task.LeaseID // while LEASED
	Site       task.Site    // while LEASED; after that, where it ended
	Number     int          // next attempt's display number
	Recalled   bool         // Site gave it back because another was to have it
	Remade     int          // generations opened because output was lost, since the last retry
	Winner     task.AttemptID
	Reason     string // why it is in this state, for people
	Upstream   task.ID
	Changed    time.Time
	// Past has for each site that it was leased to before the newest such lease,
	// newest last: attempts under that and earlier ones may still report.
	Past []PastLease

	TaskFaults `record:"inline"`
	TaskGraph  `record:"inline"`
}

// TaskFaults are how attempts of a task's generation have ended that did not make it.
type TaskFaults struct {
	Failures      int // attempts that failed by themselves
	Losses        int // that vanished with their pilot
	PilotFaults   int // that failed through their pilot's fault
	StorageFaults int // that failed because a storage element did not answer
	LostBeside    int // that Fates count of the Losses, with those of other tasks at the same pilots
}

// TaskGraph is what a task is in the graph of its workflow.
type TaskGraph struct {
	Bare    bool        // reads and makes no file: it depends on no other task
	Final   bool        // a final output of its workflow comes of it
	MemoKey task.Digest // what the task computes: equal keys, equal results; none if bare
}

// PastLease says to whom a generation of a task was leased.
type PastLease struct {
	Lease      task.LeaseID
	Generation uint32
	Site       task.Site
}

// FileRecord is the catalogue's entry of a file.
type FileRecord struct {
	task.File
	ProducerTask task.ID        // "" for an external file
	Final        bool           // a final output of its workflow
	Uses         int            // tasks that read it
	Lost         bool           // was made, has no holder and no replica any more
	Strikes      int            // copies of it that were bad since one was read
	Struck       bool           // its last copy on a storage element was bad: its maker does not store it again by itself
	Doubted      Doubt          // one node found its last copy bad
	Bad          []task.Replica // copies that were struck: to be deleted once there is a good one
	Shared       bool           // a later run has taken it over
	Going        Going          // its copies go
	Owner, Group string         // of who registered it for all first, or of the workflow that made it and has gone
	Learned      bool           // external: its digest is that of the first read, nobody gave it
	LearnedAt    task.Site      // the one site that has read it so; "" from when a second one agrees
}

// AttemptState of an attempt, as far as the queue knows.
type AttemptState uint8

// States of an attempt.
const (
	AttemptRunning AttemptState = iota + 1
	AttemptSucceeded
	AttemptFailedState
	AttemptLost      // its pilot died
	AttemptDuplicate // another attempt had won, or the task was cancelled
	AttemptRejected  // read an input that was not the winner's
)

// Attempt is one execution as reported.
type Attempt struct {
	State   AttemptState
	Outcome task.Outcome // Stdout and Stderr are kept apart, see LogTable
	Known   Instant
}

// Lease is one hand-out of tasks to a site.
type Lease struct {
	ID   task.LeaseID
	Site task.Site
	Term task.Term // of the master that got it
	// Pilot is the one that holds it in modes without master; "" is the site's
	// master, or nobody since the site's mode changed.
	Pilot   task.PilotID
	Expires Instant
	Open    int // tasks of it that are still LEASED
	Granted time.Time
}

// Revocation tells who holds a lease to drop a task, which may have been the last of
// it; it is repeated in every answer until it is confirmed, or nobody is there to do so.
type Revocation struct {
	Site   task.Site
	Lease  task.LeaseID
	Task   task.ID
	Pilot  task.PilotID // of the lease
	Cancel bool         // kill it if it runs; else a recall: return it if unstarted
}

// Mode says how a site schedules.
type Mode string

// Modes of a site (docs/decisions/0005-modes.md).
const (
	ModeDistributed Mode = "distributed" // its master matches the tasks of a hand-out
	ModeCentralized Mode = "centralized" // its pilots share files, the queue matches
	ModeIsolated    Mode = "isolated"    // its pilots share nothing, the queue matches
)

// Central tells whether the queue matches tasks to pilots.
func (m Mode) Central() bool { return m == ModeCentralized || m == ModeIsolated }

// SiteRecord is a site. Its groups are stored as if their fields were its own.
type SiteRecord struct {
	Name    task.Site
	Created time.Time

	SiteSettings `record:"inline"`
	SiteMode     `record:"inline"`
	SiteOffice   `record:"inline"`
	SiteMembers  `record:"inline"`
	SiteLoad     `record:"inline"`
	SiteCaches   `record:"inline"`
	SiteReports  `record:"inline"`
}

// SiteSettings are what an operator wants of a site.
type SiteSettings struct {
	SE         string      // URL of its storage element
	SEFiles    SEFiles     // what opens it
	RemoteRead bool        // may read other sites' storage elements
	Reach      []task.Site // whose; nil means all
	Mode       Mode        // as it is wanted; see InForce
	// RoundEvery is the fixed period of the task list; 0 means rounds are
	// driven by events.
	RoundEvery time.Duration
	// Prefill is how many further tasks a slot is given early; 0 means the
	// queue's default, NoPrefill none.
	Prefill int
	// LocalityWait is how long a free slot leaves tasks to pilots that have
	// their inputs; 0 means the queue's default, NoLocalityWait none.
	LocalityWait time.Duration
	Solver       string // as matcher.ParseSolver reads it; empty is greedy
	Rank         string // of tasks that give none; empty is locality
	Replicate    string // as replica.ParseChain reads it; empty is none
	// MinConfinement is how strictly its pilots have to confine payloads.
	MinConfinement task.Confinement
	Draining       bool
}

// SEFiles are where the queue's host has what a storage element asks for; each
// may be "".
type SEFiles struct {
	Token       string // bearer token
	Certificate string // of the client, with its key
	Authorities string // of the server's certificate
}

// SiteMode is how a site schedules at the moment, where it is not as an operator
// wants it.
type SiteMode struct {
	Fallback   string        // why it is isolated all the same; "": it is not
	ModeSince  Instant       // when the mode in force began
	Trial      Instant       // when the trial of a fallen-back site began that is under way; 0: none is
	TrialAt    Instant       // when the next one begins
	TrialPause time.Duration // before it, as before the last one of a fall-back that is over
	Orphans    bool          // leases of a master are open although the queue matches now
}

// SiteOffice is who is a site's master, and when it was heard.
type SiteOffice struct {
	Term     task.Term // of the accepted master
	Master   task.PilotID
	LastSync Instant // of its master
	LastPull Instant // of any pilot, in modes without master
	Resigned bool
	History  []Mastership // newest last, bounded
	Roll     uint64       // another one with every master that speaks for the site, and after every start of the queue
	RollAt   Instant      // since when its members are to be met by this Roll
}

// SiteMembers are a site's pilots and their nodes, as far as they are counted or
// marked.
type SiteMembers struct {
	Pilots     int            // live, from registrations, joins and leaves
	Registered int            // slots of the live pilots, from their registrations
	Denied     []task.PeerID  // peers whose membership was revoked, while it would be valid
	Drain      []task.PilotID // live pilots that an operator wants drained
	Strangers  []Stranger     // that its master speaks of and the queue does not know
	Silenced   []task.PilotID // taken for dead because it fell silent, since it was heard last
	Untold     Instant        // when it last had attempts, perhaps, of which nobody will tell
	DeadUntil  Instant        // declared end of its pilots that were taken for dead, of the latest
	Overlay    uint32         // protocol that its pilots speak with each other
	Nodes      []NodeRecord   // that its master has set back, by name, bounded
}

// SiteLoad is what a site can do, and what it has to do.
type SiteLoad struct {
	Capacity task.Capacity   // as last reported
	Leased   int             // tasks that are LEASED to the site
	Ahead    int             // of them, those with inputs still to be made
	Runs     []time.Duration // payload run times of the newest outcomes, oldest first, bounded
	Fates    Fates           // of the newest attempts
	Refused  []RefusedClass  // classes no live pilot can run
	// TaskBytes is what a task of the newest hand-out took in it, on average.
	TaskBytes int
}

// SiteCaches is how far the queue has come with files that only a site's caches
// have.
type SiteCaches struct {
	Check      bool     // caches may be all that has files which nobody stores by itself
	CheckAfter task.LFN // where looking for those files goes on
	CheckUntil Instant  // files whose makers reported them until then are looked for, too
	Forget     bool     // its caches are gone; files announced there are being forgotten
	ForgetAt   Instant  // until then they are looked for on its storage element
}

// SiteReports are a site's sums, and which report they were last added from.
type SiteReports struct {
	Sums       SiteSums
	ReportTerm task.Term // of the newest report of storage reads,
	ReportSeq  uint64    // and its number
}

// Stranger is a pilot that the queue does not know.
type Stranger struct {
	Pilot task.PilotID
	At    Instant // when it was heard of first
}

// NoPrefill as SiteRecord.Prefill: slots get a task only when they are free.
const NoPrefill = -1

// NoLocalityWait as SiteRecord.LocalityWait: a free slot takes any task.
const NoLocalityWait time.Duration = -1

// Mastership is one line of a site's master history.
type Mastership struct {
	Term  task.Term
	Pilot task.PilotID
	Since time.Time
	Why   string // first pilot, claim, re-registration
}

// RefusedClass is a class that a site gave back: no live pilot can run it.
type RefusedClass struct {
	Class   task.Class
	Clauses []task.ClauseCount
	Pilots  int // live pilots asked
	At      Instant
}

// SourceSums counts reads by source.
type SourceSums struct {
	Reads [4]uint64 // by task.Source
	Bytes [4]uint64
}

// DelayBuckets are upper bounds, in seconds, of the inter-task delay
// histogram; one more bucket counts the rest.
var DelayBuckets = []float64{
	.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 300,
}

// SiteSums are a site's running totals, from accepted outcomes.
type SiteSums struct {
	Intermediate SourceSums // reads of files made by tasks
	External     SourceSums // reads of files that came from outside
	Tasks        uint64     // accepted outcomes
	Failures     uint64
	Duplicates   uint64
	Wasted       time.Duration // run time of duplicates and lost attempts
	Busy         time.Duration // payload run time
	SEReads      uint64        // reads from this site's storage element by pilots, from pilots' reports
	SEReadBytes  uint64
	Replicas     task.ReplicaSum // that its replica policies have had made
	DelayCount   uint64
	DelaySum     time.Duration
	DelayBucket  []uint64          // len(DelayBuckets)+1
	Requests     uint64            // queue requests of this site's pilots
	Methods      map[string]uint64 // the same by method
	StaleTerms   uint64
}

// PilotState of a pilot.
type PilotState uint8

// States of a pilot.
const (
	PilotAlive PilotState = iota + 1
	PilotDraining
	PilotLeft
	PilotDead
)

var pilotStateNames = [...]string{PilotAlive: "alive", PilotDraining: "draining", PilotLeft: "left", PilotDead: "dead"}

func (s PilotState) String() string {
	if int(s) < len(pilotStateNames) && s > 0 {
		return pilotStateNames[s]
	}
	return "unknown"
}

// PilotRecord is a registered pilot. What it says of itself is stored as if the fields
// were its own.
type PilotRecord struct {
	ID   task.PilotID
	Peer task.PeerID
	Site task.Site

	PilotDescription `record:"inline"`

	State      PilotState
	Registered time.Time // first
	Since      Instant   // of its last registration
	Met        uint64    // its site's Roll when a master met it last; 0: none has
	Certified  time.Time // end of the longest membership certificate that it got
	Ended      time.Time
	Drain      bool   // an operator wants it drained
	Reason     string // why it left or is taken for dead
	Stopped    string // why it takes no new work; "" while it does
	Call       uint64 // number of its newest call that told more than its state
	ReportSeq  uint64 // number of its newest own report of storage reads
	// Unreachable: no other pilot can be reached from it, or none reaches it,
	// by its own word; see Rules.Unreachable.
	Unreachable bool
	SpokeAt     Instant   // when it said so last
	Sums        PilotSums // of what it did
	Tried       Instant   // the last trial that it has answered, by reaching the others or being Unreachable
}

// PilotDescription is what a pilot says of itself when it registers.
type PilotDescription struct {
	Addresses []string // libp2p multiaddresses
	DataURL   string   // https://host:port of its data server
	Host      string
	Resources task.Resources
	Slots     int
	Features  []string
	Walls     task.Walls
	Version   string
	Ends      time.Time // end of its declared lifetime
	Job       string    // a factory's name of its job, by its access; "" for pilots of others
	BatchJob  string    // the batch system's id of its job
	Token     string    // id of the access with which it registered
}

// PilotSums are sums over the accepted outcomes of a pilot's attempts.
type PilotSums struct {
	Done      uint64
	Failed    uint64
	Reads     uint64 // inputs
	Local     uint64 // of them, from its own cache
	Peer      uint64 // and from other pilots'
	LastError string // of its newest failed attempt
}

// add adds an outcome.
func (s *PilotSums) add(o *task.Outcome) {
	if o.OK {
		s.Done++
	} else {
		s.Failed++
		s.LastError = task.Brief(o.Reason)
	}
	for i := range o.Reads {
		s.Reads++
		switch o.Reads[i].Source {
		case task.SourceLocal:
			s.Local++
		case task.SourcePeer:
			s.Peer++
		}
	}
}

// Grant is what the queue keeps of an access token; never the token itself.
type Grant struct {
	ID      string
	Hash    [32]byte // of the secret
	Role    string   // admin, submit, pilot or factory
	Site    task.Site
	Label   string
	Person  string   // whose it is; see Grant.Holder
	Groups  []string // of the person
	Created time.Time
	Expires time.Time
	Revoked bool
	Once    bool        // good for the registration of one pilot
	Job     string      // of a factory, whose pilot it is for
	UsedBy  task.PeerID // the pilot that registered with it, if Once
}
