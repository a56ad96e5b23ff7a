package sim

import "time"

// Timeline runs events in the order of virtual time; those of one moment in the
// order in which they were planned. Events that are taken back stay in its agenda,
// empty, until their moment comes or they are the most.
type Timeline struct {
	now    time.Duration
	agenda Agenda[*Event]
	empty  int // events in it that were taken back
	events uint64
}

// Event is something planned.
type Event struct {
	do func() // nil when it has happened or was taken back
}

// Now is the virtual time since the start.
func (t *Timeline) Now() time.Duration { return t.now }

// Events is the number of events that have happened.
func (t *Timeline) Events() uint64 { return t.events }

// After plans something; a negative delay counts as none.
func (t *Timeline) After(delay time.Duration, do func()) *Event {
	event := &Event{do}
	t.agenda.Put(t.now+max(delay, 0), event)
	return event
}

// Cancel takes an event back; one that has happened stays so.
func (t *Timeline) Cancel(e *Event) {
	if e == nil || e.do == nil {
		return
	}
	e.do = nil
	if t.empty++; t.empty > t.agenda.Len()/2 {
		t.agenda.Drop(func(e *Event) bool { return e.do == nil })
		t.empty = 0
	}
}

// Step lets the next event happen; false means that there is none.
func (t *Timeline) Step() bool {
	if !t.any() {
		return false
	}
	next := t.agenda.Take()
	t.now = next.At
	t.events++
	do := next.Value.do
	next.Value.do = nil
	do()
	return true
}

// Run lets all events up to a moment happen and time pass until then.
func (t *Timeline) Run(until time.Duration) {
	for t.any() && t.agenda.First().At <= until {
		t.Step()
	}
	t.now = max(t.now, until)
}

// any tells whether there is an event, and brings it to the front.
func (t *Timeline) any() bool {
	for t.agenda.Len() > 0 && t.agenda.First().Value.do == nil {
		t.agenda.Take()
		t.empty--
	}
	return t.agenda.Len() > 0
}
