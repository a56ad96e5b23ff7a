package agent

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// What a master tells its members of the site is all that it knows itself.
func TestSettingsReachMembersWhole(t *testing.T) {
	told := task.SiteSettings{
		Site: "siteA", SE: "https://se.example/vo", RemoteRead: true, Mode: "distributed", Draining: true,
		RoundEvery: 20 * time.Second, Prefill: 3,
	}
	data, err := encodeSettings(told)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := decodeSettings("siteA", data)
	if err != nil || heard != told {
		t.Errorf("heard %+v (%v), told %+v", heard, err, told)
	}
	if _, err := decodeSettings("siteB", data); err == nil {
		t.Error("the settings of another site were taken")
	}
	if _, err := decodeSettings("siteA", []byte("centralized")); err == nil {
		t.Error("bytes that are no settings were taken")
	}
	if _, err := decodeSettings("siteA", nil); err == nil {
		t.Error("empty settings were taken")
	}
}

// Two calls are under way when the site's mode changes: the answer that was
// given before the change and arrives after the other does not undo it.
func TestLateAnswersDoNotUndoSettings(t *testing.T) {
	var a siteSettings
	take := func(asked time.Time, mode, want string) {
		t.Helper()
		a.take(asked, task.SiteSettings{Site: "siteA", Mode: mode})
		if got := a.get().Mode; got != want {
			t.Errorf("mode %s, want %s", got, want)
		}
	}
	before := time.Now()
	take(before, "centralized", "centralized")
	asked := time.Now()
	take(asked, "distributed", "distributed")
	take(asked, "centralized", "distributed")
	take(asked, "distributed", "distributed")
	take(time.Now(), "centralized", "centralized")
}
