package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A master that is behind on the mode of the site does not call a pilot back that has
// just heard another one from the queue.
func TestTheQueuesWordOnTheModeCountsMoreThanAMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s siteSettings
		said := task.SiteSettings{Site: "siteA", Mode: "distributed"}
		s.saidByQueue()
		if _, taken := s.take(time.Now(), said); !taken {
			t.Fatal("the queue's word is not taken")
		}
		behind := task.SiteSettings{Site: "siteA", Mode: task.ModeIsolated}
		if s.takesWord(behind) {
			t.Error("a master's word on the mode is taken at once")
		}
		storage := said
		storage.SE = "https://se.example/vo"
		if !s.takesWord(storage) {
			t.Error("a master's word on something else is not taken")
		}
		time.Sleep(task.QueueSaidFor)
		if !s.takesWord(behind) {
			t.Error("a master's word is never taken")
		}
	})
}
