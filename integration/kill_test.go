package integration

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to hold the queue's database still

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const observeTime = 20 * time.Second

// observe polls until the condition names a victim; a kill that hits nothing
// is a failed test.
func observe[T any](g *grid, what string, look func() (T, bool)) T {
	g.t.Helper()
	again := time.NewTicker(2 * time.Millisecond) // other processes tell of nothing
	defer again.Stop()
	for deadline := time.Now().Add(observeTime); time.Now().Before(deadline); <-again.C {
		if found, ok := look(); ok {
			return found
		}
	}
	state, _, _ := g.run("workflow", "list")
	g.t.Fatalf("never observed: %s\n%s", what, state)
	panic("unreachable")
}

// runningAt finds a pilot at which the queue knows an attempt to run.
func (g *grid) runningAt(workflow string, among func(*pilotProcess) bool) *pilotProcess {
	g.t.Helper()
	_, tasks, _, _ := g.client()
	return observe(g, "an attempt running at a pilot that may be killed", func() (*pilotProcess, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		list, err := tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: workflow, PageSize: 1000, Full: true, States: []pb.TaskState{pb.TaskState_TASK_STATE_LEASED}})
		if err != nil {
			return nil, false
		}
		for _, info := range list.GetTasks() {
			for _, attempt := range info.GetAttempts() {
				if attempt.GetState() != pb.AttemptState_ATTEMPT_STATE_RUNNING {
					continue
				}
				for _, p := range g.pilots {
					if p.id == attempt.GetOutcome().GetAttempt().GetPilot() && p.running() && among(p) {
						return p, true
					}
				}
			}
		}
		return nil, false
	})
}

// master is the pilot in office at a site, in the queue's eyes.
func (g *grid) master(site string) *pilotProcess {
	g.t.Helper()
	_, _, sites, _ := g.client()
	return observe(g, "a live master of "+site, func() (*pilotProcess, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		reply, err := sites.GetSite(ctx, &pb.GetSiteRequest{Name: site})
		if err != nil {
			return nil, false
		}
		for _, p := range g.pilots {
			if p.id == reply.GetSite().GetMaster() && p.running() {
				return p, true
			}
		}
		return nil, false
	})
}

func (g *grid) isMaster(p *pilotProcess) bool { return g.master(p.site) == p }

// twoSites starts 2 sites x 4 pilots.
func twoSites(t *testing.T) *grid {
	g := newGrid(t, "siteA", "siteB")
	g.addPilots(slices.Repeat([]string{"siteA", "siteB"}, 4)...)
	return g
}

func killed(t *testing.T, seed uint64, p *process, moment string) {
	t.Helper()
	t.Logf("seed %d: kill -9 of %s, %s", seed, p.name, moment)
	p.kill()
}

func eachSeed(t *testing.T, run func(t *testing.T, seed uint64)) {
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) { run(t, seed) })
	}
}

func TestKillOfAWorkingPilot(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		g := twoSites(t)
		l := newLedgered(g, seed, 8)
		l.submit()
		victim := g.runningAt(l.name, func(p *pilotProcess) bool { return !g.isMaster(p) })
		killed(t, seed, victim.process, "an attempt running at it")
		l.wait()
		l.reconcile()
	})
}

func TestKillOfTheMasterTwiceInARow(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		g := twoSites(t)
		l := newLedgered(g, seed, 8)
		l.seconds = 1.5
		l.submit()
		site := []string{"siteA", "siteB"}[rand.New(rand.NewPCG(seed, 2)).IntN(2)]
		for range 2 {
			master := g.master(site)
			observe(g, "a master with an outcome that the queue does not have", func() (bool, bool) {
				return true, strings.Contains(master.log.String(), "outcomes wait for the queue")
			})
			since := time.Now()
			killed(t, seed, master.process, "an unsent outcome in hand")
			heir := g.master(site)
			t.Logf("seed %d: %s in office %s after the kill", seed, heir.id, time.Since(since).Round(time.Millisecond))
		}
		l.wait()
		l.reconcile()
	})
}

func TestKillOfTheQueueBetweenReceiptAndCommit(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		g := twoSites(t)
		l := newLedgered(g, seed, 8)
		l.submit()
		g.runningAt(l.name, func(*pilotProcess) bool { return true })
		release := g.holdDatabase()
		seen := strings.Count(g.queue.log.String(), "outcomes received")
		observe(g, "outcomes received by the queue while it cannot commit", func() (bool, bool) {
			return true, strings.Count(g.queue.log.String(), "outcomes received") > seen
		})
		killed(t, seed, g.queue, "outcomes received and not committed")
		release()
		g.startQueue()
		l.wait()
		l.reconcile()
	})
}

// holdDatabase keeps the queue from committing: another connection holds the
// write lock of its database.
func (g *grid) holdDatabase() (release func()) {
	g.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(g.dir, "queue", "queue.db"))
	if err != nil {
		g.t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	deadline := time.Now().Add(observeTime)
	for {
		if _, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("hold the queue's database: %v", err)
		}
	}
	return func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	}
}

func TestKillOfAPilotWithAFileHalfPublished(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		g := twoSites(t)
		l := newLedgered(g, seed, 3)
		l.padding = 12 << 10
		l.submit()
		victim := observe(g, "an unfinished file in a pilot's cache", func() (*pilotProcess, bool) {
			for _, p := range g.pilots {
				unfinished, err := filepath.Glob(filepath.Join(p.dir, "cache", "tmp", "*"))
				if err == nil && len(unfinished) > 0 && anySize(unfinished) {
					return p, true
				}
			}
			return nil, false
		})
		killed(t, seed, victim.process, "a file half published")
		l.wait()
		l.reconcile()
	})
}

func anySize(paths []string) bool {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}
