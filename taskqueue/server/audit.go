package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
)

// longestAttempt bounds how much later than a time an attempt that ran then is booked:
// pilots live for a day or two, and outcomes may wait for the queue.
const longestAttempt = 7 * 24 * time.Hour

// auditScan is how many records one call looks at.
const auditScan = 2000

// audits are the whole audit log: what is in the store, and the older part in files.
type audits struct {
	turns  *turns
	config *Config
	closed *auditlog.Closed
}

func (s *Server) audits() *audits { return &audits{s.turns, &s.config, s.turns.closed} }

// after returns the oldest records later than a time, some at once.
func (a *audits) after(ctx context.Context, at uint64) (taskqueue.AuditSegment, error) {
	open, err := seen(ctx, a.turns, func(t *taskqueue.Turn) (taskqueue.AuditSegment, error) { return a.turns.rules.AuditAfter(t, at) })
	if err != nil {
		return open, err
	}
	// What has left the store until now is in files by now.
	closed, err := a.closed.After(at)
	if err != nil || len(closed.Records) > 0 {
		return closed, err
	}
	return open, nil
}

// runClosing moves what is old enough from the store to files, until ctx ends.
func (a *audits) runClosing(ctx context.Context) error {
	return a.config.every(ctx, a.config.Timing.CloseAudit, "the audit log stays in the database", a.close)
}

// close writes files of old records, and takes out of the store what files have.
func (a *audits) close(ctx context.Context) error {
	for {
		last, err := a.closed.Last()
		for more := err == nil; more && err == nil; {
			more, err = changed(ctx, a.turns, func(t *taskqueue.Turn) (bool, error) { return a.turns.rules.DropAudit(t, last) })
		}
		if err != nil {
			return err
		}
		old, err := seen(ctx, a.turns, a.turns.rules.AuditToClose)
		if err != nil {
			return err
		}
		if len(old.Records) == 0 {
			return a.closed.Drop(taskqueue.KeepAudit)
		}
		if err := a.closed.Add(old); err != nil {
			return fmt.Errorf("write a part of the audit log: %w", err)
		}
	}
}

// setAside takes files out of the log that the store knows nothing of: it is a backup
// that was put back.
func (a *audits) setAside(ctx context.Context) error {
	last, err := seen(ctx, a.turns, func(t *taskqueue.Turn) (taskqueue.AuditRecord, error) { return t.Audit().Last() })
	if err != nil {
		return err
	}
	names, err := a.closed.SetAside(last.At)
	if len(names) > 0 {
		a.config.Log.Warn("parts of the audit log are later than the database, and no parts of it any more", "files", names)
	}
	return err
}

// auditFilter reads which entries are wanted. An operator gets those of the own site.
func auditFilter(c caller, in *pb.ListAuditRequest) (taskqueue.AuditFilter, error) {
	f := taskqueue.AuditFilter{
		Kinds: in.GetKinds(), Person: in.GetPerson(), Site: task.Site(in.GetSite()), Node: in.GetNode(), Pilot: task.PilotID(in.GetPilot()),
		At: taskpb.FromTime(in.GetAt()), Until: taskpb.FromTime(in.GetUntil()), Since: taskpb.FromTime(in.GetSince()), Before: taskpb.FromTime(in.GetBefore()),
	}
	for _, kind := range f.Kinds {
		if !slices.Contains(taskqueue.AuditKinds, kind) {
			return f, invalid("the audit log has no kind %q: give %s", kind, strings.Join(taskqueue.AuditKinds, ", "))
		}
	}
	if c.kind == operator && f.Site == "" {
		f.Site = c.site
	}
	if !f.At.IsZero() {
		if f.Until.Before(f.At) {
			f.Until = f.At
		}
		f.Since, f.Before = f.At, f.Until.Add(longestAttempt)
	}
	return f, c.of(string(f.Site))
}

// ListAudit tells from the audit log who did what, and which attempts ran where.
func (h *siteHandlers) ListAudit(ctx context.Context, in *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	size, after, err := pageAsked("audit", in)
	if err != nil {
		return nil, err
	}
	f, err := auditFilter(callerOf(ctx), in)
	if err != nil {
		return nil, err
	}
	from, err := auditPlaceOf(after)
	if err != nil {
		return nil, err
	}
	list := &auditPage{filter: f, room: pageRoom{entries: size}, out: &pb.ListAuditResponse{}}
	if from.after == 0 && !f.At.IsZero() {
		if err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error { list.running(t, from); return nil }); err != nil || list.full() {
			return list.out, err
		}
	}
	if !f.Since.IsZero() && from.after == 0 {
		from = auditPlace{after: uint64(max(1, f.Since.UnixNano())) - 1}
	}
	log := h.server.audits()
	for looked := 0; ; {
		some, err := log.after(ctx, from.after)
		if err != nil || len(some.Records) == 0 {
			return list.out, err
		}
		for i := range some.Records {
			record := &some.Records[i]
			if !f.Before.IsZero() && !record.Time().Before(f.Before) {
				return list.out, nil
			}
			for j := min(from.skip, len(record.Entries)); j < len(record.Entries); j++ {
				if e := &record.Entries[j]; f.Wants(e) && !list.add(record.Time(), e, auditPlace{after: from.after, skip: j}) {
					return list.out, nil
				}
			}
			from = auditPlace{after: record.At}
			if looked++; looked >= auditScan {
				list.out.NextPageToken = from.token()
				return list.out, nil
			}
		}
	}
}

