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
		SiteScheduling: task.SiteScheduling{RoundEvery: 20 * time.Second, Prefill: 3},
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
