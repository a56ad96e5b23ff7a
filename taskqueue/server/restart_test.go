package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// A second start on the same folder, at other ports, goes on where the first
// ended: same authority, tokens and memberships, leases, clock and counts.
func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	q := startIn(t, dir, nil, onSQLite)
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	workflow := q.mustSubmit(single("kept"))
	handed, err := p.Sync(q.ctx, p.report(patience))
	if err != nil || len(handed.GetLeases()) != 1 {
		t.Fatal(handed, err)
	}
	lease := handed.GetLeases()[0]
	before := map[string]string{}
	for _, name := range []string{"admin", "submit", "pilot-siteA"} {
		before[name] = q.access(name).Token
	}
	authority, clock := string(q.caPEM()), q.server.Clock()
	q.stop()
	if _, err := os.Stat(filepath.Join(dir, "run.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("run.json of a stopped queue: %v", err)
	}

	q = startIn(t, dir, nil, onSQLite)
	if string(q.caPEM()) != authority {
		t.Error("the authority changed")
	}
	for name, token := range before {
		file := q.access(name)
		if file.Token != token || len(file.Queue) != 1 || file.Queue[0] != q.server.Addresses().GRPC {
			t.Errorf("%s: same token %v, addresses %v", name, file.Token == token, file.Queue)
		}
	}
	if now := q.server.Clock(); now < clock || now > clock.Add(5*time.Second) {
		t.Errorf("the clock went from %d to %d", clock, now)
	}
	// The membership of the first start still opens the queue.
	p.q, p.client = q, q.dial("", p.cert)
	if reply, err := p.Sync(q.ctx, p.report(0, lease)); err != nil || len(reply.GetUnknownLeases())+len(reply.GetLeases()) != 0 {
		t.Errorf("the lease after the restart: %v, %v", reply, err)
	}
	done := p.report(0, lease)
	done.Outcomes = []*pb.Outcome{p.outcome(lease, 0)}
	if reply, err := p.Sync(q.ctx, done); err != nil ||
		len(reply.GetAcks()) != 1 || reply.GetAcks()[0].GetVerdict() != pb.AckVerdict_ACK_VERDICT_ACCEPTED {
		t.Errorf("after the restart: %v, %v", reply, err)
	}
	again, err := q.submit().SubmitWorkflow(q.ctx, single("kept"))
	if err != nil || again.GetWorkflowId() != workflow || !again.GetExisted() {
		t.Errorf("the same submission again: %v, %v", again, err)
	}
	q.eventually("requests of both starts are added up", func() bool {
		site, err := q.admin().GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteA"})
		return err == nil && site.GetSite().GetRequestsByMethod()["Sync"] == 4
	})
}

