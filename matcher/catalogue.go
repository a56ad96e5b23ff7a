package matcher

import (
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
)

// Catalogue keeps the entries of task lists and the index from files to the
// tasks that read them. All pilots of a process share one, so that 1,500
// pilots with 10,000 tasks each do not hold 1,500 copies. An entry stays as
// long as some evaluator lists it. It is safe for concurrent use.
type Catalogue struct {
	mu    sync.RWMutex
	terms map[task.Term]*shelf
}

// shelf is the part of the catalogue that belongs to one term.
type shelf struct {
	entries map[uint64]*shelved
	readers map[task.FileKey][]uint64 // entries that read the file, rising
}

type shelved struct {
	entry   *ListEntry
	holders int
}

// NewCatalogue returns an empty catalogue.
func NewCatalogue() *Catalogue { return &Catalogue{terms: make(map[task.Term]*shelf)} }

// hold lists entries for one more evaluator. An entry that is known already
// is not replaced: equal numbers of one term mean equal entries.
func (c *Catalogue) hold(term task.Term, entries []*ListEntry) {
	if len(entries) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.terms[term]
	if s == nil {
		s = &shelf{entries: make(map[uint64]*shelved), readers: make(map[task.FileKey][]uint64)}
		c.terms[term] = s
	}
	for _, entry := range entries {
		if known := s.entries[entry.No]; known != nil {
			known.holders++
			continue
		}
		s.entries[entry.No] = &shelved{entry: entry, holders: 1}
		for _, file := range entry.Files {
			readers := s.readers[file.Key]
			if at, found := slices.BinarySearch(readers, entry.No); !found {
				s.readers[file.Key] = slices.Insert(readers, at, entry.No)
			}
		}
	}
}

// release ends what hold began for these numbers.
func (c *Catalogue) release(term task.Term, numbers []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.terms[term]
	if s == nil {
		return
	}
	for _, no := range numbers {
		known := s.entries[no]
		if known == nil {
			continue
		}
		if known.holders--; known.holders > 0 {
			continue
		}
		delete(s.entries, no)
		for _, file := range known.entry.Files {
			readers := s.readers[file.Key]
			if at, found := slices.BinarySearch(readers, no); found {
				readers = slices.Delete(readers, at, at+1)
			}
			if len(readers) == 0 {
				delete(s.readers, file.Key)
			} else {
				s.readers[file.Key] = readers
			}
		}
	}
	if len(s.entries) == 0 {
		delete(c.terms, term)
	}
}

// read calls view with the shelf of a term, which may be nil. The view must
// not change it, keep parts of it or call the catalogue.
func (c *Catalogue) read(term task.Term, view func(*shelf)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	view(c.terms[term])
}

// entry returns an entry of the shelf, nil if unknown.
func (s *shelf) entry(no uint64) *ListEntry {
	if s == nil {
		return nil
	}
	if known := s.entries[no]; known != nil {
		return known.entry
	}
	return nil
}
