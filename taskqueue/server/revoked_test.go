package server_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// TestABackupOpensNothingThatWasRevoked puts back a backup from before an access and a pilot
// were revoked, and a person and a node were banned: all of them stay out, and nobody else.
// A folder without the file that knows it takes them back.
func TestABackupOpensNothingThatWasRevoked(t *testing.T) {
	q := start(t, onSQLite)
	q.addSite("siteA")
	admin := q.admin()
	access := func(person string) (id, token string) {
		made, err := admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Person: person})
		if err != nil {
			t.Fatal(err)
		}
		var file identity.AccessFile
		if err := json.Unmarshal(made.GetAccessFile(), &file); err != nil {
			t.Fatal(err)
		}
		return made.GetId(), file.Token
	}
	revokedID, revoked := access("alice")
	_, banned := access("bob")
	_, good := access("carol")
	out, stays := q.join("siteA"), q.join("siteA")
	kept := filepath.Join(t.TempDir(), "kept")
	if _, err := server.Backup(q.ctx, q.dir, kept); err != nil {
		t.Fatal(err)
	}
	laterID, _ := access("dave") // which the backup does not know
	later := q.join("siteA")
	for _, id := range []string{revokedID, laterID, out.id, later.id} {
		if _, err := admin.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	for kind, name := range map[string]string{"person": "bob", "node": "bad"} {
		if _, err := admin.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: kind, Name: name, Why: "it steals"}}); err != nil {
			t.Fatal(err)
		}
	}
	q.stop()

	list := func(token string) error {
		return errOf(q.dial(token, nil).ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}))
	}
	peers := func(p *pilot) error {
		return errOf(q.dial("", p.cert).ListPeers(q.ctx, &pb.ListPeersRequest{Site: "siteA"}))
	}
	bad := func() error {
		r := registration(t, "siteA", pilotKey(t))
		r.Host = "bad"
		return errOf(q.dial(q.access("pilot-siteA").Token, nil).Register(q.ctx, r))
	}
	for range 2 { // also when it starts again
		if _, _, err := server.Restore(t.Context(), kept, q.dir); err != nil || !server.RemembersRevocations(q.dir) {
			t.Fatalf("%v, or it remembers nothing", err)
		}
		q = startIn(t, q.dir, nil, onSQLite)
		wantRefusal(t, list(revoked), codes.Unauthenticated, "ACCESS_REVOKED")
		wantRefusal(t, list(banned), codes.PermissionDenied, "BANNED")
		wantRefusal(t, peers(out), codes.PermissionDenied, taskpb.ReasonRevoked)
		wantRefusal(t, bad(), codes.PermissionDenied, "REFUSED")
		if err := list(good); err != nil {
			t.Errorf("who was not revoked: %v", err)
		}
		if err := peers(stays); err != nil {
			t.Errorf("a pilot that was not revoked: %v", err)
		}
		q.stop()
	}

	other := t.TempDir()
	if _, _, err := server.Restore(t.Context(), kept, other); err != nil || server.RemembersRevocations(other) {
		t.Fatalf("%v, or a new folder remembers what was revoked", err)
	}
	q = startIn(t, other, nil, onSQLite)
	for what, err := range map[string]error{"access": list(revoked), "person": list(banned), "pilot": peers(out), "node": bad()} {
		if err != nil {
			t.Errorf("%s: nobody told this folder of its revocation: %v", what, err)
		}
	}
}
