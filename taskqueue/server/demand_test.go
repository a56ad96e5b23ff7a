package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// At a site with many pilots a factory is told of all that its own jobs have started, and
// of few others: the answer does not grow with what others send.
func TestAFactoryIsToldOfItsOwnPilots(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	const all, every = 1300, 50
	if err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
		for i := range all {
			p := taskqueue.PilotRecord{ID: task.PilotID(fmt.Sprintf("p-%04d", i)), Site: "siteA", State: taskqueue.PilotAlive}
			p.Peer, p.Ends, p.Job = task.PeerID(fmt.Sprint("peer", i)), time.Now().Add(time.Hour), fmt.Sprint("pother", i)
			if i%every == every-1 { // the last one too, which is after the 1,000th
				p.Job = fmt.Sprint("pmine", i)
			}
			if err := tx.Pilots().Save(p); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
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
