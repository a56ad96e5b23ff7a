package page

import (
	"context"
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
	turn  chan struct{} // one asks, others wait; whoever puts something in has it
	until time.Time
	value V
}

// NewAnswers keeps at most so many answers.
func NewAnswers[V any](most int) *Answers[V] {
	return &Answers[V]{most: most, kept: make(map[string]*answer[V])}
}

// Get returns an answer that is not old, or else asks for a new one and until when it is
// kept. Errors are not kept. Who waits for somebody else's asking waits until ctx ends.
func (k *Answers[V]) Get(ctx context.Context, key string, ask func() (value V, until time.Time, err error)) (V, error) {
	a := k.of(key)
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
	defer func() { <-a.turn }()
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
			select {
			case a.turn <- struct{}{}:
				if !now.Before(a.until) {
					delete(k.kept, key)
				}
				<-a.turn
			default:
			}
		}
		if len(k.kept) >= k.most {
			clear(k.kept)
		}
	}
	if k.kept[key] == nil {
		k.kept[key] = &answer[V]{turn: make(chan struct{}, 1)}
	}
	return k.kept[key]
}
