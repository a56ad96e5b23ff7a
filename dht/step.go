package dht

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// step is one call of Step: when it is, and what is to be done, in order. A
// part of the overlay gets it with every call.
type step struct {
	now time.Time
	out []Action
}

func (s *step) act(a Action) { s.out = append(s.out, a) }

func (s *step) send(to task.PeerID, m Message) { s.act(Send{To: to, Message: m}) }

// earlier is the first of several times, of which zero means never.
func earlier(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}
