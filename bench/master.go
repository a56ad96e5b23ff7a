package bench

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// benchMaster is the first pilot of a site as the queue sees it, without a
// site behind it.
type benchMaster struct {
	conn   *grpc.ClientConn
	pilots pb.PilotServiceClient
	sync   task.Sync
}

// newMaster registers a pilot with many slots at a site that has none.
func (q *queueProcess) newMaster(ctx context.Context, site string, slots int) (*benchMaster, error) {
	access, err := q.access("pilot-" + site)
	if err != nil {
		return nil, err
	}
	key, err := identity.NewPilotKey()
	if err != nil {
		return nil, err
	}
	conn, err := connect(access)
	if err != nil {
		return nil, err
	}
	reply, err := pb.NewPilotServiceClient(conn).Register(ctx, &pb.RegisterRequest{
		Site: site, PublicKey: key.Public(), Proof: key.SignRegistration(task.Site(site)), Addresses: []string{"/ip4/127.0.0.1/tcp/1"}, DataUrl: "https://127.0.0.1:1",
		Host: "bench", Resources: &pb.Resources{Cores: int32(min(slots, task.MaxCores)), MemoryBytes: 1 << 50, DiskBytes: 1 << 50},
		Slots: int32(min(slots, task.MaxCores)), Version: "bench", Ends: timestamppb.New(time.Now().Add(time.Hour)), OverlayProtocol: node.Protocol,
	})
	_ = conn.Close()
	if err != nil {
		return nil, fmt.Errorf("register at %s: %w", site, err)
	}
	secured, err := identity.QueueClientTLS([]byte(access.CAPEM), "", &identity.MemberCertificate{DER: reply.GetMembershipCertificate(), Key: key})
	if err != nil {
		return nil, err
	}
	m := &benchMaster{sync: task.Sync{
		Site: task.Site(site), Term: taskpb.FromTerm(reply.GetTerm()), Pilot: task.PilotID(reply.GetPilotId()),
	}}
	m.sync.Capacity = task.Capacity{Pilots: 1}
	if m.conn, err = dial.Queue(access.Queue, secured, nil); err != nil {
		return nil, err
	}
	m.pilots = pb.NewPilotServiceClient(m.conn)
	if _, err := m.pilots.Sync(ctx, taskpb.Sync(m.sync)); err != nil { // connects
		m.close()
		return nil, fmt.Errorf("a master's first call: %w", err)
	}
	m.sync.Capacity.Slots, m.sync.Capacity.FreeSlots = slots, slots
	return m, nil
}

// firstHandOut asks for work, then says that all slots are busy, so that other
// sites get their share.
func (m *benchMaster) firstHandOut(ctx context.Context) (took time.Duration, tasks int, err error) {
	request := taskpb.Sync(m.sync)
	began := time.Now()
	reply, err := m.pilots.Sync(ctx, request)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for work: %w", err)
	}
	handedOut, err := taskpb.FromSyncReply(reply)
	took = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	for _, lease := range handedOut.Leases {
		tasks += len(lease.Tasks)
		m.sync.Leases = append(m.sync.Leases, lease.ID)
	}
	m.sync.Capacity.Running, m.sync.Capacity.FreeSlots = m.sync.Capacity.Slots, 0
	m.sync.Capacity.Waiting = tasks - m.sync.Capacity.Running
	if _, err := m.pilots.Sync(ctx, taskpb.Sync(m.sync)); err != nil {
		return 0, 0, fmt.Errorf("tell of busy slots: %w", err)
	}
	return took, tasks, nil
}

func (m *benchMaster) close() { _ = m.conn.Close() }
