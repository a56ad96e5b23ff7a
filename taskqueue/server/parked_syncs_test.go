package server

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// endAt closes a connection at a service time.
func (c *connection) endAt(at taskqueue.Instant) {
	c.end.Store(&connectionEnd{service: at, machine: time.Now()})
}

func TestBrokenOffIsWhatNothingSpeaksAgainst(t *testing.T) {
	const at, later = taskqueue.Instant(10 * time.Second), taskqueue.Instant(11 * time.Second)
	term, old := task.Term{Epoch: 2, Peer: "m"}, task.Term{Epoch: 1, Peer: "o"}
	for name, test := range map[string]struct {
		happens func(d *parkedSyncs, gone, stands *connection)
		want    taskqueue.Instant
	}{
		"heard and gone": {func(d *parkedSyncs, gone, _ *connection) {
			d.hear("s", d.arrive("s", term, gone), at)
			gone.endAt(later)
		}, later},
		"heard and there": {func(d *parkedSyncs, _, stands *connection) {
			d.hear("s", d.arrive("s", term, stands), at)
		}, 0},
		"parked, left and gone": {func(d *parkedSyncs, gone, _ *connection) {
			call := d.arrive("s", term, gone)
			d.hear("s", call, at)
			d.park("s", call)
			gone.endAt(at)
			d.leave("s", call, later)
		}, later},
		"another call is being served": {func(d *parkedSyncs, gone, stands *connection) {
			d.hear("s", d.arrive("s", term, gone), at)
			gone.endAt(at)
			d.arrive("s", term, stands)
		}, 0},
		"parked by the old connection, heard by the new one": {func(d *parkedSyncs, gone, stands *connection) {
			parked := d.arrive("s", term, gone)
			d.hear("s", parked, at)
			d.park("s", parked)
			newer := d.arrive("s", term, stands)
			d.hear("s", newer, at)
			d.leave("s", newer, at)
			d.leave("s", parked, later)
			gone.endAt(later)
		}, 0},
		"the term before": {func(d *parkedSyncs, gone, _ *connection) {
			d.hear("s", d.arrive("s", old, gone), at)
			gone.endAt(later)
		}, 0},
		"known from the store only": {func(d *parkedSyncs, _, _ *connection) { d.assume("s", term, at) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, gone, stands := &parkedSyncs{}, &connection{}, &connection{}
			test.happens(d, gone, stands)
			for call := range d.site("s").tickets {
				if call.by == gone {
					d.leave("s", call, at)
				}
			}
			if got := d.brokenOff("s", term, later); got != test.want {
				t.Errorf("broken off at %d, want %d", got, test.want)
			}
		})
	}
}
