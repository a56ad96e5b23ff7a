package server

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
)

// turns are how everything reads and changes what the queue knows: by its rules, in a
// transaction of its store, at a moment of its clock.
type turns struct {
	store   taskqueue.Store
	closed  *auditlog.Closed // what has left the store of the audit log
	rules   *taskqueue.Rules
	clock   clock
	shares  shares                   // of callers in the store
	commits prometheus.Histogram     // seconds that changes of the store have taken
	failed  func(error)              // is told of what the store could not do
	follow  func(*taskqueue.Effects) // is told what a change has to lead to
}

// update runs rules in one transaction and, once it is durable, carries out
// their effects. The function may be called more than once: each time it gets
// fresh effects and the same randomness.
func (ts *turns) update(ctx context.Context, change func(*taskqueue.Turn) error) error {
	changed := false
	err := ts.updateAt(ctx, ts.clock.now(), func(t *taskqueue.Turn) error {
		err := change(t)
		changed = t.Changed()
		return err
	})
	if err == nil && changed {
		ts.clock.stirred.Store(true)
	}
	return err
}

func (ts *turns) updateAt(ctx context.Context, clock taskqueue.Instant, change func(*taskqueue.Turn) error) error {
	began := time.Now()
	defer func() { ts.commits.Observe(time.Since(began).Seconds()) }()
	effects, err := ts.commit(ctx, clock, change)
	if effects != nil {
		ts.follow(effects) // it may wait for locks: the place in the store is given back
	}
	return err
}

// commit runs rules in one transaction; without effects nothing is durable.
func (ts *turns) commit(ctx context.Context, clock taskqueue.Instant, change func(*taskqueue.Turn) error) (effects *taskqueue.Effects, err error) {
	var seed [16]byte
	cryptorand.Read(seed[:]) // never fails (crypto/rand, since Go 1.24)
	wall, c := time.Now(), callerOf(ctx)
	by := c.person
	if c.kind == member {
		by.Name = string(c.pilot)
	}
	worked, err := ts.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer worked.leave()
	err = ts.store.Update(taskqueue.ByParty(ctx, c.party()), func(tx taskqueue.Tx) error {
		defer worked.since(time.Now())
		effects = &taskqueue.Effects{}
		random := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
		return taskqueue.In(&taskqueue.Turn{Tx: tx, Clock: clock, Wall: wall, Random: random, Effects: effects, By: by, Token: c.token}, change)
	})
	if err != nil {
		ts.failed(err)
		return nil, storeFailure(err)
	}
	return effects, nil
}

// carryOut wakes whoever waits for what has changed.
func (s *Server) carryOut(effects *taskqueue.Effects) {
	s.masters.matching.Changed(effects)
	s.masters.desk.Changed(effects)
	s.shown.events.tell(time.Now(), newsOf(effects)...)
	for workflow := range effects.Workflows {
		s.watches.changed(workflow)
	}
}

// ofQueue is the context of what the queue does for all, be it within one caller's call:
// it does not wait in that caller's line for the store.
func ofQueue(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{})
}

// view reads a committed state.
func (ts *turns) view(ctx context.Context, read func(*taskqueue.Turn) error) error {
	worked, err := ts.enter(ctx)
	if err != nil {
		return err
	}
	defer worked.leave()
	err = ts.store.View(ctx, func(tx taskqueue.Tx) error {
		defer worked.since(time.Now())
		return taskqueue.In(&taskqueue.Turn{Tx: tx, Clock: ts.clock.now(), Wall: time.Now()}, read)
	})
	return storeFailure(err)
}

// turnInStore is one call's in its identity's share; the queue's own work has none.
type turnInStore struct {
	shares   *shares
	identity string
	took     time.Duration
}

func (ts *turns) enter(ctx context.Context) (*turnInStore, error) {
	c := callerOf(ctx)
	t := &turnInStore{shares: &ts.shares, identity: c.party()}
	if t.identity == "" {
		return t, nil
	}
	err := t.shares.enter(ctx, t.identity)
	c.arrival.arrived()
	return t, err
}

func (t *turnInStore) since(began time.Time) { t.took += time.Since(began) }

func (t *turnInStore) leave() {
	if t.identity != "" {
		t.shares.leave(t.identity, t.took)
	}
}

// changed is update of a rule with a result.
func changed[T any](ctx context.Context, ts *turns, rule func(*taskqueue.Turn) (T, error)) (result T, err error) {
	err = ts.update(ctx, func(t *taskqueue.Turn) (err error) {
		result, err = rule(t)
		return err
	})
	return result, err
}

// seen is what a view reads.
func seen[T any](ctx context.Context, ts *turns, look func(*taskqueue.Turn) (T, error)) (result T, err error) {
	err = ts.view(ctx, func(t *taskqueue.Turn) (err error) {
		result, err = look(t)
		return err
	})
	return result, err
}
