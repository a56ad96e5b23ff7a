package server

import (
	"context"
	"sync"
	"time"
)

const (
	// mostAtOnce is how many calls of one identity work in the store at once, while
	// nobody else calls; besideOthers, while others do. Those that only read take
	// the processors from others, and those that write take turns (taskqueue.ByParty).
	mostAtOnce   = 64
	besideOthers = 4
	// comingBesideOthers is how many more calls of an identity may be under way to the
	// store, while others call; comingOfMost, of one that calls more than twice as often
	// as any other: what is refused before it is read costs least. Who calls less than
	// that may wait for a commit of half a second.
	comingBesideOthers = 128
	comingOfMost       = 32
	// refusedPause is how long the store rests from an identity that was refused lately,
	// in times of what its last call cost.
	refusedPause = 8
	// callCost is what a call costs beside its work in the store.
	callCost = 150 * time.Microsecond
	// aroundFor is how long an identity counts as calling after its last call.
	aroundFor = time.Second
	// longestRetry bounds when who is refused is told to come again.
	longestRetry = 10 * time.Second
)

// shares is how much of the store each identity gets. The rules are without lock
// and clock; enter, leave and comeAgain are safe for concurrent use.
type shares struct {
	mutex sync.Mutex
	of    map[string]*share
	swept time.Time
	// Who has called most since the last sweep, and between the last two.
	most, mostBefore busiest
}

// busiest are the two identities that have called most, also in vain, the most first.
type busiest [2]struct {
	identity string
	calls    int
}

// note takes note of how often an identity has called.
func (b *busiest) note(identity string, calls int) {
	switch {
	case identity == b[0].identity:
		b[0].calls = calls
	case calls > b[0].calls:
		b[1] = b[0]
		b[0].identity, b[0].calls = identity, calls
	case calls > b[1].calls:
		b[1].identity, b[1].calls = identity, calls
	}
}

// other is how often one called that is not this identity.
func (b *busiest) other(identity string) int {
	if b[0].identity == identity {
		return b[1].calls
	}
	return b[0].calls
}

// share is what one identity has at work.
type share struct {
	asked   int // since the last sweep
	before  int // between the last two
	coming  int // calls that have not been in the store yet
	inside  int
	waiting []chan struct{} // the longest first
	cost    time.Duration   // of one call, lately
	last    time.Time
	refused time.Time // when a call was refused
	next    time.Time // no call begins earlier
	timer   bool      // somebody looks again then
}

// limit is how many calls of an identity work at once; beside others it is one, if it
// has asked for too much.
func (s *shares) limit(of *share, now time.Time) int {
	switch {
	case len(s.of) < 2:
		return mostAtOnce
	case of.slowed(now):
		return 1
	}
	return besideOthers
}

// sweep forgets who has not called lately.
func (s *shares) sweep(now time.Time) {
	if now.Sub(s.swept) < aroundFor {
		return
	}
	s.swept = now
	s.most, s.mostBefore = busiest{}, s.most
	for identity, of := range s.of {
		if of.coming == 0 && of.inside == 0 && len(of.waiting) == 0 && now.Sub(of.last) > aroundFor {
			delete(s.of, identity)
			continue
		}
		of.before, of.asked = of.asked, 0
	}
}

// asksMost tells whether an identity calls more than twice as often as any other.
func (s *shares) asksMost(identity string, of *share) bool {
	return max(of.asked, of.before) > 2*max(s.most.other(identity), s.mostBefore.other(identity))
}

// slowed tells whether an identity has asked for too much lately.
func (of *share) slowed(now time.Time) bool { return now.Sub(of.refused) < aroundFor }

// shareOf returns the share of an identity that calls.
func (s *shares) shareOf(identity string, now time.Time) *share {
	s.sweep(now)
	of := s.of[identity]
	if of == nil {
		if s.of == nil {
			s.of = make(map[string]*share)
		}
		of = &share{}
		s.of[identity] = of
	}
	of.last = now
	return of
}

// comes tells whether one more call may be under way to the store.
func (s *shares) comes(identity string, now time.Time) bool {
	of := s.shareOf(identity, now)
	of.asked++
	s.most.note(identity, of.asked)
	if len(s.of) > 1 {
		if of.coming >= comingBesideOthers || of.coming >= comingOfMost && s.asksMost(identity, of) {
			return false
		}
	}
	of.coming++
	return true
}

// begin lets a call in, or queues it: then the channel is closed when its turn comes.
func (s *shares) begin(identity string, now time.Time) <-chan struct{} {
	of := s.shareOf(identity, now)
	if of.inside < s.limit(of, now) && len(of.waiting) == 0 && !now.Before(of.next) {
		of.inside++
		return nil
	}
	turn := make(chan struct{})
	of.waiting = append(of.waiting, turn)
	return turn
}

// end takes note of a call that has worked for a time, and lets those in whose turn it is.
func (s *shares) end(identity string, took time.Duration, now time.Time) {
	of := s.of[identity]
	of.inside--
	of.last = now
	of.cost += (took - of.cost) / 8
	if of.slowed(now) && len(s.of) > 1 {
		of.next = now.Add(refusedPause * (took + callCost))
	}
	s.next(of, now)
}

// next lets those in whose turn it is.
func (s *shares) next(of *share, now time.Time) {
	for len(of.waiting) > 0 && of.inside < s.limit(of, now) && !now.Before(of.next) {
		close(of.waiting[0])
		of.waiting = of.waiting[1:]
		of.inside++
	}
}

// drop takes a call out of the line whose caller has gone; false: its turn has come.
func (s *shares) drop(identity string, turn <-chan struct{}) bool {
	of := s.of[identity]
	for i := range of.waiting {
		if of.waiting[i] == turn {
			of.waiting = append(of.waiting[:i:i], of.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// arrival is a call on its way to the store.
type arrival struct {
	shares   *shares
	identity string
	over     sync.Once
}

// arrive begins the way of a call to the store; nil: it is one too many.
func (s *shares) arrive(identity string) *arrival {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.comes(identity, time.Now()) {
		return nil
	}
	return &arrival{shares: s, identity: identity}
}

// arrived tells that the call is in the store, or over. It may be told again, and of none.
func (a *arrival) arrived() {
	if a == nil {
		return
	}
	a.over.Do(func() {
		a.shares.mutex.Lock()
		defer a.shares.mutex.Unlock()
		a.shares.of[a.identity].coming--
	})
}

// enter waits until a call may work in the store. The one who got in calls leave.
func (s *shares) enter(ctx context.Context, identity string) error {
	s.mutex.Lock()
	turn := s.begin(identity, time.Now())
	s.lookAgain(s.of[identity])
	s.mutex.Unlock()
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.drop(identity, turn) {
		s.end(identity, 0, time.Now())
	}
	return ctx.Err()
}

func (s *shares) leave(identity string, took time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(identity, took, time.Now())
	s.lookAgain(s.of[identity])
}

// lookAgain has the line of an identity that was slowed go on; the mutex is held.
func (s *shares) lookAgain(of *share) {
	wait := time.Until(of.next)
	if of.timer || len(of.waiting) == 0 || wait <= 0 {
		return
	}
	of.timer = true
	time.AfterFunc(wait, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		of.timer = false
		s.next(of, time.Now())
		s.lookAgain(of)
	})
}

// refuse notes that an identity has asked for too much, and tells when it should call
// again: when those that wait now have had their turns.
func (s *shares) refuse(identity string) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := s.of[identity]
	if of == nil {
		return time.Second
	}
	of.refused = time.Now()
	return min(max(time.Duration(len(of.waiting))*of.cost, 100*time.Millisecond), longestRetry)
}
