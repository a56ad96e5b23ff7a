package page

import (
	"sync"
	"time"
)

// Answers keeps answers that many ask for, so that fifty who look at one screen cost as
// much as one. Make it with NewAnswers; it is safe for concurrent use.
type Answers[V any] struct {
	most int
	mu   sync.Mutex
	kept map[string]*answer[V]
}

type answer[V any] struct {
	mu    sync.Mutex // one asks, others wait
	until time.Time
	value V
}

// NewAnswers keeps at most so many answers.
func NewAnswers[V any](most int) *Answers[V] {
	return &Answers[V]{most: most, kept: make(map[string]*answer[V])}
}

// Get returns an answer that is not old, or else asks for a new one and until when it is
// kept. Errors are not kept.
func (k *Answers[V]) Get(key string, ask func() (value V, until time.Time, err error)) (V, error) {
	a := k.of(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().Before(a.until) {
		return a.value, nil
	}
	value, until, err := ask()
	if err != nil {
		return value, err
	}
	a.value, a.until = value, until
	return value, nil
}

func (k *Answers[V]) of(key string) *answer[V] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) >= k.most {
		now := time.Now()
		for key, a := range k.kept {
			if a.mu.TryLock() {
				if !now.Before(a.until) {
					delete(k.kept, key)
				}
				a.mu.Unlock()
			}
		}
		if len(k.kept) >= k.most {
			clear(k.kept)
		}
	}
	if k.kept[key] == nil {
		k.kept[key] = &answer[V]{}
	}
	return k.kept[key]
}
