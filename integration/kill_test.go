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
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // to hold the queue's database still

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const observeTime = 2 * time.Minute

// observe polls until the condition names a victim; a kill that hits nothing
// is a failed test.
func observe[T any](g *grid, what string, look func() (T, bool)) T {
	g.t.Helper()
	for began := time.Now(); time.Since(began) < observeTime; {
		looked := time.Now()
		if found, ok := look(); ok {
			return found
		}
		pause := 2 * time.Millisecond
		if time.Since(began) > 2*time.Second { // a lease or an office ends, and the processor is for those who work
			pause = 15 * time.Millisecond
		}
		<-time.After(max(pause, 3*time.Since(looked))) // other processes tell of nothing; a look may be a command
	}
	state, _, _ := g.run("workflow", "list")
	g.t.Fatalf("never observed: %s\n%s", what, state)
	panic("unreachable")
}

// running is an attempt that runs, as the queue knows it, at a live pilot.
type running struct {
	pilot   *pilotProcess
	attempt *pb.AttemptId
}

func (r running) task() string {
	_, name, _ := strings.Cut(r.attempt.GetTask(), "/")
	return name
}

// runningAt finds a pilot at which the queue knows an attempt to run.
func (g *grid) runningAt(workflow string, among func(*pilotProcess) bool) running {
	g.t.Helper()
	_, tasks, _, _ := g.client()
	return observe(g, "an attempt running at a pilot that may be killed", func() (running, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		list, err := tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: workflow, PageSize: 1000, Full: true, States: []pb.TaskState{pb.TaskState_TASK_STATE_LEASED}})
		if err != nil {
			return running{}, false
		}
		for _, info := range list.GetTasks() {
			for _, attempt := range info.GetAttempts() {
				if attempt.GetState() != pb.AttemptState_ATTEMPT_STATE_RUNNING {
					continue
				}
				for _, p := range g.pilots {
					if id := attempt.GetOutcome().GetAttempt(); p.id == id.GetPilot() && p.running() && among(p) {
						return running{p, id}, true
					}
				}
			}
		}
		return running{}, false
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

// eachSeed plays the seeds one after the other at the same two sites; those who were
// killed by one are replaced before the next.
func eachSeed(t *testing.T, run func(g *grid, seed uint64)) {
	g := twoSites(t)
	for _, seed := range seeds(t) {
		played := t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			g.t = t
			run(g, seed)
		})
		g.t = t
		if !played {
			t.Fatalf("repeat it with %s=%d", seedVariable, seed)
		}
		g.replaceKilled()
	}
}

// replaceKilled starts a pilot for each that has ended, so that every site has as many
// as before.
func (g *grid) replaceKilled() {
	g.t.Helper()
	var sites []string
	for _, p := range g.pilots {
		if !p.running() && !p.replaced {
			p.replaced = true
			sites = append(sites, p.site)
		}
	}
	g.addPilots(sites...)
}

// The payload waits at its gate when its pilot is killed, so it is the kill
// that ends the attempt.
func TestKillOfAWorkingPilot(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(g *grid, seed uint64) {
		l := newLedgered(g, seed, 8)
		l.gated = true
		l.submit()
		victim := g.runningAt(l.name, func(p *pilotProcess) bool { return !g.isMaster(p) })
		killed(g.t, seed, victim.pilot.process, "an attempt running at it")
		l.open("all")
		l.wait()
		l.reconcile()
		if state := g.stateOf(victim.attempt); state != pb.AttemptState_ATTEMPT_STATE_LOST {
			g.t.Errorf("the attempt of %s at the killed pilot is %s", victim.task(), state)
		}
	})
}

// stateOf is what the queue says of an attempt.
func (g *grid) stateOf(id *pb.AttemptId) pb.AttemptState {
	g.t.Helper()
	for _, attempt := range g.task(id.GetTask()).GetAttempts() {
		if proto.Equal(attempt.GetOutcome().GetAttempt(), id) {
			return attempt.GetState()
		}
	}
	return pb.AttemptState_ATTEMPT_STATE_UNSPECIFIED
}

