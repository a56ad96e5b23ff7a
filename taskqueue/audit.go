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
	Kind    string // AuditSubmitted ...
	Person  string // who did it, or of an attempt whose work it was
	Token   string // id of the access that was shown
	Subject string // workflow, task, attempt, access, pilot, node, site or person
	Site    task.Site
	Node    string
	Pilot   task.PilotID
	Process int       // of an attempt, as in task.Outcome
	Job     string    // of the batch system, in which the pilot runs
	Started time.Time // of an attempt, by the clock of its node
	Ended   time.Time
	Note    string // how it ended, or why
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

// AuditRecord holds what one turn has done. Its digest covers that of the record before
// it, so none can be changed or taken out without all that follow.
type AuditRecord struct {
	At      uint64 // nanoseconds since 1970, later than any record before it
	Entries []AuditEntry
	Digest  [32]byte
}

// sum is the digest of a record after another one's.
func (a *AuditRecord) sum(before [32]byte) [32]byte {
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

// audit notes what the turn does; it is kept with it.
func (r *records) audit(e AuditEntry) {
	if e.Person == "" {
		e.Person, e.Token = r.By.Name, r.Token
	}
	r.audited = append(r.audited, e)
}

// Note keeps an entry on what was done beside the rules.
func (r *Rules) Note(t *Turn, e AuditEntry) (err error) {
	q := r.open(t)
	defer q.close(&err)
	q.audit(e)
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
func (r *records) auditAttempt(kind string, site task.Site, o *task.Outcome, state AttemptState) {
	e := AuditEntry{
		Kind: kind, Subject: o.Attempt.String(), Site: site, Pilot: o.Attempt.Pilot, Process: o.Process, Started: o.Started, Ended: o.Ended, Note: attemptNotes[state],
	}
	if w := r.workflows.one(o.Attempt.Task.Workflow()); w != nil {
		e.Person = w.Owner
	}
	if pilot := r.pilots.one(o.Attempt.Pilot); pilot != nil {
		e.Node, e.Job = pilot.Node(), pilot.BatchJob
	}
	switch {
	case e.Ended.IsZero():
		e.Ended = r.Wall
	case state == AttemptFailedState:
		e.Note += ": " + task.Brief(o.Reason)
	}
	r.audit(e)
}

var attemptNotes = [...]string{
	AttemptRunning: "runs", AttemptSucceeded: "succeeded", AttemptFailedState: "failed", AttemptLost: "its pilot is gone",
	AttemptDuplicate: "another attempt had won", AttemptRejected: "read an input that was not the winner's",
}

// saveAudit appends what the turn has done so far to the log.
func (r *records) saveAudit() {
	if len(r.audited) == 0 {
		return
	}
	last := read(r.Audit().Last())
	next := AuditRecord{At: max(last.At+1, uint64(max(0, r.Wall.UnixNano()))), Entries: r.audited}
	if last.At == 0 {
		last.Digest = r.auditBase()
	}
	next.Digest = next.sum(last.Digest)
	check(r.Audit().Append(next))
	r.audited = nil
}

// keepAudit is how long records are kept: WLCG asks sites and VOs to be able to say for
// 180 days who ran what.
const keepAudit = 180 * 24 * time.Hour

// metaAudit is the digest of the newest record that was dropped.
const metaAudit = "audit base"

func (r *records) auditBase() (digest [32]byte) {
	copy(digest[:], read(r.Meta().Get(metaAudit)))
	return digest
}

// auditPage is how many records are looked at in one turn.
const auditPage = 1000

// forgetAudit drops records that are older than they are kept for. The digest of the
// last one stays: the chain goes on from it.
func (r *records) forgetAudit() {
	old := uint64(max(0, r.Wall.Add(-keepAudit).UnixNano()))
	if oldest := read(r.Audit().After(0, 1)); len(oldest) == 0 || oldest[0].At >= old {
		return // as almost always: a page is much to read
	}
	page := read(r.Audit().After(0, auditPage))
	var gone []uint64
	for i := range page {
		if page[i].At >= old {
			break
		}
		gone = append(gone, page[i].At)
	}
	check(r.Meta().Set(metaAudit, page[len(gone)-1].Digest[:]))
	check(r.Audit().Delete(gone...))
}

// ErrAuditBroken tells that the audit log is not what was written.
var ErrAuditBroken = errors.New("the audit log is not what was written")

// AuditCheck is how far the chain of the audit log was verified.
type AuditCheck struct {
	Records, Entries int
	First, Last      uint64 // nanoseconds since 1970
	Digest           [32]byte
	more             bool
}

// VerifyAudit goes on with a check by one page of records; done tells that all have
// been looked at.
//
// Errors: ErrAuditBroken.
func (r *Rules) VerifyAudit(t *Turn, c *AuditCheck) (done bool, err error) {
	defer catch(&err)
	if !c.more {
		*c = AuditCheck{Digest: newRecords(t, &r.Config).auditBase(), more: true}
	}
	page := read(t.Audit().After(c.Last, auditPage))
	for i := range page {
		if page[i].Digest != page[i].sum(c.Digest) {
			end(fmt.Errorf("%w: the record of %s does not follow from the one before it", ErrAuditBroken, time.Unix(0, int64(page[i].At)).UTC().Format(time.RFC3339Nano)))
		}
		if c.First == 0 {
			c.First = page[i].At
		}
		c.Last, c.Digest = page[i].At, page[i].Digest
		c.Records, c.Entries = c.Records+1, c.Entries+len(page[i].Entries)
	}
	return len(page) < auditPage, nil
}

// AuditFilter says which entries are wanted; what is zero is any.
type AuditFilter struct {
	Kinds         []string
	Person        string
	Site          task.Site
	Node          string
	Pilot         task.PilotID
	At            time.Time // of attempts: those that ran then
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
		return !e.Started.IsZero() && !e.Started.After(f.At) && !e.Ended.Before(f.At)
	}
	return true
}
