package serving

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// played is a call as the test knows it, by what is said of the desk.
type played struct {
	*Call
	pilot             int
	pull              bool
	changed, attended time.Duration // the last change that concerns it, the last look
	until             time.Duration
	begun, news       bool
	wakes             int
	newer             bool // its pilot has called again
	answered          bool
}

// Whatever happens in which order: a change is seen by a look that begins after it, at
// most a pause later; a call is answered when it brings or gets news, when its pilot calls
// again and when its time is over, and never otherwise; whoever sleeps is woken for each of
// them but the end of the time that it was told.
func TestParkedCallsMissNothingAndAreAnsweredInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start, now := time.Unix(1000, 0), time.Duration(0)
		moment := func() Moment { return Moment{taskqueue.Instant(now + time.Hour), start.Add(now)} }
		holds := Holds{Sync: 2 * time.Second, Pull: 10 * time.Second, Pause: 20 * time.Millisecond}
		d := NewDesk(holds)
		var calls []*played
		state := make(map[int]uint64) // of the site, as told to each pilot
		told := make(map[int]uint64)
		for i := range 3 {
			told[i] = 1 << 60 // nothing yet
		}
		attend := func(c *played) { // as the server's goroutine does
			for !c.answered {
				do, wait := d.Next(moment(), c.Call)
				switch do {
				case Look:
					if c.begun && now-c.attended < holds.Pause {
						t.Fatalf("a look %s after the one before", now-c.attended)
					}
					c.begun, c.attended = true, now
					reply := task.PullReply{SyncReply: task.SyncReply{Roll: state[c.pilot]}}
					d.Looked(moment(), c.Call, &reply, false)
					for _, older := range calls {
						older.newer = older.newer || older.pilot == c.pilot && older.number < c.number && !older.answered
					}
					c.news = c.news || told[c.pilot] != state[c.pilot]
					if c.news && !c.newer {
						told[c.pilot] = state[c.pilot]
					}
				case Answer:
					if !c.news && !c.newer && now < c.until {
						t.Fatal("a call is answered for nothing")
					}
					c.answered = true
					if newest := d.Leave(moment(), c.Call); newest == c.newer {
						t.Fatal("the desk does not know a pilot's newest call")
					}
				case Wait:
					if wait <= 0 || c.news || c.newer || now >= c.until {
						t.Fatalf("a call waits for %s: news %v, ended %v, over since %s", wait, c.news, c.newer, now-c.until)
					}
					if c.changed > c.attended && wait > holds.Pause {
						t.Fatal("a change is missed")
					}
					return
				}
			}
		}
		all := func() {
			for _, c := range calls {
				attend(c)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			pilot := rapid.IntRange(0, 2).Draw(t, "pilot")
			id := task.PilotID(fmt.Sprint("p", pilot))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c := &played{pilot: pilot, pull: rapid.Bool().Draw(t, "pull"), news: rapid.Bool().Draw(t, "news")}
				sync := task.Sync{Site: "s", Pilot: id, Hold: time.Duration(rapid.IntRange(0, 12).Draw(t, "hold")) * time.Second}
				if c.news {
					sync.Returns = make([]task.Returned, 1)
				}
				wake := func() { c.wakes++ }
				if c.until = now + min(sync.Hold, holds.Sync); c.pull {
					c.until = now + min(sync.Hold, holds.Pull)
					c.Call = d.Pull(moment(), &task.Pull{Sync: sync}, nil, wake)
				} else {
					c.Call = d.Sync(moment(), &sync, nil, wake)
				}
				calls = append(calls, c)
			case 1:
				now += time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
			case 2, 3: // something changes for a pilot, or for all
				var effects taskqueue.Effects
				everybody := rapid.Bool().Draw(t, "everybody")
				if effects.Pilots = map[task.PilotID]struct{}{id: {}}; everybody {
					effects = taskqueue.Effects{WakeAll: true, Modes: true}
				}
				before := make(map[*played]int)
				for i := range 3 {
					if everybody || i == pilot {
						state[i]++
					}
				}
				for _, c := range calls {
					before[c] = c.wakes
				}
				now++
				d.Changed(&effects)
				for _, c := range calls {
					if (everybody || c.pilot == pilot) && !c.answered && !c.newer {
						if c.begun && c.changed <= c.attended && c.wakes == before[c] {
							t.Fatal("nobody is woken for a change")
						}
						c.changed = now
					}
				}
			}
			all()
		}
		now += 20 * time.Second
		all()
		for _, c := range calls {
			if !c.answered {
				t.Fatal("a call is never answered")
			}
		}
		now += 3 * rememberFor
		last := d.Sync(moment(), &task.Sync{Site: "s", Pilot: "last"}, nil, func() {})
		if len(d.pilots) != 1 || len(d.sites["s"].calls) != 1 {
			t.Fatalf("%d pilots and %d calls are remembered", len(d.pilots), len(d.sites["s"].calls))
		}
		d.Looked(moment(), last, &task.PullReply{}, true)
	})
}

// A pilot that is called in while its call is being looked at looks once more.
func TestWhoIsCalledInDuringALookLooksAgain(t *testing.T) {
	d, now := NewDesk(DefaultHolds), Moment{taskqueue.Instant(time.Hour), time.Unix(1000, 0)}
	var c *Call
	for range 2 { // the first call is answered at once
		c = d.Pull(now, &task.Pull{Sync: task.Sync{Site: "s", Pilot: "p", Hold: time.Minute}}, nil, func() {})
		if do, _ := d.Next(now, c); do != Look || d.Stance("p") != matchmaker.Asks {
			t.Fatalf("a call that comes in is to %v, and is in stance %v", do, d.Stance("p"))
		}
		d.WakePilots([]task.PilotID{"p"})
		d.Looked(now, c, &task.PullReply{}, false)
		if do, _ := d.Next(now, c); do == Answer {
			if d.Stance("p") != matchmaker.Away {
				t.Error("a call that is being answered could bring tasks")
			}
			d.Leave(now, c)
		}
	}
	if d.Stance("p") != matchmaker.Waits {
		t.Fatalf("a call without news is in stance %v", d.Stance("p"))
	}
	now.Machine = now.Machine.Add(DefaultHolds.Pause)
	if do, _ := d.Next(now, c); do != Look {
		t.Errorf("a call that was called in during its look is to %v", do)
	}
}

// What is asked of a site at which pilots speak for themselves is asked of one of them.
func TestASiteIsAskedByOneOfItsPulls(t *testing.T) {
	d, now := NewDesk(DefaultHolds), Moment{taskqueue.Instant(time.Hour), time.Unix(1000, 0)}
	woken := 0
	for _, id := range []task.PilotID{"p", "q", "p", "q"} { // the first call of each is answered at once
		c := d.Pull(now, &task.Pull{Sync: task.Sync{Site: "s", Pilot: id, Hold: time.Minute}}, nil, func() { woken++ })
		d.Next(now, c)
		d.Looked(now, c, &task.PullReply{}, false)
		if do, _ := d.Next(now, c); do == Answer {
			d.Leave(now, c)
		}
	}
	if d.WakeSite("s"); woken != 1 {
		t.Errorf("%d pilots are asked", woken)
	}
}
