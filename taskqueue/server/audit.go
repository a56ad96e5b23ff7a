package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// auditScan is how many records one call looks at.
	auditScan = 2000
	// longestAttempt bounds how much later than a time an attempt that ran then is
	// booked: pilots live for a day or two, and outcomes may wait for the queue.
	longestAttempt = 7 * 24 * time.Hour
)

// auditFilter reads which entries are wanted. An operator gets those of the own site.
func auditFilter(c caller, in *pb.ListAuditRequest) (taskqueue.AuditFilter, error) {
	f := taskqueue.AuditFilter{
		Kinds: in.GetKinds(), Person: in.GetPerson(), Site: task.Site(in.GetSite()), Node: in.GetNode(), Pilot: task.PilotID(in.GetPilot()),
		At: taskpb.FromTime(in.GetAt()), Since: taskpb.FromTime(in.GetSince()), Before: taskpb.FromTime(in.GetBefore()),
	}
	if c.kind == operator && f.Site == "" {
		f.Site = c.site
	}
	if !f.At.IsZero() {
		f.Since, f.Before = f.At, f.At.Add(longestAttempt)
	}
	return f, c.of(string(f.Site))
}

// ListAudit tells from the audit log who did what, and which attempts ran where.
func (h *siteHandlers) ListAudit(ctx context.Context, in *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	size, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	f, err := auditFilter(callerOf(ctx), in)
	if err != nil {
		return nil, err
	}
	after, err := numberToken("audit", in.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &pb.ListAuditResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		if after == 0 && !f.At.IsZero() {
			if err := runningThen(t, &f, out); err != nil {
				return err
			}
		}
		if !f.Since.IsZero() {
			after = max(after, uint64(max(1, f.Since.UnixNano()))-1)
		}
		records, err := t.Audit().After(after, auditScan)
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		for i := range records {
			at := time.Unix(0, int64(records[i].At))
			if !f.Before.IsZero() && !at.Before(f.Before) {
				return nil
			}
			for j := range records[i].Entries {
				if e := &records[i].Entries[j]; f.Wants(e) {
					out.Entries = append(out.Entries, auditEntry(at, e))
				}
			}
			if len(out.Entries) >= size || i == auditScan-1 {
				out.NextPageToken = pageToken("audit", strconv.FormatUint(records[i].At, 10))
				return nil
			}
		}
		return nil
	})
}

// runningThen adds the attempts that have not ended.
func runningThen(t *taskqueue.Turn, f *taskqueue.AuditFilter, out *pb.ListAuditResponse) error {
	pilots, err := t.Pilots().OfSite(f.Site, taskqueue.PilotAlive, taskqueue.PilotDraining)
	if err != nil {
		return fmt.Errorf("load pilots: %w", err)
	}
	for i := range pilots {
		p := &pilots[i]
		if f.Node != "" && p.Node() != f.Node || f.Pilot != "" && p.ID != f.Pilot {
			continue
		}
		running, err := t.Attempts().RunningAt(p.ID)
		if err != nil {
			return fmt.Errorf("load what runs at %s: %w", p.ID, err)
		}
		for j := range running {
			o := &running[j].Outcome
			owner, err := first(t.Workflows().Load(o.Attempt.Task.Workflow()))
			if err != nil {
				return err
			}
			e := taskqueue.AuditEntry{
				Kind: "runs", Subject: o.Attempt.String(), Site: p.Site, Node: p.Node(), Pilot: p.ID, Job: p.BatchJob, Process: o.Process, Started: o.Started, Ended: t.Wall,
			}
			if owner != nil {
				e.Person = owner.Owner
			}
			if f.Wants(&e) {
				e.Ended = time.Time{}
				out.Entries = append(out.Entries, auditEntry(t.Wall, &e))
			}
		}
	}
	return nil
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
	for done := false; !done; {
		err := h.server.turns.view(ctx, func(t *taskqueue.Turn) (err error) {
			done, err = h.server.turns.rules.VerifyAudit(t, &check)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	out := &pb.VerifyAuditResponse{Records: int64(check.Records), Entries: int64(check.Entries), Digest: check.Digest[:]}
	if check.Records > 0 {
		out.First, out.Last = timestamppb.New(time.Unix(0, int64(check.First))), timestamppb.New(time.Unix(0, int64(check.Last)))
	}
	return out, nil
}
