package page

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who may not look any more sees no names, however long the stream lasts; what was learned
// is remembered for a while.
func TestSightIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, may := 0, true
		s := &sight{known: make(map[string]bool), of: func(string) bool {
			asked++
			return may
		}}
		for range 10 {
			if !s.sees("w-a") || !s.sees("w-b") {
				t.Error("a viewer does not see what may be seen")
			}
		}
		if may = false; asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		<-time.After(sightTime)
		if s.sees("w-a") || s.sees("w-b") {
			t.Error("who has left the group still sees")
		}
	})
}

// Who waits for an answer that another viewer asks for goes when the own time is over; the
// next one gets it.
func TestWhoWaitsForAnAnswerMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, release := NewAnswers[int](10), make(chan struct{})
		ask := func() (int, time.Time, error) {
			<-release
			return 7, time.Now().Add(time.Minute), nil
		}
		go func() { _, _ = answers.Get(t.Context(), "k", ask) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := answers.Get(ctx, "k", ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits gets %v", err)
		}
		close(release)
		if v, err := answers.Get(t.Context(), "k", nil); v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}
