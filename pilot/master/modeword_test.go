package master

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A master that is behind on the mode of the site does not call a pilot back that has
// just heard another one from the queue.
func TestTheQueuesWordOnTheModeCountsMoreThanAMasters(t *testing.T) {
	var word ModeWord
	now := time.Unix(1e9, 0)
	known := task.SiteSettings{Site: "siteA", Mode: "distributed"}
	behind := task.SiteSettings{Site: "siteA", Mode: task.ModeIsolated}
	if word.MasterSaid(now, known, behind) != 0 {
		t.Error("a master's word is not taken by who has heard nothing from the queue")
	}
	word.QueueSaid(now)
	if wait := word.MasterSaid(now.Add(time.Second), known, behind); wait != queueSaidFor-time.Second {
		t.Errorf("a master's word on the mode is taken after %s", wait)
	}
	storage := known
	storage.SE = "https://se.example/vo"
	if !word.StillSaid(behind) {
		t.Error("what the master said is not what it says")
	}
	if word.MasterSaid(now, known, storage) != 0 {
		t.Error("a master's word on something else is not taken")
	}
	if word.StillSaid(behind) {
		t.Error("a master is held to what it said before")
	}
	if word.MasterSaid(now.Add(queueSaidFor), known, behind) != 0 {
		t.Error("a master's word is never taken")
	}
}
