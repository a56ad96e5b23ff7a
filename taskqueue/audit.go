package taskqueue

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// AuditEntry says what was done: by a person, or by a site's pilots.
type AuditEntry struct {
	Kind    string       `json:"kind"`              // AuditSubmitted ...
	Person  string       `json:"person,omitempty"`  // who did it, or of an attempt whose work it was
	Token   string       `json:"token,omitempty"`   // id of the access that was shown
	Subject string       `json:"subject,omitempty"` // workflow, task, attempt, access, pilot, node, site or person
	Site    task.Site    `json:"site,omitempty"`
	Node    string       `json:"node,omitempty"`
	Pilot   task.PilotID `json:"pilot,omitempty"`
	Process int          `json:"process,omitempty"` // of an attempt, as in task.Outcome
	Job     string       `json:"job,omitempty"`     // of the batch system, in which the pilot runs
	Started time.Time    `json:"started,omitzero"`  // of an attempt, by the clock of its node, to the millisecond
	Ended   time.Time    `json:"ended,omitzero"`
	Note    string       `json:"note,omitempty"` // how it ended, or why
}

// Kinds of entries.
const (
	AuditSubmitted  = "submitted"
	AuditCancelled  = "cancelled"
	AuditRetried    = "retried"
	AuditDeleted    = "deleted"    // a workflow or a file
	AuditRegistered = "registered" // a pilot
	AuditRan        = "ran"        // an attempt that was accepted, or was not and is told
	AuditLost       = "lost"       // an attempt whose pilot is gone
	AuditAccess     = "access created"
	AuditRevoked    = "revoked" // an access or a pilot
	AuditBanned     = "banned"
	AuditUnbanned   = "unbanned"
	AuditSite       = "site changed"
	AuditDrained    = "drained"
	AuditFiles      = "files registered"
	AuditAuthority  = "authority changed"
)

// AuditKinds are all of them.
var AuditKinds = []string{
	AuditSubmitted, AuditCancelled, AuditRetried, AuditDeleted, AuditRegistered, AuditRan, AuditLost, AuditAccess, AuditRevoked,
	AuditBanned, AuditUnbanned, AuditSite, AuditDrained, AuditFiles, AuditAuthority,
}

// AuditRecord holds what one turn has done. Its digest covers that of the record before
// it, so none can be changed or taken out without all that follow.
type AuditRecord struct {
	At      uint64 // nanoseconds since 1970, later than any record before it
	Entries []AuditEntry
	Digest  [32]byte
}

// Time is when the turn was.
func (a *AuditRecord) Time() time.Time { return time.Unix(0, int64(a.At)) }

