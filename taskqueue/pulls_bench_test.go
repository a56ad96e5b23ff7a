package taskqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// hall serves many pilots at once, as a server does.
type hall struct {
	*desk
	began    time.Time
	calls    *serving.Desk
	matching *serving.Matching
}

func newHall(d *desk) *hall {
	h := &hall{desk: d, began: time.Now(), calls: serving.NewDesk(serving.DefaultHolds)}
	h.matching = serving.NewMatching(serving.Turns{Rules: d.rules, Update: h.update, View: h.look, Clock: h.now}, h.calls, func() {})
	return h
}

func (h *hall) now() taskqueue.Instant { return h.clock.Add(time.Since(h.began)) }

func (h *hall) turn(tx taskqueue.Tx, effects *taskqueue.Effects) *taskqueue.Turn {
	now := h.now()
	return &taskqueue.Turn{Tx: tx, Clock: now, Wall: epoch.Add(time.Duration(now)), Random: rand.New(rand.NewPCG(1, uint64(now))), Effects: effects}
}

func (h *hall) update(ctx context.Context, change func(*taskqueue.Turn) error) error {
	var effects *taskqueue.Effects
	err := h.store.Update(ctx, func(tx taskqueue.Tx) error {
		effects = &taskqueue.Effects{}
		return change(h.turn(tx, effects))
	})
	if err == nil {
		h.matching.Changed(effects)
	}
	return err
}

func (h *hall) look(ctx context.Context, read func(*taskqueue.Turn) error) error {
	return h.store.View(ctx, func(tx taskqueue.Tx) error { return read(h.turn(tx, &taskqueue.Effects{})) })
}

// serve is a Pull at the queue.
func (h *hall) serve(p *task.Pull) (task.PullReply, error) {
	call := h.calls.Pull(serving.Moment{Service: h.now(), Machine: time.Now()}, p, nil, func() {})
	reply, _, err := h.matching.Pull(context.Background(), call, p, h.matching.Hear(call, p))
	h.calls.Leave(serving.Moment{Service: h.now(), Machine: time.Now()}, call)
	return reply, err
}

// BenchmarkPullsTogether: the same as BenchmarkPulls, durably, with all 1,500
// pilots calling whenever they have ended a task.
func BenchmarkPullsTogether(b *testing.B) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		b.Run(string(mode), func(b *testing.B) { benchmarkPullsTogether(b, mode) })
	}
}

func benchmarkPullsTogether(b *testing.B, mode taskqueue.Mode) {
	const pilots, tasks = 1_500, 10_000
	store, err := sqlite.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	h := newHall(newDesk(gridOn(b, store)))
	h.addSite("A", inMode(mode))
	team := make([]*solo, pilots)
	for i := range team {
		team[i] = h.solo("A", task.PeerID(fmt.Sprintf("peer%d", i)), 1)
	}
	for b.Loop() { // one workflow from its first task to its last
		if err := h.update(context.Background(), func(t *taskqueue.Turn) error {
			_, err := h.rules.Submit(t, pairs(tasks/2))
			return err
		}); err != nil {
			b.Fatal(err)
		}
		var done atomic.Int64
		var working sync.WaitGroup
		for _, p := range team {
			working.Go(func() {
				for done.Load() < tasks {
					if len(p.inHand) > 0 {
						p.finish(p.inHand[0].Task.ID)
						done.Add(1)
					}
					m := p.message()
					reply, err := h.serve(&m)
					if err != nil {
						b.Error(err)
						return
					}
					p.take(&m, reply)
				}
			})
		}
		working.Wait()
	}
	b.ReportMetric(float64(b.N)*tasks/b.Elapsed().Seconds(), "matches/s")
}

// BenchmarkPulls: pilots that bring an outcome and are matched their next
// task, on 1,500 pilots and 10,000 READY tasks, durably and in memory.
func BenchmarkPulls(b *testing.B) {
	for _, engine := range []string{"memory", "sqlite"} {
		for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
			b.Run(engine+"/"+string(mode), func(b *testing.B) {
				var store taskqueue.Store = mem.New()
				if engine == "sqlite" {
					var err error
					if store, err = sqlite.Open(b.TempDir()); err != nil {
						b.Fatal(err)
					}
				}
				b.Cleanup(func() { _ = store.Close() })
				benchmarkPulls(b, gridOn(b, store), mode)
			})
		}
	}
}

func benchmarkPulls(b *testing.B, g *grid, mode taskqueue.Mode) {
	const pilots, tasks = 1_500, 10_000
	d := newDesk(g)
	d.addSite("A", inMode(mode))
	team := make([]*solo, pilots)
	for i := range team {
		team[i] = d.solo("A", task.PeerID(fmt.Sprintf("peer%d", i)), 1)
	}
	submitted := 0
	more := func() {
		d.mustSubmit(pairs(tasks))
		d.maker.Changed(&d.effects)
		submitted += 2 * tasks
	}
	more()
	for _, p := range team {
		p.pull()
	}
	matches, next := 0, 0
	for b.Loop() {
		p := team[next%pilots]
		next++
		if len(p.inHand) > 0 {
			p.finish(p.inHand[0].Task.ID)
		}
		d.clock = d.clock.Add(time.Millisecond)
		matches += len(p.pull())
		if matches > submitted-tasks {
			b.StopTimer()
			more()
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(matches)/b.Elapsed().Seconds(), "matches/s")
}
