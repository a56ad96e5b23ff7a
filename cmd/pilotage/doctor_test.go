package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// The doctor finds nothing at a queue that is well, as its user and at its folder, and
// names each fault that is made.
func TestDoctorNamesFaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	ready := make(chan struct{})
	queue, err := server.New(server.Config{
		DataDir: dir, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Rules: taskqueue.DefaultConfig(),
		Log: slog.New(slog.DiscardHandler), Ready: func(string, string) { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	<-ready
	admin, backups := filepath.Join(dir, "access", "admin.json"), t.TempDir()
	expect := func(line, failed string) {
		t.Helper()
		out, err := call(t, append([]string{"doctor"}, strings.Fields(line)...)...)
		var names []string
		for row := range strings.Lines(out) {
			if name, _, bad := strings.Cut(row, "  FAILED"); bad {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(names, ","); got != failed || (err != nil) != (failed != "") || err != nil && exitCode(t.Context(), err) != exitInternal {
			t.Errorf("doctor %s: failed are %q, want %q, %v\n%s", line, got, failed, err, out)
		}
	}
	expect("--access "+admin, "")
	expect("--data "+dir+" --backups "+backups, "backups")
	if _, err := call(t, "taskqueue", "backup", filepath.Join(backups, "one"), "--data", dir); err != nil {
		t.Fatal(err)
	}
	expect("--data "+dir+" --backups "+backups, "")

	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	expect("--access "+admin, "queue")
	expect("--data "+dir, "")
	for _, c := range []struct {
		before   time.Duration // of which an authority was made, each added to those that count
		says     string
		failed   string
		replaces bool
	}{
		{before: identity.AuthorityLife - 179*day, failed: "authority", says: "rotate-authority", replaces: true},
		{before: 0, failed: "authority", says: "step 1"},
		{before: time.Hour, says: "valid until", replaces: true},
		{before: 2 * day, says: "step 2"},
	} {
		made, err := identity.NewAuthority(time.Now().Add(-c.before))
		if err != nil {
			t.Fatal(err)
		}
		certificate, _ := made.PEM()
		path := filepath.Join(dir, "ca", "ca.pem")
		if known, err := os.ReadFile(path); err == nil && !c.replaces {
			certificate = append(known, certificate...)
		}
		if err := os.WriteFile(path, certificate, 0o644); err != nil {
			t.Fatal(err)
		}
		expect("--data "+dir, c.failed)
		if out, _ := call(t, "doctor", "--data", dir); !strings.Contains(out, c.says) {
			t.Errorf("an authority made %s ago: want %q\n%s", c.before, c.says, out)
		}
	}
	if err := os.Chmod(admin, 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * day)
	if err := os.Chtimes(filepath.Join(backups, "one", "queue.db"), old, old); err != nil {
		t.Fatal(err)
	}
	expect("--access "+admin, "access file")
	expect("--data "+dir+" --backups "+backups, "secrets,backups")
	database := filepath.Join(dir, "queue.db")
	if info, err := os.Stat(database); err != nil || os.Truncate(database, info.Size()/2) != nil {
		t.Fatal("the database cannot be cut", err)
	}
	expect("--data "+dir, "secrets,database")
	expect("--data "+t.TempDir(), "folder")
}
