// Package server is the task queue of simulations: the product's rules over a store, and
// the product's serving around them, in virtual time. The links to it, its clocks and its
// disk are its host's.
//
// It starts no goroutine; a queue belongs to one goroutine.
package server

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// Host is where a queue runs.
type Host interface {
	// Times are what its clocks say: that of the service, the machine's, and the one on
	// the wall.
	Times() (service taskqueue.Instant, machine, wall time.Time)
	// After calls a function once, as an event of its own.
	After(d time.Duration, do func())
	// Update is Queue.Update, with what the host makes of its outcome.
	Update(change func(*taskqueue.Turn) error) error
	// Stir notes that Matching.CallIn has something to do.
	Stir()
}

// Queue is a task queue from the start of its process on.
type Queue struct {
	Rules    *taskqueue.Rules
	Desk     *serving.Desk
	Matching *serving.Matching

	host   Host
	store  taskqueue.Store
	random *rand.Rand
	calls  []*Call // under way

	stirred bool              // something has changed, beside signs of life, since the last tick began
	due     taskqueue.Instant // of the next tick, unless something changes
}

// Open begins with what a store has, and nothing else.
func Open(host Host, store taskqueue.Store, random *rand.Rand, config taskqueue.Config, holds serving.Holds) *Queue {
	q := &Queue{Rules: taskqueue.NewRules(config), Desk: serving.NewDesk(holds), host: host, store: store, random: random}
	q.Matching = serving.NewMatching(serving.Turns{
		Rules:  q.Rules,
		Clock:  func() taskqueue.Instant { return q.moment().Service },
		Update: func(_ context.Context, change func(*taskqueue.Turn) error) error { return host.Update(change) },
		View:   func(_ context.Context, read func(*taskqueue.Turn) error) error { return q.View(read) },
	}, q.Desk, host.Stir)
	return q
}

func (q *Queue) moment() serving.Moment {
	service, machine, _ := q.host.Times()
	return serving.Moment{Service: service, Machine: machine}
}

func (q *Queue) turn(tx taskqueue.Tx, effects *taskqueue.Effects) *taskqueue.Turn {
	service, _, wall := q.host.Times()
	return &taskqueue.Turn{Tx: tx, Clock: service, Wall: wall, Random: q.random, Effects: effects}
}

// Update applies rules in one transaction and wakes whom it concerns.
func (q *Queue) Update(change func(*taskqueue.Turn) error) (effects taskqueue.Effects, err error) {
	changed := false
	err = q.store.Update(context.Background(), func(tx taskqueue.Tx) error {
		effects = taskqueue.Effects{}
		err := taskqueue.In(q.turn(tx, &effects), change)
		changed = tx.Changed()
		return err
	})
	if err == nil {
		q.stirred = q.stirred || changed
		q.Matching.Changed(&effects)
		q.Desk.Changed(&effects)
	}
	return effects, err
}

// View reads what the queue keeps.
func (q *Queue) View(read func(*taskqueue.Turn) error) error {
	return q.store.View(context.Background(), func(tx taskqueue.Tx) error {
		return taskqueue.In(q.turn(tx, &taskqueue.Effects{}), read)
	})
}

// Register takes a pilot in, and describes it as it describes itself.
func (q *Queue) Register(r taskqueue.Registration) (registered taskqueue.Registered, self matcher.Pilot, err error) {
	err = q.host.Update(func(t *taskqueue.Turn) (err error) {
		registered, err = q.Rules.Register(t, r)
		return err
	})
	return registered, matcher.Pilot{
		ID: registered.Pilot, Site: r.Site, Host: r.Host, Resources: r.Resources, Slots: r.Slots, Features: r.Features, Walls: r.Walls,
		Arch: "amd64", OS: "linux", Lifetime: r.Ends.Sub(q.moment().Machine),
	}, err
}

// Tick does what only time brings about, and tells when to call it again.
func (q *Queue) Tick() (next taskqueue.Instant, err error) {
	most := q.moment().Service.Add(q.Rules.Config.Workflow.TickEvery)
	if q.stirred || q.moment().Service >= q.due {
		q.stirred = false
		if err = q.host.Update(q.Rules.Tick); err != nil {
			q.stirred = true
			return 0, err
		}
		err = q.View(func(t *taskqueue.Turn) (err error) {
			q.due, err = q.Rules.Deadline(t, !q.stirred)
			return err
		})
	}
	return min(q.due, most), err
}

// SaveSigns writes the signs of life that are due.
func (q *Queue) SaveSigns() error {
	now := q.moment().Service
	due := q.Matching.SignsDue(now)
	if len(due) == 0 {
		return nil
	}
	stirred := q.stirred
	err := q.host.Update(func(t *taskqueue.Turn) error { return q.Matching.SaveSigns(t, due, now) })
	q.stirred = stirred
	return err
}

// Deliver takes outcomes of a pilot without a master.
func (q *Queue) Deliver(site task.Site, pilot task.PilotID, d *worker.DeliverToQueue) (delivered worker.DeliveredToQueue, err error) {
	err = q.host.Update(func(t *taskqueue.Turn) (err error) {
		delivered.Acks, err = q.Rules.Deliver(t, taskqueue.Delivery{
			Site: site, Pilot: pilot, Outcomes: slices.Clone(d.Outcomes), Stored: slices.Clone(d.Stored),
		})
		return err
	})
	for _, s := range d.Stored {
		delivered.Stored = append(delivered.Stored, s.Output())
	}
	return delivered, err
}
