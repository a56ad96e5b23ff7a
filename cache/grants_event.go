package cache

import "github.com/pilotage-grid/pilotage/task"

// Holder is a pilot that has a file, and where it serves it: an https:// URL
// without a path.
type Holder struct {
	Peer    task.PeerID
	DataURL string
}

// GrantEvent is an input of Grants.Step.
type GrantEvent interface{ grantEvent() }

// GrantAction is an output of Grants.Step.
type GrantAction interface{ grantAction() }

// Ask is a pilot's question whether it shall read a file from a storage
// element. Asking again means the same; it keeps its place in the queue.
type Ask struct {
	Key   task.FileKey
	From  task.PeerID
	Tried []task.PeerID // holders that could not give it the file
	// Number is repeated in the answers, so that one to a question that was
	// withdrawn is not taken for one to a newer question.
	Number uint64
}

// Renew is the sign of progress of a pilot that was granted the read.
type Renew struct {
	Key  task.FileKey
	From task.PeerID
}

// Ending is how a pilot's interest in a file ended.
type Ending uint8

// Endings.
const (
	GivenBack  Ending = iota // it wants the file no more, or cannot take it for want of room
	ReadFailed               // the storage element did not give it
	Arrived                  // it holds the file now
)

var endingNames = [...]string{"given back", "failed", "arrived"}

func (e Ending) String() string {
	if int(e) < len(endingNames) {
		return endingNames[e]
	}
	return "unknown ending"
}

// Finish ends a pilot's interest in a file.
type Finish struct {
	Key  task.FileKey
	From Holder
	End  Ending
}

// PeerGone tells that a pilot has left the site or died.
type PeerGone struct{ Peer task.PeerID }

// Tick lets time pass.
type Tick struct{}

func (Ask) grantEvent()      {}
func (Renew) grantEvent()    {}
func (Finish) grantEvent()   {}
func (PeerGone) grantEvent() {}
func (Tick) grantEvent()     {}

// Verdict is what the home of a file says about reading it.
type Verdict uint8

// Verdicts of a home.
const (
	Unanswered Verdict = iota // the home does not answer: read without a grant
	Granted                   // read it, show progress, say how it ended
	WaitFor                   // somebody reads it; another answer will follow
	PointedTo                 // the holders have it
	GivenUp                   // several pilots in a row could not read it
)

var verdictNames = [...]string{"unanswered", "granted", "wait", "pointed to", "given up"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown verdict"
}

// Answer is what the home tells a pilot that asked.
type Answer struct {
	To      task.PeerID
	Key     task.FileKey
	Number  uint64 // of the question, its latest when asked again
	Verdict Verdict
	Holders []Holder // when PointedTo
}

func (Answer) grantAction() {}
