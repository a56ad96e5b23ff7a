package loop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever posts never waits; work is done in the order of each poster.
func TestWorkKeepsItsOrderAndNobodyWaits(t *testing.T) {
	l := New()
	ctx, stop := context.WithCancel(t.Context())
	const posters, each = 8, 500
	var got [posters][]int
	var wait, done sync.WaitGroup
	done.Add(posters * each)
	for p := range posters {
		wait.Go(func() {
			for n := range each {
				l.Post(func() { got[p] = append(got[p], n); done.Done() })
			}
		})
	}
	ended := make(chan error)
	go func() { ended <- l.Run(ctx, func() {}) }()
	wait.Wait()
	done.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for p := range posters {
		if !slices.IsSorted(got[p]) || len(got[p]) != each {
			t.Errorf("poster %d: %d pieces of work, sorted: %v", p, len(got[p]), slices.IsSorted(got[p]))
		}
	}
	if left := l.take(); len(left) != 0 {
		t.Errorf("%d pieces left", len(left))
	}
}

// The loop wakes at the earlier deadline, at one that has passed at once, and at
// none when there is none.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		began, ticks := time.Now(), []time.Duration(nil)
		first, second := began.Add(3*time.Second), began.Add(2*time.Second)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		l.Post(func() {})
		_ = l.Run(ctx, func() {
			ticks = append(ticks, time.Since(began))
			if second.IsZero() {
				first = time.Time{}
			}
			second = time.Time{}
		}, func() time.Time { return first }, func() time.Time { return second })
		if want := []time.Duration{2 * time.Second, 3 * time.Second}; !slices.Equal(ticks, want) {
			t.Errorf("it woke after %v, want %v", ticks, want)
		}
	})
}
