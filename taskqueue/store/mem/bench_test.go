package mem_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// BenchmarkLease hands out a page of 1,000 tasks and takes it back, with ever
// more tasks queued: the time must hardly grow.
func BenchmarkLease(b *testing.B) {
	for _, queued := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(queued), func(b *testing.B) {
			store := mem.New()
			defer store.Close()
			queue(b, store, queued)
			from, to := task.Ready, task.Leased
			for b.Loop() {
				err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
					found, err := tx.Tasks().ReadyIn(1, 0, 1000)
					if from == task.Leased {
						found, err = tx.Tasks().InLease(7)
					}
					if err != nil {
						return err
					}
					if len(found) != 1000 {
						return fmt.Errorf("%d tasks, want 1000", len(found))
					}
					for i := range found {
						found[i].State, found[i].Lease = to, 7
					}
					return tx.Tasks().Save(found...)
				})
				if err != nil {
					b.Fatal(err)
				}
				from, to = to, from
			}
		})
	}
}

func queue(b *testing.B, store taskqueue.Store, queued int) {
	b.Helper()
	err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
		for i := range queued {
			id := task.NewID("w-aaaaaaaaaa", fmt.Sprintf("t[%07d]", i))
			state := taskqueue.TaskState{ID: id, Seq: uint64(i + 1), State: task.Ready, Class: 1}
			if err := tx.Tasks().Add([]task.Task{{ID: id, Shell: "true"}}, []taskqueue.TaskState{state}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSmallUpdate is the cost of an Update that changes one value.
func BenchmarkSmallUpdate(b *testing.B) {
	store := mem.New()
	defer store.Close()
	b.ReportAllocs()
	for b.Loop() {
		err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
			_, err := tx.Meta().Next("n", 1)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
