package sqlite

import (
	"cmp"
	"context"
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

// writer runs Updates one after the other on one connection. Those that find
// others waiting leave their transaction open for them; the last commits.
type writer struct {
	waiting  atomic.Int64
	patience time.Duration // how long a batch may stay open
	mutex    sync.Mutex    // guards what follows
	conn     *connection
	batch    *batch // open transaction, nil if none
}

// batch is a transaction that several Updates share.
type batch struct {
	began   time.Time
	members int
	broken  error         // why SQLite gave up the transaction, if it did
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
		if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
			return nil, err
		}
		w.batch = &batch{began: time.Now(), done: make(chan struct{})}
	}
	w.batch.members++
	return w.batch, w.member(write)
}

// member runs write under a savepoint and takes back what it did if it fails.
func (w *writer) member(write func(taskqueue.Tx) error) error {
	if _, err := w.conn.exec("SAVEPOINT member"); err != nil {
		w.batch.broken = err
		return err
	}
	tx := &tx{conn: w.conn}
	kept := false
	defer func() {
		tx.end()
		if kept {
			return
		}
		w.takeBack(tx.failed)
	}()
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.finish(); err != nil {
		return err
	}
	if _, err := w.conn.exec("RELEASE member"); err != nil {
		return err
	}
	kept = true
	return nil
}

// takeBack undoes what the running member did. After some failures of the
// disk SQLite has undone the whole transaction already: then the batch fails
// with the cause.
func (w *writer) takeBack(cause error) {
	_, err := w.conn.exec("ROLLBACK TO member")
	if err == nil {
		_, err = w.conn.exec("RELEASE member")
	}
	if err != nil {
		w.batch.broken = cmp.Or(cause, err)
	}
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
		_, b.err = w.conn.exec("COMMIT")
	}
	if b.err != nil {
		_, _ = w.conn.exec("ROLLBACK") // fails if SQLite did it by itself
	}
	close(b.done)
}
