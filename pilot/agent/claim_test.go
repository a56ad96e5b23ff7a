package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// deafQueue answers claims or does not.
type deafQueue struct {
	Queue

	err error
}

func (q *deafQueue) Claim(context.Context, dht.Claim) (ClaimReply, error) { return ClaimReply{}, q.err }

// A queue that is away for hours is asked for the mastership twice a second,
// and that is in the log once.
func TestQueueThatIsAwayIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	queue := &deafQueue{err: errors.New("away")}
	a := &claims{
		shell: &shell{log: slog.New(slog.NewTextHandler(&log, nil))}, queue: queue,
		settle: func(time.Time, task.SiteSettings) {}, refuse: func(string) {},
	}
	said := func() int { return strings.Count(log.String(), "cannot be asked for the mastership") }
	for range 7200 {
		if answer := a.claim(t.Context(), dht.Claim{}); answer.Reached {
			t.Fatal("it was reached")
		}
	}
	if said() != 1 {
		t.Errorf("said %d times", said())
	}
	queue.err = nil
	a.claim(t.Context(), dht.Claim{})
	queue.err = errors.New("away again")
	a.claim(t.Context(), dht.Claim{})
	if said() != 2 {
		t.Errorf("said %d times of two absences", said())
	}
}
