package server_test

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// At a site with many pilots a factory is told of all that its own jobs have started, and
// of few others: the answer does not grow with what others send.
func TestAFactoryIsToldOfItsOwnPilots(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	const all, every = 1300, 50
	q.savePilots(all, func(i int, p *taskqueue.PilotRecord) {
		p.Job = fmt.Sprint("pother", i)
		if i%every == every-1 { // the last one too, which is after the 1,000th
			p.Job = fmt.Sprint("pmine", i)
		}
	})
	reply, err := q.admin().GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA", Factory: &pb.FactoryReport{Name: "pmine"}})
	if err != nil {
		t.Fatal(err)
	}
	mine := 0
	for _, p := range reply.GetPilots() {
		if strings.HasPrefix(p.GetJob(), "pmine") {
			mine++
		}
	}
	if mine != all/every || len(reply.GetPilots()) != mine+1000 {
		t.Errorf("%d pilots, of which %d are its own, want %d and 1000 others", len(reply.GetPilots()), mine, all/every)
	}
}