// A folder that shows a VO and has lost its database is refused and left as it
// is; with the database put back the VO goes on.
func TestFolderThatLostItsDatabase(t *testing.T) {
	dir := t.TempDir()
	q := startIn(t, dir, nil, onSQLite)
	q.addSite("siteA")
	workflow := q.mustSubmit(single("kept"))
	q.stop()
	path := filepath.Join(dir, "queue.db")
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	access := func() (texts string) {
		for _, name := range []string{"access/admin.json", "access/submit.json", "access/pilot-siteA.json", "ca/ca.pem"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			texts += string(text)
		}
		return texts
	}
	before := access()
	for name, lose := range map[string]func() error{
		"missing": func() error { return os.Remove(path) },
		"empty":   func() error { return os.WriteFile(path, nil, 0o600) },
		"of no VO": func() error {
			other := t.TempDir()
			store, err := sqlite.Open(other)
			if err == nil {
				err = store.Close()
			}
			return errors.Join(err, os.Rename(filepath.Join(other, sqlite.FileName), path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := lose(); err != nil {
				t.Fatal(err)
			}
			s, err := server.New(server.Config{DataDir: dir, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0"})
			if err == nil {
				err = errors.Join(errors.New("it started"), s.Close())
			}
			for _, part := range []string{path, dir, "backup", "move the whole folder away"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if _, err := os.Stat(path); name == "missing" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a new database was made: %v", err)
			}
			if access() != before {
				t.Error("access files or the authority changed")
			}
			if err := os.WriteFile(path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	q = startIn(t, dir, nil, onSQLite)
	if _, err := q.admin().GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: workflow}); err != nil {
		t.Errorf("after the restore: %v", err)
	}
}

func TestFolder(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	for path, mode := range map[string]os.FileMode{
		"access/admin.json": 0o600, "access/submit.json": 0o600, "access/pilot-siteA.json": 0o600, "run.json": 0o600, "ca/ca.pem": 0o644,
	} {
		info, err := os.Stat(filepath.Join(q.dir, path))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %o", path, info, err, mode)
		}
	}
	text, err := os.ReadFile(filepath.Join(q.dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		PID        int
		GRPC, HTTP string
	}
	if err := json.Unmarshal(text, &run); err != nil || run.PID != os.Getpid() ||
		run.GRPC != q.server.Addresses().GRPC || run.HTTP != q.server.Addresses().HTTP {
		t.Errorf("run.json %s (%v)", text, err)
	}
	for _, secret := range []string{"PRIVATE KEY", q.access("admin").Token} {
		for _, name := range []string{"run.json", "ca/ca.pem"} {
			if text, _ := os.ReadFile(filepath.Join(q.dir, name)); strings.Contains(string(text), secret) {
				t.Errorf("%s holds a secret", name)
			}
		}
	}
}

// No master is silent because the queue was away: claims wait as if its last
// Sync had come at the restart.
func TestRestartIsNoSilence(t *testing.T) {
	const silence = 250 * time.Millisecond
	rules := quickRules(func(c *taskqueue.Config) { c.Site.ClaimSilence = silence })
	dir := t.TempDir()
	q := startIn(t, dir, nil, onSQLite, rules)
	q.addSite("siteA")
	first, second := q.join("siteA"), q.join("siteA")
	first.introduce()
	from := q.server.Clock()
	q.eventually("a claim would be granted", func() bool { return q.server.Clock().Sub(from) > 2*silence })
	// The clock stands still while the queue is away: what it says before the
	// stop is the moment of the restart.
	began := q.server.Clock()
	q.stop()
	q = startIn(t, dir, nil, onSQLite, rules)
	second.client = q.dial("", second.cert)
	claim := func() bool {
		reply, err := second.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: second.term})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetGranted()
	}
	q.eventually("the claim is granted", claim)
	if took := q.server.Clock().Sub(began); took < silence-100*time.Millisecond {
		t.Errorf("granted %s after the restart, want about %s", took, silence)
	}
}

// A lost access file is made anew, a revoked one is not, an exposed one stops
// the start.
func TestAccessFilesAtStart(t *testing.T) {
	dir := t.TempDir()
	q := startIn(t, dir, nil, onSQLite, func(c *serverConfig) { c.Advertise = []string{"queue.example", "10.1.2.3:99"} })
	admin, submit := q.access("admin"), q.access("submit")
	if port := strings.TrimPrefix(admin.Queue[0], "queue.example:"); len(admin.Queue) != 2 || port == "0" || admin.Queue[1] != "10.1.2.3:99" {
		t.Errorf("advertised as %v", admin.Queue)
	}
	id, _, err := identity.ParseToken(submit.Token)
	if err != nil {
		t.Fatal(err)
	}
	q.stop()

	q = startIn(t, dir, nil, onSQLite)
	if _, err := q.admin().RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	q.stop()
	if err := os.Remove(filepath.Join(dir, "access", "admin.json")); err != nil {
		t.Fatal(err)
	}
	q = startIn(t, dir, nil, onSQLite)
	if q.access("admin").Token == admin.Token {
		t.Error("the lost token came back")
	}
	if q.access("submit").Token != submit.Token {
		t.Error("a revoked token was replaced by itself")
	}
	q.stop()

	if err := os.Chmod(filepath.Join(dir, "access", "admin.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = server.New(server.Config{DataDir: dir, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("start with an exposed access file: %v", err)
	}
}

// A queue that is stopped as it starts ends well: its servers may be told to
// end before they have begun.
func TestStoppedAtStart(t *testing.T) {
	dir := t.TempDir()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 20 {
		s, err := server.New(server.Config{
			DataDir: dir, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(stopped); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStartRefusals(t *testing.T) {
	q := start(t, onSQLite)
	for name, config := range map[string]server.Config{
		"no folder":          {},
		"unknown store":      {DataDir: t.TempDir(), Store: "clay"},
		"folder in use":      {DataDir: q.dir},
		"address in use":     {DataDir: t.TempDir(), Listen: q.server.Addresses().GRPC},
		"web address in use": {DataDir: t.TempDir(), Listen: "127.0.0.1:0", ListenHTTP: q.server.Addresses().HTTP},
		"bad address":        {DataDir: t.TempDir(), Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Advertise: []string{"a:b:c"}},
		"bad host":           {DataDir: t.TempDir(), Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Hosts: []string{"no host"}},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := server.New(config); err == nil {
				t.Errorf("started: %v", s.Close())
			}
		})
	}
	if _, err := os.Stat(filepath.Join(q.dir, "run.json")); err != nil {
		t.Errorf("a start that failed took away the running queue's file: %v", err)
	}
}

// countedStore counts the site records that are written.
type countedStore struct {
	taskqueue.Store
	saves atomic.Int64
}

type countedTx struct {
	taskqueue.Tx
	saves *atomic.Int64
}

type countedSites struct {
	taskqueue.SiteTable
	saves *atomic.Int64
}

func (c *countedStore) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	return c.Store.Update(ctx, func(tx taskqueue.Tx) error { return write(countedTx{tx, &c.saves}) })
}

func (c countedTx) Sites() taskqueue.SiteTable { return countedSites{c.Tx.Sites(), c.saves} }

func (c countedSites) Save(sites ...taskqueue.SiteRecord) error {
	c.saves.Add(int64(len(sites)))
	return c.SiteTable.Save(sites...)
}

// A Sync that brings nothing and gets nothing writes nothing: sites are many
// and call every 2 s.
func TestEmptySyncWritesNothing(t *testing.T) {
	store := &countedStore{}
	q := startIn(t, t.TempDir(), func(s *server.Server) {
		s.WrapStore(func(real taskqueue.Store) taskqueue.Store { store.Store = real; return store })
	}, func(c *serverConfig) { c.Timing.Persist = time.Hour })
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	before, from := store.saves.Load(), q.server.Clock()
	q.eventually("masters' calls came for longer than the mark of rules", func() bool {
		if _, err := p.Sync(q.ctx, p.report(5*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		return q.server.Clock().Sub(from) > taskqueue.DefaultConfig().Site.MarkEvery+100*time.Millisecond
	})
	if wrote := store.saves.Load() - before; wrote != 0 {
		t.Errorf("%d site records were written", wrote)
	}
}

func TestAPortInUseSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	const free = "127.0.0.1:0"
	for flag, config := range map[string]server.Config{
		"--listen": {Listen: taken.Addr().String(), ListenHTTP: free}, "--listen-http": {Listen: free, ListenHTTP: taken.Addr().String()},
	} {
		config.DataDir = t.TempDir()
		_, err := server.New(config)
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasSuffix(err.Error(), "give another "+flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
