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

// Who follows events has all that are kept, a part at a time: what is in memory for a
// stream that nobody reads does not grow with what has happened.
func TestEventsComeInParts(t *testing.T) {
	e := newEvents(slog.New(slog.DiscardHandler))
	for range keepEvents + keepEvents/2 {
		e.tell(time.Unix(1_000_000, 0), taskqueue.News{Kind: taskqueue.NewsPilotJoined, Site: "siteA"})
		e.tell(time.Unix(1_000_000, 0), taskqueue.News{Kind: taskqueue.NewsPilotJoined, Site: "siteB"})
	}
	for site, want := range map[string]uint64{"": 1, "siteB": 2} {
		var seen []uint64
		behind := uint64(0)
		for {
			found, next := e.next(behind, site, eventsAtOnce)
			if len(found) > eventsAtOnce {
				t.Fatalf("%d events at once", len(found))
			}
			for i := range found {
				seen = append(seen, found[i].Number)
			}
			if next == behind {
				break
			}
			behind = next
		}
		if last := seen[len(seen)-1]; behind != e.number || last != e.number || uint64(len(seen)) != (last-seen[0])/want+1 || len(seen) < keepEvents/int(want) {
			t.Errorf("site %q: %d events from %d to %d of %d", site, len(seen), seen[0], last, e.number)
		}
	}
	if found, behind := e.next(e.number+7, "", eventsAtOnce); len(found) != 0 || behind != e.number {
		t.Errorf("behind what a queue before has counted: %d events, on from %d", len(found), behind)
	}
}
