package integration

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// When the network between the pilots of a site no longer carries, the site
// goes on without it, says so, and comes back by itself when the network is mended;
// a pilot that came meanwhile works with the others then.
func TestFallbackWhenPilotsCannotReachOneAnother(t *testing.T) {
	t.Parallel()
	inOwnNamespace(t, pilotsCutOff)
}

func pilotsCutOff(t *testing.T) {
	giveAddresses(t)
	g := newGrid(t, "siteA")
	for n := 1; n <= 3; n++ {
		g.startPilot("siteA", "--advertise", nodeAddress(n))
	}
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	work := func(name string) *pb.SourceSums {
		t.Helper()
		before := g.site("siteA").GetIntermediate()
		id := g.submitted(name, chainAndMerge, "--fresh")
		g.done(id)
		wantLines(t, g.output(id, "all"), 12)
		return observe(g, "all reads reported", func() (*pb.SourceSums, bool) {
			now := g.site("siteA").GetIntermediate()
			return &pb.SourceSums{
				PeerReads: now.GetPeerReads() - before.GetPeerReads(), SeReads: now.GetSeReads() - before.GetSeReads(),
			}, reads(now) == reads(before)+24
		})
	}
	if sums := work("together"); sums.GetPeerReads() == 0 {
		t.Errorf("before the cut the pilots read nothing from each other: %v", sums)
	}

	takeAddresses(t)
	id := g.submitted("lonely", "tasks: {never: {require: 'pilot.cores > 1000', shell: 'true'}}\n")
	observe(g, "the site falls back", func() (string, bool) {
		site := g.site("siteA")
		return site.GetFallback(), site.GetSettings().GetMode() == pb.SiteMode_SITE_MODE_ISOLATED
	})
	if sums := work("apart"); sums.GetPeerReads() > 0 {
		t.Errorf("the pilots are cut off and read %v", sums)
	}
	g.startPilot("siteA").awaitReady(t) // at the address of the queue, which all reach
	said := fmt.Sprint(g.must("site", "show", "siteA"), g.must("task", "explain", id+"/never"))
	if n := strings.Count(said, "cannot reach one another"); n != 2 {
		t.Errorf("said %d times that the pilots cannot reach one another, want by site show and task explain:\n%s", n, said)
	}

	giveAddresses(t)
	observe(g, "the site goes back to its mode", func() (string, bool) {
		site := g.site("siteA")
		return site.GetFallback(), site.GetSettings().GetMode() == pb.SiteMode_SITE_MODE_DISTRIBUTED && site.GetFallback() == ""
	})
	observe(g, "the site works together again", func() (*pb.SourceSums, bool) {
		sums := work("again")
		return sums, sums.GetPeerReads() > 0
	})
	site := observe(g, "the slots of all pilots, free again", func() (*pb.Site, bool) {
		site := g.site("siteA")
		return site, site.GetFreeSlots() == 4
	})
	if site.GetFailures()+site.GetDuplicates() > 0 {
		t.Errorf("%d attempts failed, %d were made for nothing", site.GetFailures(), site.GetDuplicates())
	}
}
