package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Submission is one part of a workflow. Parts of one submission carry the
// same Key and count up from 0; the last one seals the workflow. Sending a
// part again changes nothing.
type Submission struct {
	Key          string // client's idempotency key, "" on single-part submissions without retry
	Name         string
	By           Person
	Group        string // that the workflow is shared with
	Part         int
	More         bool        // further parts follow
	Tasks        []task.Task // ids with the workflow part left empty: "/name"
	Files        []task.File // external files, names unqualified
	Outputs      []string    // final outputs, unqualified
	AllowMissing bool        // inputs that nothing makes or registers keep their task BLOCKED
	// KeepIntermediates has files stay that are no final outputs.
	KeepIntermediates bool
	Fresh             bool            // do not take over results of an earlier run
	Workflow          task.WorkflowID // of an earlier part; checked when given
	Sent              task.Digest     // of the part as it was sent, compared when it is sent again
}

// Submitted answers a Submission.
type Submitted struct {
	Workflow task.WorkflowID
	Tasks    int
	Reused   int
	Existed  bool // the key was known: nothing was added
	// Again are tasks that an earlier run has done and that run again, because files
	// have gone that something needs that runs; AgainCPU is what they took then.
	Again    int
	AgainCPU time.Duration
}

// Registration is a pilot's request to join its site.
type Registration struct {
	Site task.Site
	Peer task.PeerID
	PilotDescription
	// Check tells that it only looks whether its node is fit: it is let in to
	// be reached by the site's pilots, and is none of them.
	Check   bool
	Overlay uint32 // protocol that it speaks with the site's pilots
}

// Registered answers a Registration.
type Registered struct {
	Wait     string // why it cannot be a member yet; "": it is one
	Pilot    task.PilotID
	Master   Contact   // the pilot itself when it is to be master; nobody for a check of an idle site
	Term     task.Term // of the master
	Contacts []Contact // random sample of live pilots
	Settings task.SiteSettings
	Denied   []task.PeerID
	NotAfter time.Time // of the membership certificate
}

// Contact is how to reach a pilot.
type Contact struct {
	Pilot     task.PilotID
	Peer      task.PeerID
	Addresses []string
	DataURL   string
}

// Claim asks for the mastership of a site.
type Claim struct {
	Site     task.Site
	Pilot    task.PilotID
	Expected task.Term // the mastership that the claimant holds for dead
	Signed   bool      // the queue's own signature of that was shown
	Resigned bool      // the old master resigned in favour of the claimant
	Ballot   uint64    // provisional ballot under which it already acts
	// BrokenOff is when the connection ended by which the master of the term
	// Expected was heard last; 0: it stands, or that is not known.
	BrokenOff Instant
}

// ClaimResult answers a Claim.
type ClaimResult struct {
	Granted bool
	Term    task.Term // granted, or of the master in office
	Master  Contact
	Why     string       // why it was granted, or refused; "" to who holds the office
	Leases  []task.Lease // the site's open leases, when granted
	Revoked []task.Revoked
	// Pilots are the others of the site that are registered and not known to be
	// gone, when granted: the new master looks for them.
	Pilots []Contact
	// Settings of the site, as they are now.
	Settings task.SiteSettings
}

// Delivery brings outcomes of pilots whose site has no master.
type Delivery struct {
	Site     task.Site
	Pilot    task.PilotID // who delivers, for whomever
	Outcomes []task.Outcome
	Stored   []task.Stored
}

// Leaving tells that a pilot goes.
type Leaving struct {
	Pilot  task.PilotID
	Site   task.Site
	Reason string
	// Resigns tells that it is the master and gives up its term.
	Resigns bool
	Term    task.Term
	// Unfinished tells that what it has stored may never be told.
	Unfinished bool
}

// Explanation says why a task is where it is.
type Explanation struct {
	State        TaskState
	Task         task.Task
	Missing      []MissingInput
	Sites        []SiteExplanation
	Ahead        int // READY tasks before it in its class
	BackoffUntil time.Duration
	Attempts     []Attempt
}

// MissingInput is an input that keeps a task BLOCKED.
type MissingInput struct {
	LFN      task.LFN
	Producer task.ID // "" if nothing makes it
	State    task.State
	Where    []task.Site // announced there, readable only there
	Why      string
}

// SiteExplanation says why one site runs or does not run a task.
type SiteExplanation struct {
	Site      task.Site
	Eligible  bool
	Why       string // why not, or what it waits for
	Quoted    string // goes on from Why with how tasks of anybody failed, for those who look after the site
	Pilots    int
	FreeSlots int
	Waiting   int
	Clauses   []task.ClauseCount
	Fallback  string // see SiteRecord
}

// NewGrant asks for an access token.
type NewGrant struct {
	Role    string
	Site    task.Site
	Label   string
	Expires time.Time
}
