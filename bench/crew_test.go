package bench

import "testing"

// Whoever takes masters away measures how soon they are missed: by production's
// times, however many pilots share the process. Else pilots are given longer.
func TestMastersAreMissedByProductionsTimes(t *testing.T) {
	for _, c := range []struct {
		pilots, kills int
		beats, pings  bool // production's
	}{
		{250, 0, false, false},
		{500, 1, true, true},
		{1500, 0, false, false},
		{1500, 1, true, false},
	} {
		timing := Overlay{Pilots: c.pilots, KillMasters: c.kills}.timing()
		if got := timing.Beat == 0 && timing.PingTimeout == 0; got != c.beats {
			t.Errorf("%d pilots, %d masters killed: the master's time-outs are production's: %t, want %t", c.pilots, c.kills, got, c.beats)
		}
		if got := timing.MemberPing == 0; got != c.pings {
			t.Errorf("%d pilots, %d masters killed: the members' time-outs are production's: %t, want %t", c.pilots, c.kills, got, c.pings)
		}
	}
}