// Sum is the digest of a record after another one's.
func (a *AuditRecord) Sum(before [32]byte) [32]byte {
	m := memoWriter{sum: before[:len(before):len(before)]}
	m.number(int64(a.At))
	m.number(int64(len(a.Entries)))
	for i := range a.Entries {
		e := &a.Entries[i]
		for _, text := range []string{e.Kind, e.Person, e.Token, e.Subject, string(e.Site), e.Node, string(e.Pilot), e.Note} {
			m.text(text)
		}
		if e.Job != "" { // which the first records did not have
			m.text("job")
			m.text(e.Job)
		}
		for _, n := range []int64{int64(e.Process), unixNano(e.Started), unixNano(e.Ended)} {
			m.number(n)
		}
	}
	return sha256.Sum256(m.sum)
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// auditing are the entries that a turn adds to the audit log.
type auditing struct {
	turn    *Turn
	entries []AuditEntry
}

// add notes what the turn does; it is kept with it.
func (a *auditing) add(e AuditEntry) {
	if e.Person == "" {
		e.Person, e.Token = a.turn.By.Name, a.turn.Token
	}
	a.entries = append(a.entries, e)
}

// Note keeps an entry on what was done beside the rules.
func (r *Rules) Note(t *Turn, e AuditEntry) (err error) {
	q := r.open(t)
	defer q.close(&err)
	q.audit.add(e)
	return nil
}

// changes tells which settings of a site are others than they were, and what they are.
func (s *SiteSettings) changes(before *SiteSettings) string {
	var changed []string
	is, was := reflect.ValueOf(s).Elem(), reflect.ValueOf(before).Elem()
	for i := range is.NumField() {
		if now := fmt.Sprint(is.Field(i)); now != fmt.Sprint(was.Field(i)) {
			changed = append(changed, is.Type().Field(i).Name+": "+now)
		}
	}
	return task.Brief(strings.Join(changed, "; "))
}

// auditAttempt notes where an attempt ran, and for whom.
func (j *outcomes) auditAttempt(kind string, site task.Site, o *task.Outcome, state AttemptState) {
	e := AuditEntry{
		Kind: kind, Subject: o.Attempt.String(), Site: site, Pilot: o.Attempt.Pilot, Process: o.Process, Started: o.Started, Ended: o.Ended, Note: attemptNotes[state],
	}
	if w := j.workflows.one(o.Attempt.Task.Workflow()); w != nil {
		e.Person = w.Owner
	}
	if pilot := j.pilots.one(o.Attempt.Pilot); pilot != nil {
		e.Node, e.Job = pilot.Node(), pilot.BatchJob
	}
	switch {
	case e.Ended.IsZero():
		e.Ended = j.Wall
	case state == AttemptFailedState:
		e.Note += ": " + task.Brief(o.Reason)
	}
	e.Started, e.Ended = e.Started.Truncate(time.Millisecond), e.Ended.Truncate(time.Millisecond)
	j.audit.add(e)
}

var attemptNotes = [...]string{
	AttemptRunning: "runs", AttemptSucceeded: "succeeded", AttemptFailedState: "failed", AttemptLost: "its pilot is gone",
	AttemptDuplicate: "its task was over already", AttemptRejected: "read an input that was not the winner's",
}

// save appends what the turn has done so far to the log.
func (a *auditing) save() {
	if len(a.entries) == 0 {
		return
	}
	last := read(a.turn.Audit().Last())
	next := AuditRecord{At: max(last.At+1, uint64(max(0, a.turn.Wall.UnixNano()))), Entries: a.entries}
	if last.At == 0 {
		last.Digest = auditBase(a.turn.Meta())
	}
	next.Digest = next.Sum(last.Digest)
	check(a.turn.Audit().Append(next))
	a.entries = nil
}

// KeepAudit is how long records are kept: WLCG asks sites and VOs to be able to say for
// 180 days who ran what.
const KeepAudit = 180 * 24 * time.Hour

// metaAudit is the digest of the newest record that has left the database.
const metaAudit = "audit base"

func auditBase(meta MetaTable) (digest [32]byte) {
	copy(digest[:], read(meta.Get(metaAudit)))
	return digest
}

const (
	// auditPage is how many records are looked at, or dropped, in one turn.
	auditPage = 200
	// closeEntries is how many entries leave the database at least, unless the oldest
	// is older than closeAfter: some 10 records of a large queue, a day of a small one.
	closeEntries = 10_000
	closeAfter   = 24 * time.Hour
)

// AuditSegment is a part of the log: records that follow each other.
type AuditSegment struct {
	Before  [32]byte // digest of the record before the first one
	Records []AuditRecord
}

// AuditAfter returns records of the database later than a time, oldest first, some at once.
func (r *Rules) AuditAfter(t *Turn, after uint64) (s AuditSegment, err error) {
	defer catch(&err)
	return AuditSegment{auditBase(t.Meta()), read(t.Audit().After(after, auditPage))}, nil
}

// AuditToClose returns the oldest records once they are to leave the database, none
// before. The newest record stays in it: the next one follows that.
func (r *Rules) AuditToClose(t *Turn) (s AuditSegment, err error) {
	defer catch(&err)
	entries, last, after := 0, read(t.Audit().Last()).At, uint64(0)
	for entries < closeEntries {
		page := read(t.Audit().After(after, auditPage))
		for i := range page {
			if page[i].At < last && entries < closeEntries {
				s.Records, entries, after = append(s.Records, page[i]), entries+len(page[i].Entries), page[i].At
			}
		}
		if len(page) < auditPage {
			break
		}
	}
	if len(s.Records) == 0 || entries < closeEntries && t.Wall.Sub(s.Records[0].Time()) < closeAfter {
		return AuditSegment{}, nil
	}
	s.Before = auditBase(t.Meta())
	return s, nil
}

// DropAudit takes records out of the database that were closed, up to a time; more tells
// that some are left.
func (r *Rules) DropAudit(t *Turn, last uint64) (more bool, err error) {
	defer catch(&err)
	page := read(t.Audit().After(0, auditPage))
	more = len(page) == auditPage
	if i := slices.IndexFunc(page, func(a AuditRecord) bool { return a.At > last }); i >= 0 {
		page, more = page[:i], false
	}
	if len(page) == 0 {
		return false, nil
	}
	gone := make([]uint64, len(page))
	for i := range page {
		gone[i] = page[i].At
	}
	check(t.Meta().Set(metaAudit, page[len(page)-1].Digest[:]))
	check(t.Audit().Delete(gone...))
	return more, nil
}

// ErrAuditBroken tells that the audit log is not what was written.
var ErrAuditBroken = errors.New("the audit log is not what was written")

// AuditCheck is how far the chain of the audit log was verified.
type AuditCheck struct {
	Records, Entries int
	First, Last      uint64 // nanoseconds since 1970
	Digest           [32]byte
}

// Follow goes on with a check; the first segment is that of the oldest records.
//
// Errors: ErrAuditBroken.
func (c *AuditCheck) Follow(s AuditSegment) error {
	if c.Records == 0 {
		c.Digest = s.Before
	}
	for i := range s.Records {
		a := &s.Records[i]
		if a.Digest != a.Sum(c.Digest) {
			return fmt.Errorf("%w: the record of %s does not follow from the one before it", ErrAuditBroken, a.Time().UTC().Format(time.RFC3339Nano))
		}
		if c.First == 0 {
			c.First = a.At
		}
		c.Last, c.Digest = a.At, a.Digest
		c.Records, c.Entries = c.Records+1, c.Entries+len(a.Entries)
	}
	return nil
}

// AuditFilter says which entries are wanted; what is zero is any.
type AuditFilter struct {
	Kinds         []string
	Person        string
	Site          task.Site
	Node          string
	Pilot         task.PilotID
	At, Until     time.Time // of attempts: those that ran at any time from one to the other
	Since, Before time.Time
}

// Wants tells whether an entry is wanted.
func (f *AuditFilter) Wants(e *AuditEntry) bool {
	switch {
	case f.Person != "" && e.Person != f.Person, f.Site != "" && e.Site != f.Site, f.Node != "" && e.Node != f.Node, f.Pilot != "" && e.Pilot != f.Pilot:
		return false
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind):
		return false
	case !f.At.IsZero():
		return !e.Started.IsZero() && !e.Started.After(f.Until) && !e.Ended.Before(f.At)
	}
	return true
}
