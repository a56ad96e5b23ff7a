package bench

import (
	"testing"

	"github.com/pilotage-grid/pilotage/dht"
)

// Whoever takes masters away measures how soon they are missed: by production's
// times, however many pilots share the process. Members of many are given longer.
func TestMastersAreMissedByProductionsTimes(t *testing.T) {
	mixed := func(pilots int) dht.Config {
		c := patient(pilots)
		c.Beat, c.PingTimeout, c.Election.Silence = 0, 0, 0
		return c
	}
	for _, c := range []struct {
		pilots, kills, hangs int
		want                 dht.Config
	}{
		{250, 0, 0, patient(250)},
		{500, 1, 0, dht.Config{}},
		{500, 0, 1, dht.Config{}},
		{501, 0, 1, mixed(501)},
		{1500, 0, 0, patient(1500)},
		{1500, 1, 0, mixed(1500)},
	} {
		if got := (Overlay{Pilots: c.pilots, Harm: Harm{KillMasters: c.kills, HangMasters: c.hangs}}).timing(); got != c.want {
			t.Errorf("%d pilots, %d masters killed, %d stopped: %+v, want %+v", c.pilots, c.kills, c.hangs, got, c.want)
		}
	}
}

// What is left of a pilot that was killed takes itself for master, as it hears nobody
// any more: it is none.
func TestAKilledPilotTakesNoOffice(t *testing.T) {
	o := newObservations()
	o.inOffice(0, 1)
	o.lost(0, 5, false)
	o.inOffice(0, 5)
	if master, _ := o.master(0); master != 1 || o.terms != 1 {
		t.Errorf("pilot %d is master after %d terms", master, o.terms)
	}
	o.lost(0, 1, false)
	o.inOffice(0, 2)
	if master, _ := o.master(0); master != 2 || len(o.killed) != 1 {
		t.Errorf("pilot %d is master, %d failovers", master, len(o.killed))
	}
	o.lost(0, 2, true)
	o.inOffice(0, 3)
	o.inOffice(0, 2) // it goes on, and is elected again
	if master, _ := o.master(0); master != 2 || len(o.hung) != 1 {
		t.Errorf("pilot %d is master, %d failovers after stops", master, len(o.hung))
	}
}
