package staging

import (
	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/sim"
)

// Desk grants reads of storage elements on behalf of the homes of files.
type Desk struct {
	Answer func(cache.Answer) // carries an answer to its pilot

	clock  sim.Clock
	grants *cache.Grants
	alarm  sim.Alarm
}

// NewDesk returns a desk that has granted nothing.
func NewDesk(clock sim.Clock, answer func(cache.Answer)) *Desk {
	return &Desk{Answer: answer, clock: clock, grants: cache.NewGrants(cache.GrantsConfig{})}
}

// Tell tells it of a pilot's word, or of its end.
func (d *Desk) Tell(event cache.GrantEvent) {
	for _, action := range d.grants.Step(d.clock.Now(), event) {
		if answer, ok := action.(cache.Answer); ok {
			d.Answer(answer)
		}
	}
	d.alarm.Set(d.clock, d.grants.Deadline(), func() { d.Tell(cache.Tick{}) })
}
