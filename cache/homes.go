package cache

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Why nobody has answered a question.
var (
	// ErrNoHome tells that no member is known that could be asked.
	ErrNoHome = errors.New("no home of the file is known")
	// ErrSilentHome tells that the home did not answer in time.
	ErrSilentHome = errors.New("the home of the file does not answer")
)

// HomesConfig is how long a home may be silent. A home that is alive answers in
// milliseconds; asking once more covers a lost message. Who waits asks rarely, since a
// home may have a thousand of them.
type HomesConfig struct {
	FirstAnswer time.Duration // to the first answer: 2 s
	AskAgain    time.Duration // between questions until then: 700 ms
	CheckWait   time.Duration // between questions while told to wait: 3 s
	Silence     time.Duration // while told to wait: 8 s
}

func (c HomesConfig) withDefaults() HomesConfig {
	setDefault(&c.FirstAnswer, 2*time.Second)
	setDefault(&c.AskAgain, 700*time.Millisecond)
	setDefault(&c.CheckWait, 3*time.Second)
	setDefault(&c.Silence, 8*time.Second)
	return c
}

// HomesAction is an output of Homes: ToHome, or HomeAnswered.
type HomesAction interface{ homesAction() }

// ToHome is a word for the home of a file.
type ToHome struct {
	To    task.PeerID
	Event GrantEvent
}

func (ToHome) homesAction()       {}
func (HomeAnswered) homesAction() {}

// Homes is the asking side of Grants: whom a pilot asks before it reads a file from a
// storage element, how often, and for how long. Not safe for concurrent use.
type Homes struct {
	config HomesConfig
	self   Holder
	home   func(task.FileKey) (task.PeerID, bool)
	open   map[task.FileKey]*question
	grants map[task.FileKey]task.PeerID // reads granted and by whom
	said   []HomesAction
}

type question struct {
	Ask
	home        task.PeerID
	wait, limit time.Duration // between questions, and until the home counts as silent
	heard, next time.Time
}

// NewHomes returns one that asks, for each key, the member that home names at the moment.
func NewHomes(config HomesConfig, self Holder, home func(task.FileKey) (task.PeerID, bool)) *Homes {
	return &Homes{
		config: config.withDefaults(), self: self, home: home,
		open: make(map[task.FileKey]*question), grants: make(map[task.FileKey]task.PeerID),
	}
}

// Step takes what is to be said of a file (Ask, Renew, Finish), or lets time pass
// (Tick). A newer question about the same file takes the place of an older one.
func (h *Homes) Step(now time.Time, event GrantEvent) []HomesAction {
	switch e := event.(type) {
	case Ask:
		e.From = h.self.Peer
		q := &question{Ask: e}
		h.open[e.Key] = q
		h.ask(now, q)
	case Renew:
		e.From = h.self.Peer
		h.tell(e.Key, e)
	case Finish:
		e.From = h.self
		h.tell(e.Key, e)
		delete(h.grants, e.Key)
	case Tick:
		for _, key := range slices.Sorted(maps.Keys(h.open)) {
			switch q := h.open[key]; {
			case now.Before(q.next):
			case now.Sub(q.heard) >= q.limit:
				h.unanswered(q, ErrSilentHome)
			default:
				h.ask(now, q)
			}
		}
	}
	return h.actions()
}

// Heard takes an answer. It counts only from the home that was asked.
func (h *Homes) Heard(now time.Time, from task.PeerID, a Answer) []HomesAction {
	q := h.open[a.Key]
	_, reading := h.grants[a.Key]
	switch {
	case q != nil && q.home == from && q.Number == a.Number:
		switch a.Verdict {
		case WaitFor:
			q.wait, q.limit, q.heard, q.next = h.config.CheckWait, h.config.Silence, now, now.Add(h.config.CheckWait)
		case Granted:
			h.grants[a.Key] = from
			delete(h.open, a.Key)
		default:
			delete(h.open, a.Key)
		}
		h.emit(HomeAnswered{Ask: a.Number, Key: a.Key, Verdict: a.Verdict, Holders: a.Holders})
	case a.Verdict == Granted && !reading && (q == nil || q.home != from):
		h.emit(ToHome{from, Finish{Key: a.Key, From: h.self}}) // nobody wants it any more: let the next one read
	}
	return h.actions()
}

// Withdraw ends a question that nobody waits for any more.
func (h *Homes) Withdraw(key task.FileKey, number uint64) {
	if q := h.open[key]; q != nil && q.Number == number {
		delete(h.open, key)
	}
}

// Deadline is when the next Tick is due; zero for never.
func (h *Homes) Deadline() (at time.Time) {
	for _, q := range h.open {
		if at.IsZero() || q.next.Before(at) {
			at = q.next
		}
	}
	return at
}

// ask asks the home of the moment; a new one has its own time.
func (h *Homes) ask(now time.Time, q *question) {
	home, known := h.home(q.Key)
	if !known {
		h.unanswered(q, ErrNoHome)
		return
	}
	if q.home != home {
		q.home, q.wait, q.limit, q.heard = home, h.config.AskAgain, h.config.FirstAnswer, now
	}
	q.next = now.Add(q.wait)
	h.emit(ToHome{home, q.Ask})
}

func (h *Homes) unanswered(q *question, why error) {
	delete(h.open, q.Key)
	h.emit(HomeAnswered{Ask: q.Number, Key: q.Key, Verdict: Unanswered, Err: why})
}

// tell tells who granted the read, else who is asked, else who would be.
func (h *Homes) tell(key task.FileKey, event GrantEvent) {
	home, known := h.grants[key]
	if q := h.open[key]; !known && q != nil && q.home != "" {
		home, known = q.home, true
	}
	if !known {
		home, known = h.home(key)
	}
	if known {
		h.emit(ToHome{home, event})
	}
}

func (h *Homes) emit(action HomesAction) { h.said = append(h.said, action) }

func (h *Homes) actions() (said []HomesAction) {
	said, h.said = h.said, nil
	return said
}
