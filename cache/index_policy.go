package cache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotage-grid/pilotage/task"
)

// EvictionPolicy orders the files that may be evicted. Pinned files and sole
// copies are never handed to it, so every key it names may go.
// Implementations are not safe for concurrent use.
type EvictionPolicy interface {
	// Use adds a file, or notes another use of one that it has.
	Use(key task.FileKey)
	// Remove forgets a file; an unknown one is ignored.
	Remove(key task.FileKey)
	// Victim names the next file to evict without removing it.
	Victim() (key task.FileKey, found bool)
}

// lru evicts what was used the longest ago.
type lru struct {
	order *simplelru.LRU[task.FileKey, struct{}]
}

// NewLRU returns the default policy: least recently used first.
func NewLRU() EvictionPolicy {
	// The index counts bytes and bounds the cache; the list must never drop
	// an element on its own, hence the size without effect.
	order, err := simplelru.NewLRU[task.FileKey, struct{}](math.MaxInt, nil)
	if err != nil {
		panic("cache: an LRU list of positive size was refused: " + err.Error())
	}
	return &lru{order: order}
}

func (l *lru) Use(key task.FileKey) { l.order.Add(key, struct{}{}) }

func (l *lru) Remove(key task.FileKey) { l.order.Remove(key) }

func (l *lru) Victim() (task.FileKey, bool) {
	key, _, found := l.order.GetOldest()
	return key, found
}
