package tables

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A batch ends when nobody waits, or at one of these: the first to come
// should not wait long for the last.
const (
	batchMembers = 256
	batchTime    = 5 * time.Millisecond
)

// writer runs Updates one after the other. Those that find others waiting leave their
// transaction open for them; the last commits. The goroutines are those of the callers.
type writer struct {
	engine   Engine
	witness  Witness
	waiting  atomic.Int64
	patience time.Duration // how long a batch may stay open
	mutex    sync.Mutex    // guards what follows
	blocks   blocks        // stay in memory from one batch to the next
	total    total         // as it was committed last
	batch    *batch        // open transaction, nil if none
}

// batch is a transaction that several Updates share.
type batch struct {
	began   time.Time
	members int
	broken  error         // why it cannot be committed
	done    chan struct{} // closed after the commit
	err     error         // of the commit
}

// update runs one Update and waits for its commit. Lost with others, it tells
// that another try alone may succeed.
func (w *writer) update(ctx context.Context, write func(taskqueue.Tx) error, alone bool) (err error, again bool) {
	w.waiting.Add(1)
	w.mutex.Lock()
	w.waiting.Add(-1)
	joined, err := w.join(ctx, write, alone)
	if joined == nil {
		return err, false
	}
	<-joined.done // an error, too, may rest on what others in the batch wrote
	if joined.err != nil {
		return joined.err, joined.members > 1 && !alone
	}
	return err, false
}

// join runs write as a member of the open batch, or of a new one. It is
// called with the mutex held, and releases it also when write panics.
func (w *writer) join(ctx context.Context, write func(taskqueue.Tx) error, alone bool) (*batch, error) {
	defer w.mutex.Unlock()
	defer w.settle(alone)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if alone {
		w.commit()
	}
	if w.batch == nil {
		in, err := w.engine.Begin(true)
		if err != nil {
			return nil, err
		}
		w.batch = &batch{began: time.Now(), done: make(chan struct{})}
		w.blocks.in, w.blocks.total = in, w.total
	}
	w.batch.members++
	return w.batch, w.member(write)
}

var errPanic = errors.New("an update has panicked")

// member runs write and takes back what it did if it fails.
func (w *writer) member(write func(taskqueue.Tx) error) (err error) {
	w.blocks.begin()
	tx := &tx{blocks: &w.blocks}
	kept := false
	defer func() {
		tx.end()
		if !kept && !w.blocks.takeBack() {
			w.batch.broken = cmp.Or(err, errPanic)
		}
	}()
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.finish(); err != nil {
		return err
	}
	kept = true
	return nil
}

// settle commits the open batch unless somebody who waits will.
func (w *writer) settle(alone bool) {
	b := w.batch
	if b == nil {
		return
	}
	if !alone && b.broken == nil && w.waiting.Load() > 0 && b.members < batchMembers && time.Since(b.began) < w.patience {
		return
	}
	w.commit()
}

// commit ends the open batch, if there is one, and wakes its members.
func (w *writer) commit() {
	b := w.batch
	if b == nil {
		return
	}
	w.batch = nil
	if b.err = b.broken; b.err == nil {
		b.err = w.write()
	}
	if b.err != nil {
		w.blocks.in.Rollback()
		w.blocks.empty()
	}
	close(b.done)
}

// write makes the open batch durable.
func (w *writer) write() error {
	commit, err := w.blocks.seal()
	if err == nil {
		err = w.blocks.in.Commit()
	}
	if err != nil || commit == w.total.commits {
		return err
	}
	if w.total = w.blocks.total; w.witness != nil {
		w.witness.Write(commit)
	}
	return nil
}
