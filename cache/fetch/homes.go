package fetch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// Holder is a pilot that has a file, and where it serves it.
type Holder = cache.Holder

// Question asks the home of a file whether to read a storage element.
type Question struct {
	Key     task.FileKey
	Tried   []task.PeerID // holders that could not give the file
	Waiting func()        // if set, called when told to wait; must not block
}

// Answer is the home's last word on a question: Granted, PointedTo with
// holders, or GivenUp.
type Answer struct {
	Verdict cache.Verdict
	Holders []Holder
}

// Homes carries questions to the homes of files; HomesClient is the one that
// ships. The home may be this pilot itself.
type Homes interface {
	// Ask blocks while the home says to wait. An error means that the home does
	// not answer: read without a grant.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Renew tells that a granted read moves.
	Renew(key task.FileKey)
	// Finish tells how a read ended, or that an answer is wanted no more. Neither
	// blocks.
	Finish(key task.FileKey, end cache.Ending)
}

// Errors of HomesClient.Ask.
var (
	// ErrNoHome tells that no member is known that could be asked.
	ErrNoHome = errors.New("no home of the file is known")
	// ErrSilentHome tells that the home did not answer in time.
	ErrSilentHome = errors.New("the home of the file does not answer")
)

// homesTimes are how long a home may be silent.
type homesTimes struct {
	firstAnswer time.Duration // to the first answer
	askAgain    time.Duration // between questions until then
	checkWait   time.Duration // between questions while told to wait
	silence     time.Duration // while told to wait
}

// A home that is alive answers in milliseconds; asking once more covers a lost
// message. Who waits asks rarely, since a home may have a thousand of them.
func defaultHomesTimes() homesTimes {
	return homesTimes{firstAnswer: 2 * time.Second, askAgain: 700 * time.Millisecond, checkWait: 3 * time.Second, silence: 8 * time.Second}
}

// HomesClient is the asking side of Desk. Safe for concurrent use.
type HomesClient struct {
	self  Holder
	home  func(task.FileKey) (task.PeerID, bool)
	send  func(to task.PeerID, data []byte)
	times homesTimes

	mu     sync.Mutex
	number uint64
	open   map[task.FileKey]*openQuestion
	grants map[task.FileKey]task.PeerID // reads granted and by whom
}

type openQuestion struct {
	number  uint64
	home    task.PeerID
	answers chan Answer // one place: a newer answer replaces an unread one
}

// NewHomes returns a client that asks, for each key, the member that home
// names at the moment. Send must not block for long and, for this pilot's own
// id, deliver to its own Desk.
func NewHomes(self Holder, home func(task.FileKey) (task.PeerID, bool), send func(to task.PeerID, data []byte)) *HomesClient {
	return &HomesClient{
		self: self, home: home, send: send, times: defaultHomesTimes(),
		open: map[task.FileKey]*openQuestion{}, grants: map[task.FileKey]task.PeerID{},
	}
}

// Ask implements Homes. A newer question about the same file takes the place
// of an older one, whose caller has ended it or soon will.
func (h *HomesClient) Ask(ctx context.Context, q Question) (Answer, error) {
	open := &openQuestion{answers: make(chan Answer, 1)}
	h.mu.Lock()
	h.number++
	open.number = h.number
	h.open[q.Key] = open
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		if h.open[q.Key] == open {
			delete(h.open, q.Key)
		}
		h.mu.Unlock()
	}()

	message := wire.Question(cache.Ask{Key: q.Key, Number: open.number, Tried: q.Tried})
	wait, limit := h.times.askAgain, h.times.firstAnswer
	heard := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		home, known := h.home(q.Key)
		if !known {
			return Answer{}, ErrNoHome
		}
		h.mu.Lock()
		if open.home != home && open.home != "" {
			wait, limit, heard = h.times.askAgain, h.times.firstAnswer, time.Now() // a new home has its own time
		}
		open.home = home
		h.mu.Unlock()
		h.send(home, message)
		timer.Reset(wait)
	listen:
		for {
			select {
			case <-ctx.Done():
				return Answer{}, context.Cause(ctx)
			case answer := <-open.answers:
				if answer.Verdict != cache.WaitFor {
					return answer, nil
				}
				wait, limit, heard = h.times.checkWait, h.times.silence, time.Now()
				timer.Reset(wait)
				if q.Waiting != nil {
					q.Waiting()
				}
			case <-timer.C:
				break listen
			}
		}
		if time.Since(heard) >= limit {
			return Answer{}, ErrSilentHome
		}
	}
}

// Handle takes in an answer. It counts only from the home that was asked.
func (h *HomesClient) Handle(from task.PeerID, data []byte) {
	told, err := wire.ReadAnswer(data)
	if err != nil {
		return // whoever sends this cannot be told anything
	}
	key, answer := told.Key, Answer{Verdict: told.Verdict, Holders: told.Holders}
	h.mu.Lock()
	open := h.open[key]
	if open != nil && open.home == from && open.number == told.Number {
		if answer.Verdict == cache.Granted {
			h.grants[key] = from
		}
		select {
		case <-open.answers:
		default:
		}
		open.answers <- answer // there is room: only Handle sends, under the lock
		h.mu.Unlock()
		return
	}
	_, reading := h.grants[key]
	h.mu.Unlock()
	if answer.Verdict == cache.Granted && !reading && (open == nil || open.home != from) {
		// Nobody wants it any more: let the next one read.
		h.send(from, wire.Question(cache.Finish{Key: key}))
	}
}

// Renew implements Homes.
func (h *HomesClient) Renew(key task.FileKey) {
	if home, known := h.responsible(key, false); known {
		h.send(home, wire.Question(cache.Renew{Key: key}))
	}
}

// Finish implements Homes.
func (h *HomesClient) Finish(key task.FileKey, end cache.Ending) {
	if home, known := h.responsible(key, true); known {
		h.send(home, wire.Question(cache.Finish{Key: key, From: h.self, End: end}))
	}
}

// responsible is who granted the read, else who is asked, else who would be.
func (h *HomesClient) responsible(key task.FileKey, end bool) (task.PeerID, bool) {
	h.mu.Lock()
	home, known := h.grants[key]
	if open := h.open[key]; !known && open != nil && open.home != "" {
		home, known = open.home, true
	}
	if end {
		delete(h.grants, key)
	}
	h.mu.Unlock()
	if known {
		return home, true
	}
	return h.home(key)
}
