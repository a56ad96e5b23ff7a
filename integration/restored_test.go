package integration

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// backup writes a copy of the running queue's database, as sqlite3's .backup does.
func (g *grid) backup(to string) {
	g.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(g.dir, "queue", "queue.db"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	// The copy is as secret as the original: docs/operations.md has the file made first.
	if err := os.WriteFile(to, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
	if _, err := db.Exec("VACUUM INTO ?", to); err != nil {
		g.t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		g.t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
}

// restore puts a copy in the place of the database of a queue that does not run.
func (g *grid) restore(from string) {
	g.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		g.t.Fatal(err)
	}
	database := filepath.Join(g.dir, "queue", "queue.db")
	left, err := filepath.Glob(database + "*") // as docs/operations.md says
	if err != nil {
		g.t.Fatal(err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := os.WriteFile(database, data, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// starts counts the executions of each task, by the ledger.
func (l *ledgered) starts() map[string]int {
	l.g.t.Helper()
	starts := make(map[string]int)
	file, err := os.Open(l.ledger)
	if os.IsNotExist(err) {
		return starts
	} else if err != nil {
		l.g.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if fields := strings.Fields(scanner.Text()); len(fields) == 4 && fields[0] == "start" {
			starts[path.Dir(fields[1])]++ // less the pilot
		}
	}
	return starts
}

// The queue of a site that schedules itself and of one that it matches for is
// killed and put back to a backup, with live pilots, work and pilots that it does
// not know, and outcomes that it has forgotten: every task ends with the right
// bytes after few executions, pilots that it does not know leave, and its lists
// are true.
func TestRestoreOfABackup(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB")
	g.must("site", "add", "siteB", "--mode", "isolated")
	known := g.addPilots("siteA", "siteB", "siteA", "siteB")
	l := newLedgered(g, 1, 8)
	l.seconds, l.padding = 1, 64
	l.submit()
	begun := func(n int) {
		observe(g, "tasks that have begun", func() (int, bool) { return 0, len(l.starts()) >= n })
	}
	begun(6)
	copied := filepath.Join(g.dir, "backup.db")
	g.backup(copied)
	later := newLedgered(g, 2, 2)
	later.submit()
	strangers := g.addPilots("siteA", "siteB")
	begun(12)
	g.queue.kill()
	g.restore(copied)
	g.startQueue()

	observe(g, "the end of pilots that the queue does not know", func() (int, bool) {
		return 0, !strangers[0].running() && !strangers[1].running()
	})
	for i, says := range []string{"the pilot drains", "start a new pilot"} {
		wantText(t, "a stranger at "+strangers[i].name, strangers[i].log.String(), says)
	}
	l.wait()
	l.reconcile()
	for name, times := range l.starts() {
		if times > 6 {
			t.Errorf("%s was run %d times", name, times)
		}
	}
	if out, _, code := g.run("workflow", "show", later.name); code != 5 {
		t.Errorf("what was submitted after the backup is there: exit %d\n%s", code, out)
	}
	_, tasks, sites, _ := g.client()
	observe(g, "true lists", func() (int, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		list, err := tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: l.name, PageSize: 1000, Full: true})
		if err != nil {
			return 0, false
		}
		for _, info := range list.GetTasks() {
			for _, attempt := range info.GetAttempts() {
				if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_RUNNING {
					return 0, false
				}
			}
		}
		for _, name := range []string{"siteA", "siteB"} {
			reply, err := sites.GetSite(ctx, &pb.GetSiteRequest{Name: name})
			if err != nil || reply.GetSite().GetPilots() != 2 || reply.GetSite().GetRunning() != 0 || reply.GetSite().GetFreeSlots() != 2 {
				return 0, false
			}
		}
		return 0, true
	})
	for _, p := range known {
		if !p.running() {
			t.Errorf("%s has left", p.name)
		}
	}
}
