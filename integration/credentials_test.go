package integration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/net/webdav"
)

// TestStorageCredentials: a storage element that refuses whoever has no token
// stores outputs, gives them back, and goes on to do so when the token changes.
// Payloads do not see it.
func TestStorageCredentials(t *testing.T) {
	var valid atomic.Value
	var refused atomic.Int64
	handler := &webdav.Handler{FileSystem: webdav.Dir(t.TempDir()), LockSystem: webdav.NewMemLS()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g := newGrid(t)
	token := filepath.Join(g.outside(), "token")
	give := func(text string) {
		if err := os.WriteFile(token, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give("first-secret")
	valid.Store("first-secret")
	g.must("site", "add", "siteA", "--se", server.URL, "--se-token-file", token)
	g.must("site", "add", "siteB", "--se", "file://"+t.TempDir())
	g.expect(2, []string{"no bearer token"}, "site", "add", "siteA", "--se-token-file", "/etc/passwd")
	g.addPilots("siteA", "siteB")
	source := filepath.Join(g.dir, "in.txt")
	if err := os.WriteFile(source, []byte("input\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string) {
		t.Helper()
		t.Setenv("BEARER_TOKEN", valid.Load().(string))
		give(valid.Load().(string))
		id := g.submitted(name, `
files: {in: {source: in.txt}}
tasks:
  make: {require: 'pilot.site == "siteA"', inputs: [in], shell: "cat in > kept; (env; cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline) 2>/dev/null | grep -a -c secret >> kept; true", outputs: [kept]}
  use: {require: 'pilot.site == "siteB"', inputs: [kept], shell: "cat kept > used", outputs: [used]}
outputs: [kept, used]
`, "--upload", "--site", "siteA")
		g.done(id)
		for _, output := range []string{"kept", "used"} {
			if got := g.output(id, output); got != "input\n0\n" {
				t.Errorf("%s of %s is %q", output, name, got)
			}
		}
	}
	run("first")
	if refused.Load() > 0 {
		t.Errorf("%d requests came without the token", refused.Load())
	}
	valid.Store("second-secret")
	run("second")
	t.Setenv("BEARER_TOKEN", "")
	g.expect(3, []string{"refused: HTTP status 401"}, "submit", "--upload", "-f", filepath.Join(g.dir, "second.yaml"), "--site", "siteA")
}

// A storage element that asks for client certificates is shown the user's own by
// submit --upload and workflow outputs, and the site's by its pilots.
func TestUsersShowTheirOwnCertificate(t *testing.T) {
	handler := &webdav.Handler{FileSystem: webdav.Dir(t.TempDir()), LockSystem: webdav.NewMemLS()}
	var alice, pilots atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counts := map[string]*atomic.Int64{"alice": &alice, "siteA": &pilots}
		if shown := r.TLS.PeerCertificates; len(shown) == 0 || counts[shown[0].Subject.CommonName] == nil {
			w.WriteHeader(http.StatusForbidden)
		} else {
			counts[shown[0].Subject.CommonName].Add(1)
			handler.ServeHTTP(w, r)
		}
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	g := newGrid(t)
	write := func(name string, blocks ...*pem.Block) string {
		t.Helper()
		var text []byte
		for _, block := range blocks {
			text = append(text, pem.EncodeToMemory(block)...)
		}
		path := filepath.Join(g.outside(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	g.must("site", "add", "siteA", "--se", server.URL, "--se-client-cert", write("site.pem", certificateOf(t, "siteA")...), "--se-ca", authority)
	g.addPilots("siteA")
	if err := os.WriteFile(filepath.Join(g.dir, "in.txt"), []byte("input\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authority)
	run := func(name string) {
		t.Helper()
		id := g.submitted(name, `
files: {in: {source: in.txt}}
tasks:
  make: {inputs: [in], shell: "cat in > kept", outputs: [kept]}
outputs: [kept]
`, "--upload", "--site", "siteA")
		g.done(id)
		before := alice.Load()
		if got := g.output(id, "kept"); got != "input\n" || alice.Load() == before {
			t.Errorf("%s: the output is %q, and the storage element was asked %d times by alice", name, got, alice.Load()-before)
		}
	}
	own := certificateOf(t, "alice")
	t.Setenv("X509_USER_CERT", write("cert.pem", own[0]))
	t.Setenv("X509_USER_KEY", write("key.pem", own[1]))
	run("two-files")
	t.Setenv("X509_USER_CERT", filepath.Join(g.outside(), "none"))
	g.expect(3, []string{"not shown your own credential: client certificate", "HTTP status 403"},
		"submit", "--upload", "-f", filepath.Join(g.dir, "two-files.yaml"), "--site", "siteA")
	t.Setenv("X509_USER_PROXY", write("proxy.pem", own...))
	run("proxy")
	if pilots.Load() == 0 {
		t.Error("no pilot has shown the site's certificate")
	}
}

// certificateOf is a certificate that signs itself, and its key.
func certificateOf(t *testing.T, name string) []*pem.Block {
	t.Helper()
	own := selfSigned(t, name)
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return []*pem.Block{{Type: "CERTIFICATE", Bytes: own.Certificate[0]}, {Type: "PRIVATE KEY", Bytes: key}}
}
