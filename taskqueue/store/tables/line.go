package tables

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// update is one Update on its way through the writer.
type update struct {
	ctx   context.Context
	party string
	write func(taskqueue.Tx) error
	alone bool // in its commit

	turn  chan struct{} // closed when it is over, or when its goroutine has to lead
	leads bool
	over  bool

	err      error
	again    bool // another try alone may succeed
	panicked error
}

// line is who waits for the writer. The party that has had the least of its time comes
// first (start-time fair queueing, Goyal, Vin and Cheng 1996): who calls now and then
// does not wait for the line of somebody else. It is not safe for concurrent use.
type line struct {
	waiting []*update                // in the order in which they came
	had     map[string]time.Duration // by each party, on a clock on which who was idle has had now
	now     time.Duration
}

// forgottenBeyond is how many parties are remembered at least.
const forgottenBeyond = 64

func (l *line) add(u *update) { l.waiting = append(l.waiting, u) }

// first returns whose turn it is, and its place.
func (l *line) first() (next *update, place int) {
	least := time.Duration(0)
	for i, u := range l.waiting {
		had := max(l.had[u.party], l.now)
		if next == nil || had < least {
			next, place, least = u, i, had
		}
		if least == l.now {
			break
		}
	}
	return next, place
}

// take removes who is at a place, whose turn begins.
func (l *line) take(place int) {
	u := l.waiting[place]
	l.now = max(l.now, l.had[u.party])
	l.waiting = append(l.waiting[:place], l.waiting[place+1:]...)
}

// charge notes how much of the writer's time a party has had.
func (l *line) charge(party string, took time.Duration) {
	if len(l.had) >= max(forgottenBeyond, 2*len(l.waiting)) {
		for other, had := range l.had {
			if had <= l.now {
				delete(l.had, other)
			}
		}
	}
	if l.had == nil {
		l.had = make(map[string]time.Duration)
	}
	l.had[party] = max(l.had[party], l.now) + took
}
