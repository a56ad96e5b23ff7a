package serving

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func TestBrokenOffIsWhatNothingSpeaksAgainst(t *testing.T) {
	machine := time.Now()
	moment := func(d time.Duration) Moment { return Moment{taskqueue.Instant(d), machine.Add(d)} }
	at, later := moment(10*time.Second), moment(11*time.Second)
	term, old := task.Term{Epoch: 2, Peer: "m"}, task.Term{Epoch: 1, Peer: "o"}
	arrive := func(d *Desk, of task.Term, by *Connection) *Call {
		return d.Sync(at, &task.Sync{Site: "s", Pilot: task.PilotID(of.Peer), Term: of, Hold: time.Minute}, by, func() {})
	}
	heard := func(d *Desk, of task.Term, by *Connection) *Call { // and parked, as the second call of a term is
		d.Looked(at, arrive(d, of, by), &task.PullReply{}, true)
		c := arrive(d, of, by)
		d.Looked(at, c, &task.PullReply{}, true)
		return c
	}
	for name, test := range map[string]struct {
		happens func(d *Desk, gone, stands *Connection)
		want    taskqueue.Instant
	}{
		"heard and gone": {func(d *Desk, gone, _ *Connection) {
			c := arrive(d, term, gone)
			d.Looked(at, c, &task.PullReply{}, true)
			d.Leave(at, c)
			d.HangUp(later, gone)
		}, later.Service},
		"heard and there": {func(d *Desk, _, stands *Connection) { heard(d, term, stands) }, 0},
		"parked, left and gone": {func(d *Desk, gone, _ *Connection) {
			c := heard(d, term, gone)
			d.HangUp(at, gone)
			d.Leave(later, c)
		}, later.Service},
		"another call is being served": {func(d *Desk, gone, stands *Connection) {
			heard(d, term, gone)
			d.HangUp(at, gone)
			arrive(d, term, stands)
		}, 0},
		"parked by the old connection, heard by the new one": {func(d *Desk, gone, stands *Connection) {
			parked := heard(d, term, gone)
			newer := arrive(d, term, stands)
			d.Looked(at, newer, &task.PullReply{}, true)
			d.Leave(at, newer)
			d.Leave(later, parked)
			d.HangUp(later, gone)
		}, 0},
		"the term before": {func(d *Desk, gone, _ *Connection) {
			heard(d, old, gone)
			d.HangUp(later, gone)
		}, 0},
		"not in office": {func(d *Desk, gone, _ *Connection) {
			d.Looked(at, arrive(d, term, gone), &task.PullReply{}, false)
			d.HangUp(later, gone)
		}, 0},
		"known from the store only": {func(d *Desk, _, _ *Connection) { d.Assume("s", term, at.Service) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, gone, stands := NewDesk(DefaultHolds), &Connection{}, &Connection{}
			test.happens(d, gone, stands)
			if got := d.brokenOff("s", term, later); got != test.want {
				t.Errorf("broken off at %d, want %d", got, test.want)
			}
		})
	}
}

// A call that comes after a later one of its pilot is no sign of life: the later one, which
// is parked, still is.
func TestACallThatComesTooLateIsNoSignOfLife(t *testing.T) {
	machine := time.Now()
	moment := func(d time.Duration) Moment { return Moment{taskqueue.Instant(d), machine.Add(d)} }
	desk, term := NewDesk(DefaultHolds), task.Term{Epoch: 2, Peer: "m"}
	look := func(at Moment, number uint64) *Call {
		in := &task.Pull{Sync: task.Sync{Site: "s", Pilot: "m", Term: term, Hold: time.Minute, Number: number}}
		c := desk.Pull(at, in, nil, func() {})
		desk.Looked(at, c, &task.PullReply{}, true)
		return c
	}
	first := look(moment(time.Second), 5)
	look(moment(2*time.Second), 5) // which is parked
	desk.Leave(moment(2*time.Second), first)
	desk.Leave(moment(3*time.Second), look(moment(3*time.Second), 4))
	now := taskqueue.Instant(8 * time.Second)
	if sign, heard := desk.Heard("s", now); !heard || sign.At != now {
		t.Errorf("heard at %v, a call of it is parked at %v", sign.At, now)
	}
}
