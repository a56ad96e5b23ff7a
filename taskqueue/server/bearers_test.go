package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Tokens of another issuer allow what their scopes say, as the person that they name.
func TestTokensOfAnotherIssuer(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	}))
	t.Cleanup(from.Close)
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: from.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	q := start(t, func(c *serverConfig) {
		c.Issuers = issuer.Config{Audience: []string{"queue"}, Issuers: []issuer.Issuer{{Name: "wlcg", URL: from.URL, JWKS: from.URL, CA: authorities}}}
	})
	if file := q.access("bearer"); file.Role != identity.RoleBearer || file.Token != "" || len(file.Queue) == 0 {
		t.Errorf("access file %v", file)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	with := func(subject, scope string, groups ...string) *client {
		t.Helper()
		token, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": from.URL, "sub": subject, "aud": "queue", "exp": time.Now().Add(time.Hour).Unix(), "scope": scope, "wlcg.groups": groups,
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return q.dial(token, nil)
	}
	alice := with("alice", "compute.read compute.create offline_access", "/vo/higgs")
	request := single("w")
	request.Group = "/vo/higgs"
	var id string
	q.eventually("the issuer's keys are there", func() bool {
		reply, err := alice.SubmitWorkflow(q.ctx, request)
		id = reply.GetWorkflowId()
		return err == nil
	})
	shown, err := alice.GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: "w"})
	if err != nil || shown.GetWorkflow().GetOwner() != "alice@wlcg" {
		t.Errorf("%v, %v", shown, err)
	}
	cancel := func(c *client) error { return errOf(c.CancelWorkflow(q.ctx, &pb.CancelWorkflowRequest{Workflow: id})) }
	retry := func(c *client) error { return errOf(c.RetryWorkflow(q.ctx, &pb.RetryWorkflowRequest{Workflow: id})) }
	list := func(c *client) error { return errOf(c.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id})) }
	submit := func(c *client) error { return errOf(c.SubmitWorkflow(q.ctx, single("x"))) }
	sites := func(c *client) error { return errOf(c.AddSite(q.ctx, &pb.AddSiteRequest{})) }
	for _, c := range []struct {
		subject, scope string
		groups         []string
		call           func(*client) error
		want           string
	}{
		{"alice", "compute.read", nil, submit, "FORBIDDEN"}, {"alice", "compute.create", nil, submit, ""}, {"alice", "compute.create", nil, list, "FORBIDDEN"},
		{"alice", "compute.read compute.create compute.modify", nil, cancel, "FORBIDDEN"}, {"alice", "compute.cancel", nil, retry, "FORBIDDEN"},
		{"alice", "storage.read:/ openid", nil, list, "FORBIDDEN"}, {"alice", "compute.read compute.create compute.modify compute.cancel", nil, sites, "FORBIDDEN"},
		{"bob", "compute.read", nil, list, "REFUSED"}, {"bob", "compute.read", []string{"/vo/higgs"}, list, ""}, {"bob", "compute.cancel", nil, cancel, "REFUSED"},
		{"bob", "compute.modify", []string{"/vo/higgs"}, retry, "CONFLICT"}, {"alice", "compute.cancel", nil, cancel, ""},
	} {
		if reason := refusal(c.call(with(c.subject, c.scope, c.groups...))); reason != c.want {
			t.Errorf("%s with scope %q and groups %v: %q, want %q", c.subject, c.scope, c.groups, reason, c.want)
		}
	}
	if _, err := q.admin().Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "person", Name: "alice@wlcg"}}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, list(alice), codes.PermissionDenied, "BANNED")
	wantRefusal(t, list(q.dial("a.b.c", nil)), codes.Unauthenticated, "TOKEN_MALFORMED")
}
