package task

import (
	"encoding/base32"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// WorkflowID names a workflow: "w-" and 10 lower-case base32 characters.
type WorkflowID string

// ID names a task: "<workflow id>/<task name>", e.g. "w-abcdefghij/index[07]".
type ID string

// PilotID names a pilot: "p-" and 8 lower-case base32 characters.
type PilotID string

// PeerID is the libp2p peer id of a pilot in its text form; the overlay's
// Kademlia id is derived from it. The task and queue cores never look inside.
type PeerID string

// Site names a computing site, e.g. "siteA".
type Site string

// LeaseID numbers one hand-out of tasks to a site; unique within a queue for ever.
type LeaseID uint64

var (
	encoding  = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	siteForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+=:@-]{0,199}(\[[A-Za-z0-9._+=:@,-]{1,200}\])?$`)
	pilotForm = regexp.MustCompile(`^p-[a-z2-7]{8}$`)
	wflowForm = regexp.MustCompile(`^w-[a-z2-7]{10}$`)
)

// NewWorkflowID derives an id from at least 7 random bytes.
func NewWorkflowID(random []byte) WorkflowID {
	return WorkflowID("w-" + encoding.EncodeToString(random)[:10])
}

// NewPilotID derives an id from at least 5 random bytes.
func NewPilotID(random []byte) PilotID {
	return PilotID("p-" + encoding.EncodeToString(random)[:8])
}

// NewID joins a workflow and a task name.
func NewID(workflow WorkflowID, name string) ID { return ID(string(workflow) + "/" + name) }

// Workflow is the part of the id before the first slash.
func (id ID) Workflow() WorkflowID {
	workflow, _, _ := strings.Cut(string(id), "/")
	return WorkflowID(workflow)
}

// Name is the part of the id after the first slash; an id without one is the
// bare name of a task that belongs to no workflow yet.
func (id ID) Name() string {
	if _, name, bound := strings.Cut(string(id), "/"); bound {
		return name
	}
	return string(id)
}

// ParseID checks the form of a task id that came from outside.
func ParseID(text string) (ID, error) {
	workflow, name, found := strings.Cut(text, "/")
	if !found || !wflowForm.MatchString(workflow) || !nameForm.MatchString(name) {
		return "", fmt.Errorf("%q is not a task id: expected WORKFLOW/NAME such as w-abcdefghij/index[07]", text)
	}
	return ID(text), nil
}

// ParseWorkflowID checks the form of a workflow id that came from outside.
func ParseWorkflowID(text string) (WorkflowID, error) {
	if !wflowForm.MatchString(text) {
		return "", fmt.Errorf("%q is not a workflow id: expected w- and 10 characters of a-z2-7", text)
	}
	return WorkflowID(text), nil
}

// ParsePilotID checks the form of a pilot id that came from outside.
func ParsePilotID(text string) (PilotID, error) {
	if !pilotForm.MatchString(text) {
		return "", fmt.Errorf("%q is not a pilot id: expected p- and 8 characters of a-z2-7", text)
	}
	return PilotID(text), nil
}

// ParseSite checks the form of a site name that came from outside.
func ParseSite(text string) (Site, error) {
	if !siteForm.MatchString(text) {
		return "", fmt.Errorf("%q is not a site name: use 1 to 63 letters, digits, dots, underscores or dashes, first a letter or digit", text)
	}
	return Site(text), nil
}

// ValidName tells whether a task name has the allowed form: a word of at most
// 200 characters and, for a member of an expanded task, an index in brackets.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// Term numbers a mastership. Terms are ordered by Epoch, Ballot, Peer; only
// the queue raises the epoch, a site without queue raises the ballot.
type Term struct {
	Epoch  uint64
	Ballot uint64
	Peer   PeerID
}

// Compare returns -1, 0 or +1 in the order of terms.
func (t Term) Compare(other Term) int {
	switch {
	case t.Epoch != other.Epoch:
		return order(t.Epoch < other.Epoch)
	case t.Ballot != other.Ballot:
		return order(t.Ballot < other.Ballot)
	default:
		return strings.Compare(string(t.Peer), string(other.Peer))
	}
}

// Less tells whether t comes before other.
func (t Term) Less(other Term) bool { return t.Compare(other) < 0 }

// IsZero tells whether no mastership has been claimed yet.
func (t Term) IsZero() bool { return t == Term{} }

func (t Term) String() string {
	peer := string(t.Peer)
	if len(peer) > 6 {
		peer = peer[len(peer)-6:]
	}
	return fmt.Sprintf("%d.%d/%s", t.Epoch, t.Ballot, peer)
}

func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

// AttemptID identifies one execution of a task. It is the idempotency key of
// the attempt's outcome: the same id always means the same execution.
type AttemptID struct {
	Task       ID
	Generation uint32  // of the task, raised when its lost output must be made again
	Lease      LeaseID // under which the site ran it
	Pilot      PilotID
	Counter    uint64 // the pilot's own, never reused by it
}

// IsZero tells whether the id names no attempt.
func (a AttemptID) IsZero() bool { return a == AttemptID{} }

// String is a stable text form, unique per attempt, safe as a path segment
// after the task id: "<task>/g1-l42-p-abcdefgh-7".
func (a AttemptID) String() string { return string(a.Task) + "/" + a.Suffix() }

// AttemptOf returns the attempt of a task that has a Suffix; false if none can.
func AttemptOf(id ID, suffix string) (a AttemptID, ok bool) {
	parts := strings.SplitN(suffix, "-", 4)
	if len(parts) < 4 || parts[0] == "" || parts[1] == "" {
		return a, false
	}
	pilot, counter, _ := strings.Cut(parts[3], "-")
	generation, err1 := strconv.ParseUint(parts[0][1:], 10, 32)
	lease, err2 := strconv.ParseUint(parts[1][1:], 10, 64)
	number, err3 := strconv.ParseUint(counter, 10, 64)
	a = AttemptID{Task: id, Generation: uint32(generation), Lease: LeaseID(lease), Pilot: PilotID("p-" + pilot), Counter: number}
	return a, err1 == nil && err2 == nil && err3 == nil && pilotForm.MatchString(string(a.Pilot)) && a.Suffix() == suffix
}

// Suffix is the part of String after the task id.
func (a AttemptID) Suffix() string {
	return "g" + strconv.FormatUint(uint64(a.Generation), 10) +
		"-l" + strconv.FormatUint(uint64(a.Lease), 10) +
		"-" + string(a.Pilot) +
		"-" + strconv.FormatUint(a.Counter, 10)
}
