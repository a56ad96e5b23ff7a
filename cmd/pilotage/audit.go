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

	"github.com/pilotage-grid/pilotage/pilot/workernode"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// times are the forms of a time, and how much of it each means.
var times = []struct {
	form  string
	means time.Duration
}{
	{time.RFC3339, time.Second}, {time.DateTime, time.Second}, {"2006-01-02 15:04", time.Minute}, {time.DateOnly, 24 * time.Hour},
	{time.TimeOnly, time.Second}, {"15:04", time.Minute},
}

// moments reads a time: RFC 3339, "2006-01-02 15:04:05" in UTC or a part of that, or how
// long ago, as 2h or 3d. A minute is all of its seconds, a day all of its hours; what has
// no date is the last such time.
func moments(text string, now time.Time) (from, until time.Time, err error) {
	for _, t := range times {
		from, err := time.Parse(t.form, text)
		if err != nil {
			continue
		}
		if from.Year() == 0 {
			if from = from.AddDate(now.UTC().Year(), int(now.UTC().Month())-1, now.UTC().Day()-1); from.After(now) {
				from = from.AddDate(0, 0, -1)
			}
		}
		if from.Nanosecond() > 0 {
			return from, from, nil
		}
		return from, from.Add(t.means - 1), nil
	}
	ago, err := parseLife(text)
	if err != nil {
		return from, until, fmt.Errorf("%q is no time: write e.g. 2026-11-24T13:05:00Z, \"2026-11-24 13:05\" or 13:05 (UTC), or 2h ago as 2h", text)
	}
	return now.Add(-ago), now.Add(-ago), nil
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
	return printWhole(ctx, a.out, c.sites.ListAudit, request, (*pb.ListAuditResponse).GetEntries, auditHeader, auditRow)
}

func (a siteCommands) trace() *cobra.Command {
	request := &pb.ListAuditRequest{}
	var at, folder string
	command := &cobra.Command{Use: "trace", Short: "Say whose work ran at a node at a time, under which pilot, process and batch job", Args: asUsed}
	command.Long = command.Short + `.

With --folder it reads, on the node, what the pilots there have recorded (pilot --records),
without the queue. The pilots do not know whose work it is: the VO does, by the workflow.`
	command.RunE = func(c *cobra.Command, _ []string) error {
		if at == "" {
			return coded(exitUsage, "--time is missing: say when it ran, e.g. --time 13:05 or --time \"2026-11-24 13:05\" (UTC)")
		}
		from, until, err := moments(at, time.Now())
		if err != nil {
			return usage(err)
		}
		request.At, request.Until = timestamppb.New(from), timestamppb.New(until)
		if folder != "" {
			return a.printNodeRecords(folder, request)
		}
		return a.withQueue(func(clients *clients) error { return a.printAudit(c.Context(), clients, request) })
	}
	flags := command.Flags()
	flags.StringVar(&request.Node, "node", "", "node, as pilot list calls it (default: all)")
	flags.StringVar(&request.Site, "site", "", "site (default: all)")
	flags.StringVar(&at, "time", "", "when it ran, in UTC: 2026-11-24T13:05:07Z, \"2026-11-24 13:05\" or 13:05 for a whole minute, or how long ago, e.g. 2h")
	flags.StringVar(&folder, "folder", "", "folder of this node with the records of its pilots, to be read instead of asking the queue")
	return command
}

// printNodeRecords prints the attempts of a node's records that ran at a time, or may have.
func (a siteCommands) printNodeRecords(folder string, wanted *pb.ListAuditRequest) error {
	records, err := workernode.NodeRecords(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return coded(exitNotFound, "%s has no records of pilots: give what their --records names (%w)", folder, err)
	} else if err != nil {
		return err
	}
	at, until, list := wanted.GetAt().AsTime(), wanted.GetUntil().AsTime(), []*pb.AuditEntry{}
	for _, r := range records {
		if r.Started.After(until) || !r.Ended.IsZero() && r.Ended.Before(at) ||
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

func (a accessCommands) audit() *cobra.Command {
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
		return a.out.done(nil, reply, "the audit log is as it was written: %s with %d entries, from %s on, digest %s", task.Counted(reply.GetRecords(), "record"), reply.GetEntries(),
			reply.GetFirst().AsTime().Format(inUTC), hex.EncodeToString(reply.GetDigest()))
	})
	command.PreRunE = func(*cobra.Command, []string) error {
		from, _, err := moments(since, time.Now())
		request.Since = timestamppb.New(from)
		return usage(err)
	}
	flags := command.Flags()
	flags.StringVar(&since, "since", "1d", "from when on: a time as of site trace, or how long ago")
	flags.StringVar(&request.Person, "person", "", "only what this person did or had run")
	flags.StringVar(&request.Site, "site", "", "only of this site")
	flags.StringVar(&request.Pilot, "pilot", "", "only of this pilot")
	flags.StringSliceVar(&request.Kinds, "kind", nil, "only these, separated by commas: "+strings.Join(taskqueue.AuditKinds, ", "))
	flags.BoolVar(&verify, "verify", false, "compare the whole log with its digests; exit code 6 if it was changed")
	return command
}
