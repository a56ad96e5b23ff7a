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
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// hall is a desk at which many pilots are served at once, as by a server: the
// matchmaker under a lock, transactions as the store takes them.
type hall struct {
	*desk
	began time.Time
	mutex sync.Mutex
}

func (h *hall) commit(change func(*taskqueue.Turn) error) error {
	var effects *taskqueue.Effects
	err := h.store.Update(context.Background(), func(tx taskqueue.Tx) error {
		effects = &taskqueue.Effects{}
		return change(h.turn(tx, effects))
	})
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err == nil {
		h.maker.Changed(effects)
	}
	return err
}

func (h *hall) turn(tx taskqueue.Tx, effects *taskqueue.Effects) *taskqueue.Turn {
	now := h.now()
	return &taskqueue.Turn{Tx: tx, Clock: now, Wall: epoch.Add(time.Duration(now)), Random: rand.New(rand.NewPCG(1, uint64(now))), Effects: effects}
}

func (h *hall) now() taskqueue.Instant { return h.clock.Add(time.Since(h.began)) }

// serve is a Pull at the queue.
func (h *hall) serve(p *task.Pull) (task.PullReply, error) {
	h.mutex.Lock()
	capacity := h.maker.Hear(h.now(), p)
	h.mutex.Unlock()
	var pulled taskqueue.Pulled
	err := h.commit(func(t *taskqueue.Turn) (err error) {
		pulled, err = h.rules.Pull(t, p, capacity)
		return err
	})
	if err != nil {
		return task.PullReply{}, err
	}
	matched, err := h.match(p, &pulled)
	if err != nil || len(matched) == 0 {
		return pulled.Reply, err
	}
	var lease task.Lease
	err = h.commit(func(t *taskqueue.Turn) (err error) {
		lease, err = h.rules.Grant(t, p.Site, p.Pilot, matched)
		return err
	})
	if err != nil {
		return task.PullReply{}, err
	}
	h.mutex.Lock()
	h.maker.Granted(p.Site, p.Pilot, matched, &lease)
	h.mutex.Unlock()
	if len(lease.Tasks) > 0 {
		pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
	}
	return pulled.Reply, nil
}

func (h *hall) match(p *task.Pull, pulled *taskqueue.Pulled) ([]task.ID, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	now := h.now()
	h.maker.Describe(now, pulled, p.Self)
	if h.maker.Stale(now, p.Site) {
		err := h.store.View(context.Background(), func(tx taskqueue.Tx) error {
			return h.maker.Refresh(h.turn(tx, &taskqueue.Effects{}), p.Site)
		})
		if err != nil {
			return nil, err
		}
	}
	return h.maker.Match(now, p.Site, p.Pilot, pulled.Unseen), nil
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
	h := &hall{desk: newDesk(gridOn(b, store)), began: time.Now()}
	h.addSite("A", inMode(mode))
	team := make([]*solo, pilots)
	for i := range team {
		team[i] = h.solo("A", task.PeerID(fmt.Sprintf("peer%d", i)), 1)
	}
	for b.Loop() { // one workflow from its first task to its last
		h.desk.commit(func(t *taskqueue.Turn) error {
			_, err := h.rules.Submit(t, pairs(tasks/2))
			return err
		})
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
