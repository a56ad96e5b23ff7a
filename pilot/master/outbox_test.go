package master

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// The queue takes word of a copy whose attempt it has not judged yet, and may then be put
// back to a backup that knows nothing of either: the copy is told again with the outcome,
// as its maker has let go of it.
func TestACopyIsToldAgainWithAnOutcomeThatIsNotJudged(t *testing.T) {
	var o outbox
	o.reset()
	attempt := task.AttemptID{Task: task.NewID("w-aaaaaaaaaa", "a"), Generation: 1, Pilot: "p-maker"}
	stored := task.Stored{LFN: "w-aaaaaaaaaa:x", Attempt: attempt, URL: "file:///siteA/x", Size: task.MiB}
	o.addOutcome("maker", task.Outcome{Attempt: attempt, OK: true, Outputs: []task.Produced{{LFN: stored.LFN}}}, nil)
	o.addStored("maker", stored)
	at := &step{now: time.Unix(1e9, 0), config: DefaultConfig()}
	tells := func(want bool, when string) {
		t.Helper()
		var sync task.Sync
		if o.load(&sync, at.now, func(*task.Outcome) bool { return false }); (len(sync.Stored) == 1) != want {
			t.Errorf("%s: a call tells of %d copies", when, len(sync.Stored))
		}
	}
	tells(true, "at first")
	o.echoStored(at, []task.Stored{stored})
	if told, ok := at.out[0].(message.Tell); !ok || told.To != "maker" {
		t.Errorf("whoever stored the copy is not told that the queue knows: %+v", at.out)
	}
	tells(true, "with the outcome that is not judged")
	if o.judged(attempt); !o.empty() {
		t.Error("something of a judged attempt is left")
	}
	tells(false, "when all is judged")
}
