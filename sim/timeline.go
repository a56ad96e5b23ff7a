package sim

import (
	"slices"
	"time"
)

// Timeline runs events in the order of virtual time; those of one moment in the
// order in which they were planned.
//
// Long runs spend much of their time here. So what decides on the
// order stands in the queue itself, and events that are taken back stay in it,
// empty, until their moment comes or they are the most.
type Timeline struct {
	now    time.Duration
	serial uint64
	queue  []planned // a heap with four children to a place
	empty  int       // events in it that were taken back
	events uint64
}

// Event is something planned.
type Event struct {
	do func() // nil when it has happened or was taken back
}

// planned is an event's place in the queue.
type planned struct {
	at     time.Duration
	serial uint64
	event  *Event
}

func (p *planned) before(other *planned) bool {
	return p.at < other.at || p.at == other.at && p.serial < other.serial
}

// Now is the virtual time since the start.
func (t *Timeline) Now() time.Duration { return t.now }

// Events is the number of events that have happened.
func (t *Timeline) Events() uint64 { return t.events }

// After plans something; a negative delay counts as none.
func (t *Timeline) After(delay time.Duration, do func()) *Event {
	t.serial++
	p := planned{at: t.now + max(delay, 0), serial: t.serial, event: &Event{do}}
	t.queue = append(t.queue, p)
	t.up(len(t.queue)-1, p)
	return p.event
}

// Cancel takes an event back; one that has happened stays so.
func (t *Timeline) Cancel(e *Event) {
	if e == nil || e.do == nil {
		return
	}
	e.do = nil
	if t.empty++; t.empty > len(t.queue)/2 {
		t.sweep()
	}
}

// Step lets the next event happen; false means that there is none.
func (t *Timeline) Step() bool {
	if !t.any() {
		return false
	}
	next := t.take()
	t.now = next.at
	t.events++
	do := next.event.do
	next.event.do = nil
	do()
	return true
}

// Run lets all events up to a moment happen and time pass until then.
func (t *Timeline) Run(until time.Duration) {
	for t.any() && t.queue[0].at <= until {
		t.Step()
	}
	t.now = max(t.now, until)
}

// any tells whether there is an event, and brings it to the front.
func (t *Timeline) any() bool {
	for len(t.queue) > 0 && t.queue[0].event.do == nil {
		t.take()
		t.empty--
	}
	return len(t.queue) > 0
}

// take removes the first place.
func (t *Timeline) take() planned {
	first, end := t.queue[0], len(t.queue)-1
	last := t.queue[end]
	t.queue[end] = planned{}
	if t.queue = t.queue[:end]; end > 0 {
		t.down(0, last)
	}
	return first
}

// sweep removes events that were taken back.
func (t *Timeline) sweep() {
	t.queue = slices.DeleteFunc(t.queue, func(p planned) bool { return p.event.do == nil })
	t.empty = 0
	for i := (len(t.queue)+2)/4 - 1; i >= 0; i-- {
		t.down(i, t.queue[i])
	}
}

// up puts a place where it belongs, from the empty one at i on towards the
// front.
func (t *Timeline) up(i int, p planned) {
	for i > 0 {
		parent := (i - 1) / 4
		if !p.before(&t.queue[parent]) {
			break
		}
		t.queue[i] = t.queue[parent]
		i = parent
	}
	t.queue[i] = p
}

// down does so towards the end.
func (t *Timeline) down(i int, p planned) {
	for {
		first := 4*i + 1
		if first >= len(t.queue) {
			break
		}
		least := first
		for child := first + 1; child < min(first+4, len(t.queue)); child++ {
			if t.queue[child].before(&t.queue[least]) {
				least = child
			}
		}
		if !t.queue[least].before(&p) {
			break
		}
		t.queue[i] = t.queue[least]
		i = least
	}
	t.queue[i] = p
}
