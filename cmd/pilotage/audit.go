package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/pilot/agent"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
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

var auditHeader = []string{"AT", "WHAT", "PERSON", "SUBJECT", "SITE", "NODE", "PILOT", "PROCESS", "JOB", "STARTED", "ENDED", "NOTE"}

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
	return printList(a.out, list, auditHeader, auditRow)
}

func newSiteTrace(a *app) *cobra.Command {
	request := &pb.ListAuditRequest{}
	var at, folder string
	command := &cobra.Command{Use: "trace", Short: "Say whose work ran at a node at a time, under which pilot, process and batch job", Args: asUsed}
	command.Long = command.Short + `.

With --folder it reads, on the node, what the pilots there have recorded (pilot --records),
without the queue. The pilots do not know whose work it is: the VO does, by the workflow.`
	command.RunE = func(c *cobra.Command, _ []string) error {
		if folder != "" {
			return a.printNodeRecords(folder, request)
		}
		return a.withQueue(func(clients *clients) error { return a.printAudit(c.Context(), clients, request) })
	}
	command.PreRunE = func(*cobra.Command, []string) (err error) {
		request.At, err = moment(at, time.Now())
		return usage(err)
	}
	flags := command.Flags()
	flags.StringVar(&request.Node, "node", "", "node, as pilot list calls it (default: all)")
	flags.StringVar(&request.Site, "site", "", "site (default: all)")
	flags.StringVar(&at, "time", "", "the moment at which it ran, to the second, or how long ago")
	flags.StringVar(&folder, "folder", "", "folder of this node with the records of its pilots, to be read instead of asking the queue")
	_ = command.MarkFlagRequired("time")
	return command
}

// printNodeRecords prints the attempts of a node's records that ran at a time, or may have.
func (a *app) printNodeRecords(folder string, wanted *pb.ListAuditRequest) error {
	records, err := agent.NodeRecords(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return coded(exitNotFound, "%s has no records of pilots: give what their --records names (%w)", folder, err)
	} else if err != nil {
		return err
	}
	at, list := wanted.GetAt().AsTime(), []*pb.AuditEntry{}
	for _, r := range records {
		if r.Started.After(at) || !r.Ended.IsZero() && r.Ended.Before(at) ||
			wanted.GetNode() != "" && wanted.GetNode() != r.Node || wanted.GetSite() != "" && wanted.GetSite() != string(r.Site) {
			continue
		}
		list = append(list, &pb.AuditEntry{
			Kind: taskqueue.AuditRan, Subject: r.Attempt, Site: string(r.Site), Node: r.Node, Pilot: string(r.Pilot), Process: int64(r.Process), BatchJob: r.BatchJob,
			At: taskpb.Time(r.Started), Started: taskpb.Time(r.Started), Ended: taskpb.Time(r.Ended), Note: r.Note,
		})
	}
	return printList(a.out, list, auditHeader, auditRow)
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
