package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

func newUsage(a *app) *cobra.Command {
	var by, since string
	var asCSV bool
	request := &pb.GetUsageRequest{}
	command := a.tool("usage", "Tell what was used, by owner, site or day", func(ctx context.Context, c *clients, _ []string) error {
		usage, err := everyPage(ctx, c.tasks.GetUsage, request, (*pb.GetUsageResponse).GetUsage)
		if err != nil {
			return err
		}
		key := strings.ToUpper(by)
		if asCSV {
			return usageCSV(a.out.stdout, key, usage)
		}
		return printList(a.out, usage, []string{key, "TASKS", "FAILED", "CPU", "WALL", "WASTED", "CACHE", "PEER", "STORAGE", "REMOTE"}, usageRow)
	})
	command.Long = `Tells what attempts have used whose outcomes were judged, since a day (in UTC). Failed
attempts, and those that counted for nothing because another one had won, are WASTED
(part of WALL). CACHE, PEER, STORAGE and REMOTE are bytes read from the pilot's own
cache, other pilots' caches, the site's storage element and other sites'. Accounts stay
when workflows go. You see your own use; admins and read-only accesses see all.`
	command.Example = `  pilotage usage --by owner --since 30d
  pilotage usage --by day --since 2026-11-01 --csv`
	command.PreRunE = func(*cobra.Command, []string) error {
		kinds := map[string]pb.GetUsageRequest_By{
			"owner": pb.GetUsageRequest_BY_OWNER, "site": pb.GetUsageRequest_BY_SITE, "day": pb.GetUsageRequest_BY_DAY,
		}
		if request.By = kinds[by]; request.By == pb.GetUsageRequest_BY_UNSPECIFIED {
			return coded(exitUsage, "--by %q: give owner, site or day", by)
		}
		if request.Since = since; since == "" {
			return nil
		}
		var ago days
		if ago.Set(since) == nil {
			request.Since = time.Now().UTC().Add(-time.Duration(ago)).Format(time.DateOnly)
		} else if _, err := time.Parse(time.DateOnly, since); err != nil {
			return coded(exitUsage, "--since %q: write a day as 2026-11-24, or a time ago as 30d", since)
		}
		return nil
	}
	command.Flags().StringVar(&by, "by", "owner", "a row for each owner, site or day")
	command.Flags().StringVar(&since, "since", "", "first day, as 2026-11-24 or 30d (default: from the start)")
	command.Flags().BoolVar(&asCSV, "csv", false, "as CSV, with seconds and bytes")
	return command
}

func usageOf(u *pb.Usage) string { return cmp.Or(u.GetOwner(), u.GetSite(), u.GetDay(), "-") }

func usageRow(u *pb.Usage) []any {
	hours := func(d *durationpb.Duration) string {
		if d.AsDuration() < 10*time.Hour {
			return d.AsDuration().Round(time.Second).String()
		}
		return fmt.Sprintf("%.1f h", d.AsDuration().Hours())
	}
	size := func(n uint64) string { return sizeText(int64(n)) }
	return []any{
		usageOf(u), u.GetTasks(), u.GetFailures(), hours(u.GetCpu()), hours(u.GetWall()), hours(u.GetWasted()),
		size(u.GetBytesLocal()), size(u.GetBytesPeer()), size(u.GetBytesStorage()), size(u.GetBytesRemote()),
	}
}

func usageCSV(w io.Writer, key string, usage []*pb.Usage) error {
	out := csv.NewWriter(w)
	rows := [][]string{{strings.ToLower(key), "tasks", "failures", "cpu_seconds", "wall_seconds", "wasted_seconds", "bytes_cache", "bytes_peer", "bytes_storage", "bytes_remote"}}
	for _, u := range usage {
		row := []string{usageOf(u), fmt.Sprint(u.GetTasks()), fmt.Sprint(u.GetFailures())}
		for _, d := range []*durationpb.Duration{u.GetCpu(), u.GetWall(), u.GetWasted()} {
			row = append(row, fmt.Sprintf("%.3f", d.AsDuration().Seconds()))
		}
		for _, n := range []uint64{u.GetBytesLocal(), u.GetBytesPeer(), u.GetBytesStorage(), u.GetBytesRemote()} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}
