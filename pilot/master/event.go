package master

import (
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// TookOffice makes a Master of a pilot's site.
type TookOffice struct {
	Term        task.Term
	Provisional bool // without the queue's word
	Settings    task.SiteSettings
	Leases      []task.Lease // the site's open leases
	Revoked     []task.Revoked
	Alone       bool // nobody else is known: no census needed
	// Missing lists members of whom nothing is known: they may be dead, or cut off.
	Missing []task.PilotID
	// Own tells that the office is for this pilot alone: the queue matches.
	Own bool
}

// PilotUp tells of a member, also of one that has reconnected.
type PilotUp struct {
	Pilot task.PilotID
	Peer  task.PeerID
}

// PilotDown tells that a member is gone.
type PilotDown struct {
	Pilot  task.PilotID
	Peer   task.PeerID
	Left   bool
	Reason string
}

// FromPilot is a message to the master.
type FromPilot struct {
	From    task.PeerID
	Message message.Message
}

// BroadcastDone brings the aggregated answers to a TaskList.
type BroadcastDone struct {
	N       uint64
	Answers []message.Answer
	Missed  []task.PeerID
}

// SyncAnswered brings the queue's answer to a Sync; Err is empty on success.
type SyncAnswered struct {
	N     uint64
	Reply task.SyncReply
	Err   string
	// Stale tells that the queue has a later term in office.
	Stale bool
	// CacheVersion is that of the cache summary that the queue has.
	CacheVersion uint64
	// Deposed tells a pilot that is its own master that the overlay has another one.
	Deposed bool
	// Named is the term of its overlay that such a pilot named in its call.
	Named task.Term
}

// CastList broadcasts a TaskList and wants a BroadcastDone.
type CastList struct {
	N    uint64
	List message.TaskList
}

// CallSync calls the queue and wants a SyncAnswered. A parked one that is
// still under way may be ended.
type CallSync struct {
	N    uint64
	Sync task.Sync
}

// Fenced tells that the queue has another master in office than by this term.
type Fenced struct{ Term task.Term }

// DenyPeers passes the queue's deny list on to the overlay.
type DenyPeers struct {
	Peers     []task.PeerID
	Signature []byte // the queue's
}
