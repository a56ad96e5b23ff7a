package tables

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A batch ends when nobody waits, or at one of these: the first to come
// should not wait long for the last.
const (
	batchMembers = 256
	batchTime    = 5 * time.Millisecond
)

// writer runs Updates one after the other, and commits together what waits. One caller's
// goroutine leads: it runs the Updates of all who wait, so that a batch is not held up by
// goroutines that have to be woken one by one. After its own it hands on.
type writer struct {
	engine   Engine
	witness  Witness
	patience time.Duration // how long a batch may stay open
	decoded  *lru.Cache[string, decoded]

	mutex sync.Mutex // guards these two
	line  line
	led   bool

	blocks blocks // the leader's; stay in memory from one batch to the next
	total  total  // the leader's: as it was committed last
}

// batch is a transaction that several Updates share.
type batch struct {
	began   time.Time
	members []*update
	alone   bool
	broken  error // why it cannot be committed
}

// update runs one Update and waits for its commit. Lost with others, it tells
// that another try alone may succeed.
func (w *writer) update(ctx context.Context, write func(taskqueue.Tx) error, alone bool) (err error, again bool) {
	u := &update{ctx: ctx, party: taskqueue.PartyOf(ctx), write: write, alone: alone, turn: make(chan struct{})}
	w.mutex.Lock()
	w.line.add(u)
	if !w.led {
		w.led, u.leads = true, true
		close(u.turn)
	}
	w.mutex.Unlock()
	<-u.turn
	if u.leads {
		w.lead(u)
	}
	if u.panicked != nil {
		panic(u.panicked)
	}
	return u.err, u.again
}

// lead runs batches until the leader's own Update is over.
func (w *writer) lead(own *update) {
	defer w.handOn()
	for !own.over {
		w.run()
	}
}

func (w *writer) handOn() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	next, _ := w.line.first()
	if next == nil {
		w.led = false
		return
	}
	next.leads = true
	close(next.turn)
}

// run carries out one batch.
func (w *writer) run() {
	b := &batch{}
	defer w.commit(b) // also when a write ends the leader's goroutine
	for u := w.next(b); u != nil; u = w.next(b) {
		began := time.Now()
		w.join(b, u)
		w.mutex.Lock()
		w.line.charge(u.party, time.Since(began))
		w.mutex.Unlock()
	}
}

// next takes out of the line who is the next member of a batch; nil: it is full.
func (w *writer) next(b *batch) *update {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	u, place := w.line.first()
	if n := len(b.members); u == nil || n > 0 && (u.alone || b.alone || b.broken != nil || n >= batchMembers || time.Since(b.began) >= w.patience) {
		return nil
	}
	w.line.take(place)
	return u
}

// join runs an Update as a member of a batch.
func (w *writer) join(b *batch, u *update) {
	if u.err = u.ctx.Err(); u.err != nil {
		u.end()
		return
	}
	if len(b.members) == 0 {
		in, err := w.engine.Begin(true)
		if err != nil {
			u.err = err
			u.end()
			return
		}
		b.began, b.alone = time.Now(), u.alone
		w.blocks.in, w.blocks.total = in, w.total
	}
	b.members = append(b.members, u)
	w.member(b, u)
}

// end wakes whoever waits for an Update.
func (u *update) end() {
	u.over = true
	if !u.leads {
		close(u.turn)
	}
}

var errPanic = errors.New("an update has panicked")

// member runs the write of an Update and takes back what it did if it fails.
func (w *writer) member(b *batch, u *update) {
	w.blocks.begin()
	tx := &tx{blocks: &w.blocks, decoded: w.decoded}
	u.err = errPanic // unless it gets to its end
	defer func() {
		if value := recover(); value != nil {
			u.panicked = panicOf(value)
		}
		tx.end()
		if u.err != nil && !w.blocks.takeBack() {
			b.broken = u.err
		}
	}()
	err := u.write(tx)
	if err == nil {
		err = tx.finish()
	}
	u.err = err
}

// panicOf keeps where a panic came from, for the goroutine that has to go on with it.
func panicOf(value any) error {
	cause, isError := value.(error)
	if !isError {
		cause = fmt.Errorf("%v", value)
	}
	return fmt.Errorf("%w: %w\n%s", errPanic, cause, debug.Stack())
}

// commit ends a batch and wakes its members.
func (w *writer) commit(b *batch) {
	if len(b.members) == 0 {
		return
	}
	err := b.broken
	if err == nil {
		err = w.write()
	}
	if err != nil {
		w.blocks.in.Rollback()
		w.blocks.empty()
	}
	for _, u := range b.members {
		if err != nil { // also an Update's own error may rest on what others in the batch wrote
			u.err, u.again = err, len(b.members) > 1
		}
		u.end()
	}
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
