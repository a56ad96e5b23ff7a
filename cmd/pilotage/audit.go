package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// moment reads a time: RFC 3339, "2006-01-02 15:04:05" in UTC, or how long ago, as 2h or 3d.
func moment(text string, now time.Time) (*timestamppb.Timestamp, error) {
	for _, form := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return timestamppb.New(at), nil
		}
	}
	ago, err := parseLife(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no time: write e.g. 2026-11-24T13:05:00Z, \"2026-11-24 13:05\" (UTC), or 2h ago as 2h", text)
	}
	return timestamppb.New(now.Add(-ago)), nil
}

func auditRow(e *pb.AuditEntry) []any {
	when := func(at *timestamppb.Timestamp) string {
		if at == nil {
			return ""
		}
		return at.AsTime().Format(inUTC)
	}
	process := ""
	if e.GetProcess() != 0 {
		process = fmt.Sprint(e.GetProcess())
	}
	return []any{
		when(e.GetAt()), e.GetKind(), e.GetPerson(), e.GetSubject(), e.GetSite(), e.GetNode(), e.GetPilot(), process, e.GetBatchJob(),
		when(e.GetStarted()), when(e.GetEnded()), e.GetNote(),
	}
}

func (a *app) printAudit(ctx context.Context, c *clients, request *pb.ListAuditRequest) error {
	list, err := everyPage(ctx, c.sites.ListAudit, request, (*pb.ListAuditResponse).GetEntries)
	if err != nil {
		return err
	}
	return printList(a.out, list, []string{"AT", "WHAT", "PERSON", "SUBJECT", "SITE", "NODE", "PILOT", "PROCESS", "JOB", "STARTED", "ENDED", "NOTE"}, auditRow)
}

func newSiteTrace(a *app) *cobra.Command {
	request := &pb.ListAuditRequest{}
	var at string
	command := a.tool("trace", "Say whose work ran at a node at a time, under which pilot, process and batch job", func(ctx context.Context, c *clients, _ []string) error {
		return a.printAudit(ctx, c, request)
	})
	command.PreRunE = func(*cobra.Command, []string) (err error) {
		request.At, err = moment(at, time.Now())
		return usage(err)
	}
	flags := command.Flags()
	flags.StringVar(&request.Node, "node", "", "node, as pilot list calls it (default: all)")
	flags.StringVar(&request.Site, "site", "", "site (default: all)")
	flags.StringVar(&at, "time", "", "when it ran: a time, or how long ago")
	_ = command.MarkFlagRequired("time")
	return command
}

func newAccessAudit(a *app) *cobra.Command {
	request := &pb.ListAuditRequest{}
	var since string
	verify := false
	command := a.tool("audit", "Show the audit log, or verify it", func(ctx context.Context, c *clients, _ []string) error {
		if !verify {
			return a.printAudit(ctx, c, request)
		}
		reply, err := c.sites.VerifyAudit(ctx, &pb.VerifyAuditRequest{})
		if refusal(err) == "AUDIT_BROKEN" {
			return coded(exitFailed, "%w", err)
		} else if err != nil {
			return err
		}
		return a.out.done(reply, "the audit log is as it was written: %s with %d entries, from %s on, digest %s", task.Counted(reply.GetRecords(), "record"), reply.GetEntries(),
			reply.GetFirst().AsTime().Format(inUTC), hex.EncodeToString(reply.GetDigest()))
	})
	command.PreRunE = func(*cobra.Command, []string) (err error) {
		request.Since, err = moment(since, time.Now())
		return usage(err)
	}
	flags := command.Flags()
	flags.StringVar(&since, "since", "1d", "from when on: a time, or how long ago")
	flags.StringVar(&request.Person, "person", "", "only what this person did or had run")
	flags.StringVar(&request.Site, "site", "", "only of this site")
	flags.StringVar(&request.Pilot, "pilot", "", "only of this pilot")
	flags.StringSliceVar(&request.Kinds, "kind", nil, "only these, separated by commas: "+strings.Join(taskqueue.AuditKinds, ", "))
	flags.BoolVar(&verify, "verify", false, "compare the whole log with its digests; exit code 6 if it was changed")
	return command
}
