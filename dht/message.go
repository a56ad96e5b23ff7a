package dht

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Message is what one member's overlay sends to another's. Messages between
// two members arrive in order or not at all.
type Message interface{ message() }

// Hello introduces a member to its master.
type Hello struct {
	Member Member
}

// Welcome answers a Hello: the master knows the sender.
type Welcome struct {
	Missed bool   // it was taken for gone before
	Denial Denial // the edges add and check it
}

// Office says who is master, to someone who holds another for it.
type Office struct {
	Term   task.Term
	Master Member
	Grant  Grant // the edges add and check it
}

// Grant is the queue's signature of a term: who got the epoch.
type Grant struct {
	Peer      task.PeerID
	Signature []byte
}

// Denial is the queue's deny list of the site, and its signature.
type Denial struct {
	Peers     []task.PeerID
	Signature []byte
}

// MasterDead nudges the best candidate to look for itself and claim.
type MasterDead struct {
	Term task.Term
}

// Ping asks for a sign of life.
type Ping struct{ N uint64 }

// Pong gives it.
type Pong struct{ N uint64 }

// Bye tells that the sender leaves.
type Bye struct {
	// Resigns is the term that a master gives up; the edge signs it.
	Resigns task.Term
	// Resignation is that signature, as others receive it.
	Resignation []byte
}

// CastID names a broadcast.
type CastID struct {
	Root task.PeerID
	N    uint64
}

// CastKind says what a broadcast is for.
type CastKind uint8

// Kinds of broadcast.
const (
	CastBeat    CastKind = iota + 1 // a master's sign of life
	CastPayload                     // the user's bytes
)

// Cast carries a broadcast to a member, who covers a range of the key space.
type Cast struct {
	ID      CastID
	Kind    CastKind
	Term    task.Term
	Master  Member
	Space   Range
	Path    []uint64      // Key.Short of the members above, root first
	Budget  time.Duration // in which replies are awaited
	Reply   bool          // an aggregated reply is wanted
	Gone    []task.PeerID // members that died or left lately, in a beat
	Suspect []task.PeerID
	Payload []byte
	Grant   Grant  // as in Office
	Denial  Denial // as in Welcome, in a beat
}

// CastAck confirms the receipt of a Cast.
type CastAck struct {
	ID    CastID
	Space Range
}

// CastReply brings the aggregated replies of a range back.
type CastReply struct {
	ID      CastID
	Space   Range
	Data    [][]byte // merged replies
	Reached []uint64 // Key.Short of the members that got the broadcast
	Suspect []task.PeerID
	Depth   int // greatest depth below
	Peers   int // that the sender, or a member below, sent it to; the most
}

// Record is the location of one file at one holder. Its writer is the holder;
// the highest sequence number wins.
type Record struct {
	File    task.FileKey
	Holder  task.PeerID
	DataURL string
	Seq     uint64
	Gone    bool          // withdrawn
	TTL     time.Duration // left
}

// Put writes locations.
type Put struct {
	N       uint64
	Records []Record
	Sure    bool // the sender knows who is nearest
}

// PutAck confirms a Put, and names those that are nearest to its files.
type PutAck struct {
	N      uint64
	Near   []Member
	Passed []uint64 // by place, the records that the others of the nearest were given
}

// Find asks for locations.
type Find struct {
	N     uint64
	Files []task.FileKey
	Sure  bool // the sender knows who is nearest
}

// Found answers a Find with every location known of the files asked for, and names
// those that are nearest to them.
type Found struct {
	N       uint64
	Records []Record
	Near    []Member
}

// Near names members that are nearer to a file's key than who was asked.
type Near struct{ Members []Member }

// App carries the user's bytes from member to member.
type App struct{ Data []byte }

func (Hello) message()      {}
func (Welcome) message()    {}
func (Office) message()     {}
func (MasterDead) message() {}
func (Ping) message()       {}
func (Pong) message()       {}
func (Bye) message()        {}
func (Cast) message()       {}
func (CastAck) message()    {}
func (CastReply) message()  {}
func (Put) message()        {}
func (PutAck) message()     {}
func (Find) message()       {}
func (Found) message()      {}
func (Near) message()       {}
func (App) message()        {}
