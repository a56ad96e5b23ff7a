package server

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// usagePage is how many rows of the accounts are read at a time.
const usagePage = 1000

// GetUsage tells what was used since a day.
func (h *taskHandlers) GetUsage(ctx context.Context, in *pb.GetUsageRequest) (*pb.GetUsageResponse, error) {
	if in.GetSince() != "" {
		if _, err := time.Parse(time.DateOnly, in.GetSince()); err != nil {
			return nil, invalid("since %q: write a day as 2026-11-24", in.GetSince())
		}
	}
	after, err := afterToken("usage", in.GetPageToken())
	if err != nil {
		return nil, err
	}
	from := taskqueue.UsageKey{}
	if parts := strings.Split(after, "\x00"); in.GetBy() == pb.GetUsageRequest_BY_UNSPECIFIED && len(parts) == 3 {
		from = taskqueue.UsageKey{Day: parts[0], Owner: parts[1], Site: task.Site(parts[2])}
	}
	person := callerOf(ctx).person
	sums := make(map[taskqueue.UsageKey]*taskqueue.Usage)
	err = h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		for after := from; ; {
			page, err := t.Usage().Since(in.GetSince(), after, usagePage)
			for i := range page {
				after = page[i].UsageKey
				if person.Admin || person.Looks || page[i].Owner == person.Name {
					addUsage(sums, in.GetBy(), &page[i])
				}
			}
			if err != nil || len(page) < usagePage || in.GetBy() == pb.GetUsageRequest_BY_UNSPECIFIED && len(sums) > maxPage {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	rows := slices.SortedFunc(maps.Values(sums), func(a, b *taskqueue.Usage) int { return strings.Compare(usageText(a), usageText(b)) })
	out := &pb.GetUsageResponse{}
	key := func(u **taskqueue.Usage) string { return usageText(*u) }
	out.Usage, out.NextPageToken, err = pageOf("usage", in, rows, key, func(u **taskqueue.Usage) *pb.Usage { return usageOf(*u) })
	return out, err
}

// usageText is a key in the order in which accounts are listed.
func usageText(u *taskqueue.Usage) string {
	return u.Day + "\x00" + u.Owner + "\x00" + string(u.Site)
}

func usageOf(u *taskqueue.Usage) *pb.Usage {
	return &pb.Usage{
		Owner: u.Owner, Site: string(u.Site), Day: u.Day, Tasks: u.Tasks, Failures: u.Failures,
		Cpu: durationpb.New(u.CPU), Wall: durationpb.New(u.Wall), Wasted: durationpb.New(u.Wasted),
		BytesLocal: u.Bytes[task.SourceLocal], BytesPeer: u.Bytes[task.SourcePeer],
		BytesStorage: u.Bytes[task.SourceSE], BytesRemote: u.Bytes[task.SourceRemote],
	}
}

// addUsage adds a row to the sum that it belongs to.
func addUsage(sums map[taskqueue.UsageKey]*taskqueue.Usage, by pb.GetUsageRequest_By, u *taskqueue.Usage) {
	key := u.UsageKey
	switch by {
	case pb.GetUsageRequest_BY_OWNER:
		key = taskqueue.UsageKey{Owner: u.Owner}
	case pb.GetUsageRequest_BY_SITE:
		key = taskqueue.UsageKey{Site: u.Site}
	case pb.GetUsageRequest_BY_DAY:
		key = taskqueue.UsageKey{Day: u.Day}
	}
	sum := sums[key]
	if sum == nil {
		sum = &taskqueue.Usage{UsageKey: key}
		sums[key] = sum
	}
	sum.Tasks, sum.Failures = sum.Tasks+u.Tasks, sum.Failures+u.Failures
	sum.CPU, sum.Wall, sum.Wasted = sum.CPU+u.CPU, sum.Wall+u.Wall, sum.Wasted+u.Wasted
	for i := range sum.Bytes {
		sum.Bytes[i] += u.Bytes[i]
	}
}
