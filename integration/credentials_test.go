package integration

import (
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
