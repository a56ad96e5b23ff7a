package taskqueue_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// BenchmarkGrowth has tasks of ever new classes run at one site, by pilots that
// come and go, through a durable queue, and prints what the queue holds and what
// calls cost as it goes: one hundredth of 1,000,000 tasks, 10,000 pilots and
// 10,000 classes, or the share that PILOTAGE_GROWTH says. An hour passes with
// every hundredth of the work.
func BenchmarkGrowth(b *testing.B) {
	share := shareOfGrowth(b)
	for b.Loop() {
		b.StopTimer()
		folder := b.TempDir()
		store, err := sqlite.Open(folder)
		if err != nil {
			b.Fatal(err)
		}
		g := &growth{grid: gridOn(b, store), folder: folder, pilots: int(10_000 * share / rounds), tasks: int(1_000_000 * share / rounds), classes: int(10_000 * share / rounds)}
		b.StartTimer()
		g.run()
		b.StopTimer()
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// shareOfGrowth is what PILOTAGE_GROWTH says, else one hundredth.
func shareOfGrowth(b *testing.B) float64 {
	b.Helper()
	text := os.Getenv("PILOTAGE_GROWTH")
	if text == "" {
		return .01
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return share
}

// rounds is how many parts the work comes in.
const rounds = 100

// growth is a queue that is watched while it grows.
type growth struct {
	*grid
	folder                 string
	pilots, tasks, classes int // of each round
	master                 taskqueue.Registered
	leases                 []task.LeaseID
	counter                uint64
	done                   int
}

func (g *growth) run() {
	g.must(func(t *taskqueue.Turn) error {
		_, err := g.rules.AddSite(t, taskqueue.SiteRecord{Name: "A", SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A"}})
		return err
	})
	g.master = g.register("master", 720*time.Hour)
	g.sync(task.Sync{Census: task.Census{Joined: []task.PilotID{g.master.Pilot}}})
	_, _ = fmt.Fprintf(os.Stderr, "%9s %8s %8s %8s %9s %9s %9s %9s %9s %9s\n",
		"tasks", "pilots", "known", "classes", "database", "heap", "sync", "busy", "submit", "tick")
	g.show(0)
	for round := range rounds {
		g.round(round)
		if (round+1)%(rounds/10) == 0 {
			g.show(round + 1)
		}
	}
	for range 40 * 12 { // and what is left when all has gone for a day and more
		g.pass()
	}
	g.show(rounds)
}

// round has a part of the work done by new pilots, which then go.
func (g *growth) round(round int) {
	var members []task.PilotID
	for i := range g.pilots {
		members = append(members, g.register(task.PeerID(fmt.Sprintf("peer-%d-%d", round, i)), 2*time.Hour).Pilot)
	}
	g.sync(task.Sync{Census: task.Census{Joined: members}})
	s := taskqueue.Submission{Name: fmt.Sprintf("round%d", round)}
	for i := range g.tasks {
		t := job(fmt.Sprintf("t[%06d]", i), nil, nil)
		t.Require = fmt.Sprintf("pilot.cores > %d", round*g.classes+i%max(1, g.classes))
		s.Tasks = append(s.Tasks, t)
	}
	g.mustSubmit(s)
	g.work(members, g.tasks)
	var departed []task.Departure
	for i, id := range members {
		switch i % 10 {
		case 0:
			g.must(func(t *taskqueue.Turn) error { return g.rules.Deny(t, string(id)) })
		case 1, 2, 3, 4:
			g.must(func(t *taskqueue.Turn) error {
				return g.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: id})
			})
		default:
			departed = append(departed, task.Departure{Pilot: id, Dead: true})
		}
	}
	g.sync(task.Sync{Departed: departed})
	for range 12 {
		g.pass()
	}
}

// pass lets five minutes go by.
func (g *growth) pass() {
	g.tick(5 * time.Minute)
	g.sync(task.Sync{})
}

func (g *growth) register(peer task.PeerID, life time.Duration) (out taskqueue.Registered) {
	g.must(func(t *taskqueue.Turn) (err error) {
		out, err = g.rules.Register(t, taskqueue.Registration{
			Site: "A", Peer: peer, PilotDescription: taskqueue.PilotDescription{
				Slots: 50, Addresses: []string{"/ip4/10.0.0.1/tcp/1"}, Host: "node-" + string(peer),
				Resources: task.Resources{Cores: 50, Memory: 100 * task.GiB, Disk: task.TiB}, Ends: epoch.Add(time.Duration(g.clock) + life),
			},
		})
		return err
	})
	return out
}

func (g *growth) sync(s task.Sync) task.SyncReply {
	s.Capacity = task.Capacity{Pilots: g.pilots + 1, Slots: 5000, FreeSlots: 5000}
	return g.syncAs(s)
}

func (g *growth) syncAs(s task.Sync) (reply task.SyncReply) {
	s.Site, s.Term, s.Pilot, s.Leases = "A", g.master.Term, g.master.Pilot, g.leases
	g.must(func(t *taskqueue.Turn) (err error) {
		reply, err = g.rules.Sync(t, s)
		return err
	})
	g.leases = slices.DeleteFunc(g.leases, func(id task.LeaseID) bool { return slices.Contains(reply.Unknown, id) })
	for i := range reply.Leases {
		if !slices.Contains(g.leases, reply.Leases[i].ID) {
			g.leases = append(g.leases, reply.Leases[i].ID)
		}
	}
	return reply
}

// work does n tasks, in batches of 1,000 outcomes.
func (g *growth) work(members []task.PilotID, n int) {
	var ended []task.Outcome
	for until := g.done + n; g.done < until; {
		batch := ended[:min(len(ended), 1000)]
		ended = ended[len(batch):]
		reply := g.sync(task.Sync{Outcomes: batch})
		for _, ack := range reply.Acks {
			if ack.Verdict != task.AckAccepted {
				g.t.Fatalf("outcome of %s: %v", ack.Attempt, ack.Verdict)
			}
		}
		g.done += len(reply.Acks)
		if len(batch)+len(ended) == 0 && len(reply.Leases) == 0 {
			g.t.Fatalf("no work comes, %d tasks are left", until-g.done)
		}
		for _, lease := range reply.Leases {
			for _, lt := range lease.Tasks {
				g.counter++
				ended = append(ended, task.Outcome{
					OK: true, Number: lt.Number, Site: "A", Run: time.Second, Started: epoch, Ended: epoch,
					Attempt: task.AttemptID{Task: lt.Task.ID, Generation: lt.Generation, Lease: lease.ID, Pilot: members[int(g.counter)%len(members)], Counter: g.counter},
				})
			}
		}
		g.clock = g.clock.Add(100 * time.Millisecond)
	}
}

// show prints a line: what is there, and the median cost of calls.
func (g *growth) show(round int) {
	var pilots, classes int
	g.view(func(t *taskqueue.Turn) error {
		known, err := t.Pilots().OfSite("")
		if err != nil {
			return err
		}
		kept, err := t.Files().Classes()
		pilots, classes = len(known), len(kept)
		return err
	})
	member := []task.PilotID{g.master.Pilot}
	tick := median(func() { g.tick(30 * time.Second) })
	sync := median(func() { g.sync(task.Sync{}) })
	submit := median(func() {
		g.mustSubmit(taskqueue.Submission{Name: fmt.Sprintf("probe%d", g.counter), Tasks: []task.Task{job("t", nil, nil)}})
		g.counter++
	})
	began := time.Now()
	g.work(member, probes)
	busy := time.Since(began) / 2 // a Sync that brings a lease, one that takes outcomes
	var size, heap float64
	files, _ := os.ReadDir(g.folder)
	for _, file := range files {
		if info, err := os.Stat(filepath.Join(g.folder, file.Name())); err == nil && !info.IsDir() {
			size += float64(info.Size()) / (1 << 20)
		}
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	heap = float64(memory.HeapAlloc) / (1 << 20)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1000) }
	_, _ = fmt.Fprintf(os.Stderr, "%9d %8d %8d %8d %6.0fMiB %6.1fMiB %9s %9s %9s %9s\n",
		round*g.tasks, round*g.pilots, pilots, classes, size, heap, ms(sync), ms(busy), ms(submit), ms(tick))
}

// probes is how often a call is measured.
const probes = 11

func median(call func()) time.Duration {
	var took []time.Duration
	for range probes {
		began := time.Now()
		call()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[probes/2]
}
