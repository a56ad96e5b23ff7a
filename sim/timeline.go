package sim

import "time"

// Timeline runs events in the order of virtual time; those of one moment in the
// order in which they were planned.
type Timeline struct {
	now    time.Duration
	serial uint64
	queue  []*Event
	events uint64
}

// Event is something planned.
type Event struct {
	at     time.Duration
	serial uint64
	place  int // in the queue, -1 when out of it
	do     func()
}

// Now is the virtual time since the start.
func (t *Timeline) Now() time.Duration { return t.now }

// Events is the number of events that have happened.
func (t *Timeline) Events() uint64 { return t.events }

// After plans something; a negative delay counts as none.
func (t *Timeline) After(delay time.Duration, do func()) *Event {
	t.serial++
	e := &Event{at: t.now + max(delay, 0), serial: t.serial, place: len(t.queue), do: do}
	t.queue = append(t.queue, e)
	t.up(e.place)
	return e
}

// Cancel takes an event back; one that has happened stays so.
func (t *Timeline) Cancel(e *Event) {
	if e == nil || e.place < 0 {
		return
	}
	at, last := e.place, len(t.queue)-1
	t.swap(at, last)
	t.queue[last] = nil
	t.queue = t.queue[:last]
	e.place = -1
	if at < last {
		t.down(at)
		t.up(at)
	}
}

// Step lets the next event happen; false means that there is none.
func (t *Timeline) Step() bool {
	if len(t.queue) == 0 {
		return false
	}
	next := t.queue[0]
	t.Cancel(next)
	t.now = next.at
	t.events++
	next.do()
	return true
}

// Run lets all events up to a moment happen and time pass until then.
func (t *Timeline) Run(until time.Duration) {
	for len(t.queue) > 0 && t.queue[0].at <= until {
		t.Step()
	}
	t.now = max(t.now, until)
}

func (t *Timeline) before(i, j int) bool {
	a, b := t.queue[i], t.queue[j]
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}

func (t *Timeline) swap(i, j int) {
	t.queue[i], t.queue[j] = t.queue[j], t.queue[i]
	t.queue[i].place, t.queue[j].place = i, j
}

func (t *Timeline) up(i int) {
	for i > 0 && t.before(i, (i-1)/2) {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *Timeline) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.queue) {
			return
		}
		if child+1 < len(t.queue) && t.before(child+1, child) {
			child++
		}
		if !t.before(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
