package server

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

// window is what a site did since a look, and why few of its inputs were hits.
func window(then, now page.Look, site *taskqueue.SiteRecord) *pb.SiteWindow {
	before, after := lookAt(then, site.Name), lookAt(now, site.Name)
	since := func(then, now uint64) uint64 { return now - min(then, now) } // sums of live pilots fall when some leave
	w := &pb.SiteWindow{
		Time:  durationpb.New(time.Duration(now.Time-then.Time) * time.Millisecond),
		Tasks: since(before.Done, after.Done), Failures: since(before.Failed, after.Failed), Evictions: since(before.Evicted, after.Evicted),
		QueueRequests: since(before.Requests, after.Requests), DelayCount: since(before.Delays, after.Delays),
		DelaySum: durationpb.New(time.Duration(max(0, after.DelaySum-before.DelaySum) * float64(time.Second))),
	}
	var sums taskqueue.SourceSums
	for i := range sums.Reads {
		sums.Reads[i], sums.Bytes[i] = since(before.Reads[i], after.Reads[i]), since(before.Bytes[i], after.Bytes[i])
	}
	w.Reads, w.WhyFewHits = sourceSums(&sums), whyFewHits(sums.Reads, w.GetEvictions(), site)
	return w
}

func lookAt(look page.Look, site task.Site) page.SiteLook {
	for i := range look.Sites {
		if look.Sites[i].Name == string(site) {
			return look.Sites[i]
		}
	}
	return page.SiteLook{}
}

// whyFewHits says, where less than half of the inputs were in caches, what speaks most
// for it. Reads are by source: local, peer, storage element, remote.
func whyFewHits(reads [4]uint64, evictions uint64, site *taskqueue.SiteRecord) string {
	all := reads[0] + reads[1] + reads[2] + reads[3]
	missed := reads[2] + reads[3]
	used, room := site.Capacity.CacheUsed, site.Capacity.CacheBytes
	switch {
	case all == 0 || 2*missed <= all:
		return ""
	case site.InForce() == taskqueue.ModeIsolated:
		return "its pilots share no files in mode isolated: each reads the storage element for itself"
	case 10*evictions >= missed:
		return fmt.Sprintf("caches are too small: %s evicted while %s were read from storage (%d of %d MiB used); give pilots a larger --cache-size", task.Counted(evictions, "file"), task.Counted(missed, "input"), used>>20, room>>20)
	case reads[3] > reads[2]:
		return "most inputs lie on the storage elements of other sites: copy them to this one, or have the tasks run where they are"
	}
	return "most inputs are read for the first time: few tasks read the same files, or the caches are still empty"
}
