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
	if !word.TakesMasters(now, known, behind) {
		t.Error("a master's word is not taken by who has heard nothing from the queue")
	}
	word.QueueSaid(now)
	if word.TakesMasters(now, known, behind) {
		t.Error("a master's word on the mode is taken at once")
	}
	storage := known
	storage.SE = "https://se.example/vo"
	if !word.TakesMasters(now, known, storage) {
		t.Error("a master's word on something else is not taken")
	}
	if now = now.Add(queueSaidFor); !word.TakesMasters(now, known, behind) {
		t.Error("a master's word is never taken")
	}
}
