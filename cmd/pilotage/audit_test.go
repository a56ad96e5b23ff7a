package main

import (
	"testing"
	"time"
)

// A time means all of what it names: a minute all of its seconds. Without a date it is
// the last one that has begun.
func TestATimeMeansAllOfWhatItNames(t *testing.T) {
	now := time.Date(2026, 11, 24, 13, 5, 30, 0, time.UTC)
	for text, want := range map[string][2]string{
		"2026-11-24T13:05:07Z":        {"2026-11-24T13:05:07Z", "2026-11-24T13:05:07.999999999Z"},
		"2026-11-24T14:05:07.5+01:00": {"2026-11-24T13:05:07.5Z", "2026-11-24T13:05:07.5Z"},
		"2026-11-24 13:05:07":         {"2026-11-24T13:05:07Z", "2026-11-24T13:05:07.999999999Z"},
		"2026-11-24 13:05":            {"2026-11-24T13:05:00Z", "2026-11-24T13:05:59.999999999Z"},
		"2026-11-24":                  {"2026-11-24T00:00:00Z", "2026-11-24T23:59:59.999999999Z"},
		"13:05":                       {"2026-11-24T13:05:00Z", "2026-11-24T13:05:59.999999999Z"},
		"13:06":                       {"2026-11-23T13:06:00Z", "2026-11-23T13:06:59.999999999Z"},
		"13:05:31":                    {"2026-11-23T13:05:31Z", "2026-11-23T13:05:31.999999999Z"},
		"2h":                          {"2026-11-24T11:05:30Z", "2026-11-24T11:05:30Z"},
	} {
		from, until, err := moments(text, now)
		if got := [2]string{from.UTC().Format(time.RFC3339Nano), until.UTC().Format(time.RFC3339Nano)}; got != want || err != nil {
			t.Errorf("%s is %v, %v: want %v", text, got, err, want)
		}
	}
	if from, _, err := moments("yesterday", now); err == nil {
		t.Errorf("yesterday is %v", from)
	}
}
