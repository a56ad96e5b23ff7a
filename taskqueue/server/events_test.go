package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// However many steps fail, one after the other or each again and again, the events that
// tell of it are bounded, and none of the failures is left out.
func TestEventsOfFailuresAreBounded(t *testing.T) {
	e := newEvents(slog.New(slog.DiscardHandler))
	now := time.Unix(1_000_000, 0)
	const steps, rounds = 3 * keepFailing, 4
	for range rounds {
		for i := range steps {
			e.tell(now, taskqueue.News{
				Kind: taskqueue.NewsStepFailed, Site: "siteA", Workflow: "w-aaaaaaaaaa", Step: fmt.Sprint("step", i), Task: task.NewID("w-aaaaaaaaaa", "t"), Count: 1, Text: "no",
			})
			now = now.Add(time.Millisecond)
		}
	}
	now = now.Add(failurePause)
	e.tell(now)
	told, further := 0, 0
	for _, event := range e.list {
		var n int
		if _, err := fmt.Sscan(event.Text, &n); err != nil {
			t.Fatal(event.Text, err)
		}
		told += n
		if strings.Contains(event.Text, "further steps") {
			further += n
		}
	}
	if most := 2 * (keepFailing + 3); len(e.list) > most || told != steps*rounds || further < steps {
		t.Errorf("%d events, of at most %d, tell of %d failures of %d, %d of them of further steps", len(e.list), most, told, steps*rounds, further)
	}
}
