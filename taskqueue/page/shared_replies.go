package page

import (
	"sync"
	"time"
)

const (
	// keepReply is how long viewers with one access share an answer: fifty of them
	// that look at one screen cost as much as one.
	keepReply   = 1500 * time.Millisecond
	mostReplies = 500
)

// replies keeps the newest answers to calls, each for the access that made it.
type replies struct {
	mu   sync.Mutex
	kept map[string]*reply
}

type reply struct {
	mu    sync.Mutex // one asks, others wait
	until time.Time
	text  []byte
}

// get returns an answer that is not old, or else asks for a new one. Errors are not
// kept.
func (k *replies) get(now time.Time, key string, ask func() ([]byte, error)) ([]byte, error) {
	r := k.of(now, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return r.text, nil
	}
	text, err := ask()
	if err != nil {
		return nil, err
	}
	r.text, r.until = text, now.Add(keepReply)
	return text, nil
}

func (k *replies) of(now time.Time, key string) *reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) >= mostReplies {
		for key, r := range k.kept {
			if r.mu.TryLock() {
				if !now.Before(r.until) {
					delete(k.kept, key)
				}
				r.mu.Unlock()
			}
		}
		if len(k.kept) >= mostReplies {
			clear(k.kept)
		}
	}
	if k.kept == nil {
		k.kept = make(map[string]*reply)
	}
	if k.kept[key] == nil {
		k.kept[key] = &reply{}
	}
	return k.kept[key]
}
