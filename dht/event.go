package dht

import "github.com/pilotage-grid/pilotage/task"

// Event is an input of Step.
type Event interface{ event() }

// Joined starts the overlay after the registration with the queue.
type Joined struct {
	Self     Member
	Term     task.Term
	Master   Member   // Self when it is to be master
	Contacts []Member // random members of the site, for kad-dht to begin with
	// Signature of the term, by the queue; for the edge.
	Signature []byte
}

// Received is a message from another member.
type Received struct {
	From    task.PeerID
	Message Message
}

// Disconnected tells that the connection to a peer ended or that a message
// to it could not be sent.
type Disconnected struct{ Peer task.PeerID }

// Dialled answers a Dial. Refused tells that the other host says that nobody listens at
// the port there.
type Dialled struct {
	Peer        task.PeerID
	OK, Refused bool
}

// Routed tells of a member that kad-dht has taken into its routing table.
type Routed struct{ Member Member }

// Unrouted tells that kad-dht has taken one out.
type Unrouted struct{ Peer task.PeerID }

// LookedUp answers a Lookup with the members nearest to its key that answered;
// none: it failed. One that was Cut ran out of time: there may be nearer ones.
type LookedUp struct {
	Target  string
	Members []Member
	Cut     bool
}

// Denied tells which peers are no members any more.
type Denied struct{ Peers []task.PeerID }

// ClaimAnswer is the queue's answer to a Claim.
type ClaimAnswer struct {
	Reached bool // false: the queue could not be asked
	Granted bool
	Term    task.Term // granted, or of the master in office
	Master  Member
	Members []Member // the site's registered pilots, where granted
	// Signature of the term, by the queue; for the edge.
	Signature []byte
}

// Fenced tells a master that the queue refuses this term because another
// master is in office there. The master may have another term by now.
type Fenced struct{ Term task.Term }

// Broadcast asks to send bytes to every member. Done follows when Reply is
// set.
type Broadcast struct {
	N       uint64 // chosen by the caller, unique
	Payload []byte
	Reply   bool
}

// Reply answers a Deliver that wanted a reply.
type Reply struct {
	ID   CastID
	Data []byte
}

// SendApp asks to send bytes to one member.
type SendApp struct {
	To   task.PeerID
	Data []byte
}

// Redirect tells a member that others are nearer to a file than this one.
type Redirect struct {
	To   task.PeerID
	File task.FileKey
}

// Announce tells that this member holds files.
type Announce struct{ Files []task.FileKey }

// Withdraw tells that it no longer does.
type Withdraw struct{ Files []task.FileKey }

// Locate asks who holds files; Located follows. Whom the asker doubts is named, but where
// nobody else holds a file the search goes on.
type Locate struct {
	N       uint64
	Files   []task.FileKey
	Doubted []task.PeerID
}

// Leave ends the membership; Left follows when the rest of the site knows.
type Leave struct{}

// Tick lets time pass.
type Tick struct{}

func (Joined) event()       {}
func (Received) event()     {}
func (Disconnected) event() {}
func (Dialled) event()      {}
func (Routed) event()       {}
func (Unrouted) event()     {}
func (LookedUp) event()     {}
func (Redirect) event()     {}
func (Denied) event()       {}
func (ClaimAnswer) event()  {}
func (Fenced) event()       {}
func (Broadcast) event()    {}
func (Reply) event()        {}
func (SendApp) event()      {}
func (Announce) event()     {}
func (Withdraw) event()     {}
func (Locate) event()       {}
func (Leave) event()        {}
func (Tick) event()         {}

// Action is an output of Step.
type Action interface{ action() }

// Send asks to send a message. A failure comes back as Disconnected.
type Send struct {
	To      task.PeerID
	Message Message
}

// Dial asks to connect to a member and to answer with Dialled.
type Dial struct {
	Member Member
	// Afresh: an open connection does not count, it may hang.
	Afresh bool
}

// Lookup asks kad-dht for the members nearest to a key, which is the digest of the
// target, and wants a LookedUp.
type Lookup struct {
	Target  string
	Without []task.PeerID // are passed over
}

// Forget asks to take a dead peer out of the Kademlia routing table.
type Forget struct{ Peer task.PeerID }

// Claim asks the queue for the mastership and wants a ClaimAnswer.
type Claim struct {
	Expected task.Term // the mastership held for dead
	Resigned bool
	// Resignation is the old master's signature that it resigned, and Signature the
	// queue's that it had granted the term; edges add this.
	Resignation, Signature []byte
	Ballot                 uint64 // provisional ballot already in use, 0 if none
}

// Deliver hands a broadcast to the user.
type Deliver struct {
	ID      CastID
	From    task.PeerID // the root
	Payload []byte
	Reply   bool // a Reply event is wanted
}

// Done ends a broadcast with aggregated replies.
type Done struct {
	N       uint64
	Data    [][]byte
	Reached int
	Missed  []task.PeerID // members that did not get it, also not after repair
	Depth   int
	Peers   int // that one member sent to in the tree; the most
}

// Inbound hands a member's bytes to the user.
type Inbound struct {
	From task.PeerID
	Data []byte
}

// MasterChanged tells who is master now.
type MasterChanged struct {
	Term        task.Term
	Master      Member
	Self        bool
	Provisional bool // the queue has not granted it yet
	// Passed lists the members whom the own election found missing. Whether they
	// are dead is not known.
	Passed []Member
}

// PassedPilots lists the pilots whom the election found missing.
func (c MasterChanged) PassedPilots() (pilots []task.PilotID) {
	for _, m := range c.Passed {
		pilots = append(pilots, m.Pilot)
	}
	return pilots
}

// MemberUp tells the master of a new member.
type MemberUp struct{ Member Member }

// MemberDown tells the master that a member is gone.
type MemberDown struct {
	Member Member
	Left   bool // it said goodbye
	Reason string
}

// Located answers a Locate; files nobody holds are absent.
type Located struct {
	N       uint64
	Holders map[task.FileKey][]Holder
}

// Holder is who holds a file and where its data server is.
type Holder struct {
	Peer    task.PeerID
	DataURL string
}

// Left tells that the overlay has said its goodbyes.
type Left struct{}

func (Send) action()          {}
func (Dial) action()          {}
func (Lookup) action()        {}
func (Forget) action()        {}
func (Claim) action()         {}
func (Deliver) action()       {}
func (Done) action()          {}
func (Inbound) action()       {}
func (MasterChanged) action() {}
func (MemberUp) action()      {}
func (MemberDown) action()    {}
func (Located) action()       {}
func (Left) action()          {}