// While the queue's database is held no outcome can be acknowledged: what the
// master gets then it has in hand when it is killed.
func TestKillOfTheMasterTwiceInARow(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(g *grid, seed uint64) {
		l := newLedgered(g, seed, 8)
		l.gated, l.site = true, []string{"siteA", "siteB"}[rand.New(rand.NewPCG(seed, 2)).IntN(2)]
		l.submit()
		for range 2 {
			master := g.master(l.site)
			worker, release := l.handToMaster(master)
			since := time.Now()
			killed(g.t, seed, master.process, "an unsent outcome in hand")
			release()
			heir := g.master(l.site)
			g.t.Logf("seed %d: %s in office %s after the kill", seed, heir.id, time.Since(since).Round(time.Millisecond))
			g.isDone(worker.attempt.GetTask())
		}
		l.open("all")
		l.wait()
		l.reconcile()
	})
}

// handToMaster holds the queue's database, lets a payload of another pilot of
// the site end and waits until the master has its outcome. A master that had
// other news under way when the hold began says nothing of it: then another
// payload is tried.
func (l *ledgered) handToMaster(master *pilotProcess) (worker running, release func()) {
	l.g.t.Helper()
	heard := func() int { return strings.Count(master.log.String(), "outcomes wait for the queue") }
	worker = observe(l.g, "a master with an outcome that the queue does not have", func() (running, bool) {
		worker := l.g.runningAt(l.name, func(p *pilotProcess) bool { return p.site == l.site && p != master })
		release = l.g.holdDatabase()
		before := heard()
		l.open(worker.task())
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-again.C {
			if heard() > before {
				return worker, true
			}
		}
		release()
		l.g.isDone(worker.attempt.GetTask())
		return running{}, false
	})
	return worker, release
}

// isDone waits until the queue has accepted an outcome of a task.
func (g *grid) isDone(task string) {
	g.t.Helper()
	observe(g, task+" done", func() (bool, bool) { return true, g.task(task).GetState() == pb.TaskState_TASK_STATE_DONE })
}

func TestKillOfTheQueueBetweenReceiptAndCommit(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(g *grid, seed uint64) {
		l := newLedgered(g, seed, 8)
		l.gated = true
		l.submit()
		worker := g.runningAt(l.name, func(*pilotProcess) bool { return true })
		release := g.holdDatabase()
		seen := strings.Count(g.queue.log.String(), "outcomes received")
		l.open(worker.task())
		observe(g, "outcomes received by the queue while it cannot commit", func() (bool, bool) {
			return true, strings.Count(g.queue.log.String(), "outcomes received") > seen
		})
		killed(g.t, seed, g.queue, "outcomes received and not committed")
		release()
		g.startQueue()
		l.open("all")
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

// The first unfinished file in any cache is an output on its way in. Its pilot
// is stopped before one looks again, so that the file is unfinished at the kill.
func TestKillOfAPilotWithAFileHalfPublished(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(g *grid, seed uint64) {
		l := newLedgered(g, seed, 3)
		l.padding, l.linked = 12<<10, true
		l.submit()
		victim := observe(g, "an unfinished file in a pilot's cache", func() (*pilotProcess, bool) {
			for _, p := range g.pilots {
				if !p.running() || !p.halfPublished(g.t) {
					continue
				}
				p.freeze(g)
				if p.halfPublished(g.t) {
					return p, true
				}
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
			}
			return nil, false
		})
		killed(g.t, seed, victim.process, "a file half published")
		if !victim.halfPublished(g.t) {
			g.t.Error("the file was published before the kill")
		}
		l.wait()
		l.reconcile()
	})
}

// halfPublished tells whether the pilot's cache holds an unfinished file.
func (p *pilotProcess) halfPublished(t *testing.T) bool {
	t.Helper()
	unfinished, err := filepath.Glob(filepath.Join(p.dir, "cache", "tmp", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range unfinished {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// freeze stops a process and waits until all of its threads stand still.
func (p *process) freeze(g *grid) {
	g.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		g.t.Fatal(err)
	}
	observe(g, p.name+" standing still", func() (bool, bool) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		if err != nil {
			g.t.Fatal(err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "T") {
				return false, false
			}
		}
		return true, len(threads) > 0
	})
}
