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
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, _ := authority.PEM()
	folder := t.TempDir()
	access, empty := filepath.Join(folder, "bearer.json"), filepath.Join(folder, "empty")
	file := identity.AccessFile{
		Version: identity.AccessVersion, Queue: []string{"queue.invalid:7420"}, CAPEM: string(certificate), Role: identity.RoleBearer,
		Expires: time.Now().Add(time.Hour),
	}
	if err := file.Write(access); err != nil {
		t.Fatal(err)
	}
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
