package peer

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	maxServedFiles   = 1024 // files whose takers are remembered
	maxServedHolders = 8    // takers per file
)

// servedTo remembers who took which file lately. Safe for concurrent use.
type servedTo struct {
	mu     sync.Mutex
	takers *simplelru.LRU[task.FileKey, []cache.Holder] // last first
}

func newServedTo() servedTo {
	takers, err := simplelru.NewLRU[task.FileKey, []cache.Holder](maxServedFiles, nil)
	if err != nil {
		panic("peer: an LRU list of positive size was refused: " + err.Error())
	}
	return servedTo{takers: takers}
}

func (s *servedTo) add(key task.FileKey, holder cache.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, _ := s.takers.Get(key)
	takers := []cache.Holder{holder}
	for _, h := range known {
		if h.Peer != holder.Peer && len(takers) < maxServedHolders {
			takers = append(takers, h)
		}
	}
	s.takers.Add(key, takers)
}

func (s *servedTo) of(key task.FileKey) []cache.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	takers, _ := s.takers.Get(key)
	return slices.Clone(takers)
}
