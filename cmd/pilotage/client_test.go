package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
)

// Who has no token of another issuer is told where one is looked for.
func TestATokenThatIsNotThereIsNamed(t *testing.T) {
	access := writeAccess(t, identity.AccessFile{Role: identity.RoleBearer})
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{empty: "BEARER_TOKEN", filepath.Join(folder, "none"): "no such file"} {
		var out bytes.Buffer
		getenv := func(name string) string { return map[string]string{"BEARER_TOKEN_FILE": token}[name] }
		root := newRoot(&app{out: &console{stdout: &out, stderr: &out}, getenv: getenv})
		root.SetArgs([]string{"--access", access, "workflow", "list"})
		err := execute(t.Context(), root)
		if err == nil || exitCode(t.Context(), err) != exitRefused || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v", token, err)
		}
	}
}

// A flag of the pilot that is no good is wrong usage, before it calls the queue.
func TestPayloadsNeedAnAccountThatIsThere(t *testing.T) {
	access := writeAccess(t, identity.AccessFile{Role: identity.RolePilot, Site: "siteA", Token: "pil_aaaaaaaaaaaaaaaa_" + strings.Repeat("a", 52)})
	_, err := call(t, "pilot", "--access", access, "--payload-user", "no:body")
	if err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), "--payload-user no:body") {
		t.Error(err)
	}
}

// writeAccess fills and writes an access file for a queue that is not there.
func writeAccess(t *testing.T, file identity.AccessFile) (path string) {
	t.Helper()
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, _ := authority.PEM()
	file.Version, file.Queue, file.CAPEM, file.Expires = identity.AccessVersion, []string{"queue.invalid:7420"}, string(certificate), time.Now().Add(time.Hour)
	path = filepath.Join(t.TempDir(), "access.json")
	if err := file.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}
