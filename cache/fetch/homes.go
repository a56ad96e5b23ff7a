package fetch

import (
	"context"
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

// HomesClient is a safe shell around cache.Homes, the asking side of Desk. Safe for
// concurrent use.
type HomesClient struct {
	send func(to task.PeerID, data []byte)
	wake *time.Timer

	mu     sync.Mutex
	homes  *cache.Homes
	number uint64
	asked  map[uint64]chan cache.HomeAnswered // one place each: a newer answer replaces an unread one
}

// NewHomes returns a client that asks, for each key, the member that home
// names at the moment. Send must not block for long and, for this pilot's own
// id, deliver to its own Desk.
func NewHomes(self Holder, home func(task.FileKey) (task.PeerID, bool), send func(to task.PeerID, data []byte)) *HomesClient {
	return newHomesWith(cache.HomesConfig{}, self, home, send)
}

func newHomesWith(config cache.HomesConfig, self Holder, home func(task.FileKey) (task.PeerID, bool), send func(to task.PeerID, data []byte)) *HomesClient {
	h := &HomesClient{send: send, homes: cache.NewHomes(config, self, home), asked: make(map[uint64]chan cache.HomeAnswered)}
	h.wake = time.AfterFunc(time.Hour, func() { h.tell(cache.Tick{}) }) // set with the first question
	return h
}

// Ask implements Homes. A newer question about the same file takes the place
// of an older one, whose caller has ended it or soon will.
func (h *HomesClient) Ask(ctx context.Context, q Question) (Answer, error) {
	answers := make(chan cache.HomeAnswered, 1)
	h.mu.Lock()
	h.number++
	number := h.number
	h.asked[number] = answers
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.asked, number)
		h.homes.Withdraw(q.Key, number)
	}()
	h.tell(cache.Ask{Key: q.Key, Number: number, Tried: q.Tried})
	for {
		select {
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		case a := <-answers:
			if a.Verdict != cache.WaitFor {
				return Answer{Verdict: a.Verdict, Holders: a.Holders}, a.Err
			}
			if q.Waiting != nil {
				q.Waiting()
			}
		}
	}
}

// Handle takes in an answer. What makes no sense is dropped: whoever sends it cannot be
// told anything.
func (h *HomesClient) Handle(from task.PeerID, data []byte) {
	if answer, err := wire.ReadAnswer(data); err == nil {
		h.step(func() []cache.HomesAction { return h.homes.Heard(time.Now(), from, answer) })
	}
}

// Renew implements Homes.
func (h *HomesClient) Renew(key task.FileKey) { h.tell(cache.Renew{Key: key}) }

// Finish implements Homes.
func (h *HomesClient) Finish(key task.FileKey, end cache.Ending) {
	h.tell(cache.Finish{Key: key, End: end})
}

func (h *HomesClient) tell(event cache.GrantEvent) {
	h.step(func() []cache.HomesAction { return h.homes.Step(time.Now(), event) })
}

// step drives the core. What is for homes goes without the lock: it may come back at once.
func (h *HomesClient) step(drive func() []cache.HomesAction) {
	h.mu.Lock()
	actions := drive()
	if at := h.homes.Deadline(); !at.IsZero() {
		h.wake.Reset(time.Until(at))
	}
	for _, action := range actions {
		if a, ok := action.(cache.HomeAnswered); ok {
			h.answer(a)
		}
	}
	h.mu.Unlock()
	for _, action := range actions {
		if a, ok := action.(cache.ToHome); ok {
			h.send(a.To, wire.Question(a.Event))
		}
	}
}

func (h *HomesClient) answer(a cache.HomeAnswered) {
	answers := h.asked[a.Ask]
	if answers == nil {
		return
	}
	select {
	case <-answers:
	default:
	}
	answers <- a // there is room: only this sends, under the lock
}
