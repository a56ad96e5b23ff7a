package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// A VO changes its authority in three steps: access files keep their tokens, clients and
// pilots that were told of both authorities go on over the change, and no step cuts off
// a live pilot unasked.
func TestRotationOfTheAuthority(t *testing.T) {
	dir := t.TempDir()
	rotate := func(force bool, want server.RotationStep) {
		t.Helper()
		if step, err := server.RotateAuthority(t.Context(), dir, force); err != nil || step != want {
			t.Fatalf("step %d, %v; want step %d", step, err, want)
		}
	}
	refuse := func() {
		t.Helper()
		if _, err := server.RotateAuthority(t.Context(), dir, false); !errors.Is(err, server.ErrOldPilotsLive) {
			t.Fatalf("a step that cuts off a live pilot: %v", err)
		}
	}
	var q *queue
	opens := func(want bool, who string, authorities []byte, token string, member *identity.MemberCertificate) *client {
		t.Helper()
		c := dialWith(t, q.server.Addresses().GRPC, authorities, token, member)
		if _, err := healthpb.NewHealthClient(c).Check(q.ctx, &healthpb.HealthCheckRequest{}); (err == nil) != want {
			t.Errorf("%s opens the queue: %v, want %v (%v)", who, err == nil, want, err)
		}
		return c
	}
	isMember := func(want bool, authorities []byte, p *pilot) {
		t.Helper()
		verifier, err := identity.NewVerifier(authorities)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier.Verify(p.cert.DER, time.Now()); (err == nil) != want {
			t.Errorf("pilot %s is a member: %v, want %v (%v)", p.id, err == nil, want, err)
		}
	}

	q = startIn(t, dir, nil, onSQLite)
	q.addSite("siteA")
	before := q.join("siteA")
	old, token := q.caPEM(), q.access("submit").Token
	q.stop()

	rotate(false, server.AuthorityPublished)
	q = startIn(t, dir, nil, onSQLite)
	both := q.caPEM()
	if strings.Count(string(both), "BEGIN CERTIFICATE") != 2 || q.access("submit").CAPEM != string(both) || q.access("submit").Token != token {
		t.Errorf("after step 1 %s has authorities %s", q.access("submit"), both)
	}
	opens(true, "an access file of before", old, token, nil)
	opens(true, "a pilot of before", old, "", before.cert)
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := opens(true, "a pilot's access file of before", old, q.access("pilot-siteA").Token, nil).Register(q.ctx, registration(t, "siteA", key))
	if err != nil || reply.GetAuthorities() != string(both) {
		t.Fatalf("a pilot that registers is told of both authorities: %v, %v", reply, err)
	}
	between := &pilot{id: reply.GetPilotId(), cert: &identity.MemberCertificate{DER: reply.GetMembershipCertificate(), Key: key}}
	q.stop()

	refuse() // the first pilot knows the old authority alone
	q = startIn(t, dir, nil, onSQLite)
	if _, err := opens(true, "a pilot of before", old, "", before.cert).Leave(q.ctx, &pb.LeaveRequest{Site: "siteA", Reason: "done"}); err != nil {
		t.Fatal(err)
	}
	q.stop()
	rotate(false, server.AuthorityChanged)
	q = startIn(t, dir, nil, onSQLite)
	opens(false, "an access file of before", old, token, nil)
	opens(true, "an access file of step 1", both, token, nil)
	opens(true, "a pilot of step 1", both, "", between.cert)
	last := q.join("siteA")
	isMember(true, both, last)
	isMember(false, old, last)
	isMember(true, q.caPEM(), between)
	q.stop()

	refuse() // the second pilot's membership is the old authority's
	rotate(true, server.AuthorityDropped)
	q = startIn(t, dir, nil, onSQLite)
	if now := q.caPEM(); strings.Count(string(now), "BEGIN CERTIFICATE") != 1 || q.access("submit").CAPEM != string(now) || q.access("submit").Token != token {
		t.Errorf("after step 3 %s has authorities %s", q.access("submit"), now)
	}
	opens(true, "an access file of step 1", both, token, nil)
	opens(false, "a pilot of step 1", both, "", between.cert)
	opens(true, "a pilot of step 2", q.caPEM(), "", last.cert)
	isMember(true, q.caPEM(), last)
	told, err := q.admin().ListAudit(q.ctx, &pb.ListAuditRequest{Kinds: []string{taskqueue.AuditAuthority}})
	if err != nil || len(told.GetEntries()) != 3 || !strings.Contains(told.GetEntries()[0].GetPerson(), "account") {
		t.Errorf("the audit log of a rotation: %v, %v", told, err)
	}
}