// auditPlace is where a page of the audit log begins: with what runs at pilots, or with
// the records later than a time, of whose first some entries were told.
type auditPlace struct {
	after uint64
	pilot task.PilotID // the last whose attempts were told
	skip  int          // attempts of the next pilot, or entries of the next record
}

func (p auditPlace) token() string {
	return pageToken("audit", fmt.Sprintf("%d %d %s", p.after, p.skip, p.pilot))
}

func auditPlaceOf(text string) (p auditPlace, err error) {
	if text == "" {
		return p, nil
	}
	after, rest, _ := strings.Cut(text, " ")
	skip, pilot, whole := strings.Cut(rest, " ")
	at, err1 := strconv.ParseUint(after, 10, 62)
	skipped, err2 := strconv.ParseUint(skip, 10, 31)
	if !whole || err1 != nil || err2 != nil {
		return p, errPageToken()
	}
	return auditPlace{after: at, skip: int(skipped), pilot: task.PilotID(pilot)}, nil
}

// auditPage is one answer about the audit log.
type auditPage struct {
	filter taskqueue.AuditFilter
	room   pageRoom
	out    *pb.ListAuditResponse
}

func (p *auditPage) full() bool { return p.out.GetNextPageToken() != "" }

// add tells of an entry, or if there is no room says that the next page begins with it.
func (p *auditPage) add(at time.Time, e *taskqueue.AuditEntry, place auditPlace) bool {
	told := auditEntry(at, e)
	if !p.room.takes(told) {
		p.out.NextPageToken = place.token()
		return false
	}
	p.out.Entries = append(p.out.Entries, told)
	return true
}

// running adds the attempts that have not ended.
func (p *auditPage) running(t *taskqueue.Turn, from auditPlace) {
	for {
		pilots := taskqueue.Read(t.Pilots().List(from.pilot, loadedAtOnce))
		for i := range pilots {
			if p.runningAt(t, &pilots[i], from); p.full() {
				return
			}
			from = auditPlace{pilot: pilots[i].ID}
		}
		if len(pilots) < loadedAtOnce {
			return
		}
	}
}

func (p *auditPage) runningAt(t *taskqueue.Turn, at *taskqueue.PilotRecord, from auditPlace) {
	f := &p.filter
	if !at.State.Present() || f.Site != "" && at.Site != f.Site || f.Node != "" && at.Node() != f.Node || f.Pilot != "" && at.ID != f.Pilot {
		return
	}
	running := taskqueue.Read(t.Attempts().RunningAt(at.ID))
	for j := min(from.skip, len(running)); j < len(running); j++ {
		o := &running[j].Outcome
		owner := loadWorkflow(t, o.Attempt.Task.Workflow())
		e := taskqueue.AuditEntry{
			Kind: "runs", Subject: o.Attempt.String(), Site: at.Site, Node: at.Node(), Pilot: at.ID, Job: at.BatchJob, Process: o.Process, Started: o.Started, Ended: t.Wall,
		}
		if owner != nil {
			e.Person = owner.Owner
		}
		if !f.Wants(&e) {
			continue
		}
		e.Ended = time.Time{}
		if !p.add(t.Wall, &e, auditPlace{pilot: from.pilot, skip: j}) {
			return
		}
	}
}

func auditEntry(at time.Time, e *taskqueue.AuditEntry) *pb.AuditEntry {
	return &pb.AuditEntry{
		At: timestamppb.New(at), Kind: e.Kind, Person: e.Person, Access: e.Token, Subject: e.Subject, Site: string(e.Site), Node: e.Node,
		Pilot: string(e.Pilot), BatchJob: e.Job, Process: int64(e.Process), Started: taskpb.Time(e.Started), Ended: taskpb.Time(e.Ended), Note: e.Note,
	}
}

// VerifyAudit compares the whole log with its digests.
func (h *siteHandlers) VerifyAudit(ctx context.Context, _ *pb.VerifyAuditRequest) (*pb.VerifyAuditResponse, error) {
	var check taskqueue.AuditCheck
	log := audits{h.server.turns, &h.server.config, auditlog.In(h.server.config.DataDir)} // as the files are now
	for {
		some, err := log.after(ctx, check.Last)
		if err == nil {
			err = check.Follow(some)
		}
		if err != nil {
			return nil, err
		}
		if len(some.Records) == 0 {
			break
		}
	}
	out := &pb.VerifyAuditResponse{Records: int64(check.Records), Entries: int64(check.Entries), Digest: check.Digest[:]}
	if check.Records > 0 {
		out.First, out.Last = timestamppb.New(time.Unix(0, int64(check.First))), timestamppb.New(time.Unix(0, int64(check.Last)))
	}
	return out, nil
}
