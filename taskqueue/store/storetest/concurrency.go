package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// number reads a value that add1 counts in.
func number(tx taskqueue.Tx, name string) (uint64, error) {
	value, err := tx.Meta().Get(name)
	if err != nil || value == nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

func add1(tx taskqueue.Tx, name string) error {
	n, err := number(tx, name)
	if err != nil {
		return err
	}
	return tx.Meta().Set(name, binary.BigEndian.AppendUint64(nil, n+1))
}

func testConcurrency(t *testing.T, store taskqueue.Store) {
	const writers, each = 16, 20
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
					return first(add1(tx, "left"), add1(tx, "right"))
				})
				if err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	for range 4 {
		group.Go(func() {
			for range each {
				err := store.View(context.Background(), func(tx taskqueue.Tx) error {
					left, _ := number(tx, "left")
					right, err := number(tx, "right")
					if left != right {
						return fmt.Errorf("half an Update was seen: %d and %d", left, right)
					}
					return err
				})
				if err != nil {
					t.Errorf("view: %v", err)
				}
			}
		})
	}
	group.Wait()
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "count", uint64(writers*each))(number(tx, "left"))
	})
}

// testMixedOutcomes lets failing, panicking and succeeding Updates share
// whatever a store commits together.
func testMixedOutcomes(t *testing.T, store taskqueue.Store) {
	const writers, each = 12, 20
	one := func(writer, round int) (err error) {
		defer func() {
			if recover() != nil {
				err = errAbort
			}
		}()
		return store.Update(context.Background(), func(tx taskqueue.Tx) error {
			seq := uint64(writer*each + round + 1)
			_, state := made(fmt.Sprintf("t%d", seq), seq, task.Ready)
			if err := first(add(tx, state), add1(tx, "count")); err != nil {
				return err
			}
			switch writer % 4 {
			case 0:
				return errAbort
			case 1:
				panic(errAbort)
			}
			return nil
		})
	}
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for round := range each {
				if err := one(writer, round); (writer%4 < 2) != errors.Is(err, errAbort) {
					t.Errorf("writer %d: error %v", writer, err)
				}
			}
		})
	}
	group.Wait()
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "count", uint64(writers*each/2))(number(tx, "count"))
		want(t, "tasks", map[taskqueue.ClassID]int{0: writers * each / 2})(tx.Tasks().ReadyClasses())
	})
}

func testClosed(t *testing.T, store taskqueue.Store) {
	update(t, store, prepare)
	if err := store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	called := func(taskqueue.Tx) error {
		t.Error("the function was called on a closed store")
		return nil
	}
	if err := store.Update(context.Background(), called); !errors.Is(err, taskqueue.ErrClosed) {
		t.Errorf("Update: error %v, want ErrClosed", err)
	}
	if err := store.View(context.Background(), called); !errors.Is(err, taskqueue.ErrClosed) {
		t.Errorf("View: error %v, want ErrClosed", err)
	}
}

// testCloseWaits closes while Updates run: each either ran to its end or got
// ErrClosed, and Close returns after the last.
func testCloseWaits(t *testing.T, store taskqueue.Store) {
	var group sync.WaitGroup
	var running sync.WaitGroup
	running.Add(1)
	inside, release := make(chan struct{}), make(chan struct{})
	group.Go(func() {
		err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
			close(inside)
			<-release
			running.Done()
			return tx.Meta().Set("a", []byte("b"))
		})
		if err != nil {
			t.Errorf("the Update that ran: %v", err)
		}
	})
	<-inside
	for range 8 {
		group.Go(func() {
			err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return add1(tx, "n") })
			if err != nil && !errors.Is(err, taskqueue.ErrClosed) {
				t.Errorf("an Update beside Close: %v", err)
			}
		})
	}
	closed := make(chan error, 1)
	group.Go(func() { closed <- store.Close() })
	select {
	case <-closed:
		t.Error("Close did not wait for the running Update")
	default:
	}
	close(release)
	running.Wait()
	group.Wait()
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}
