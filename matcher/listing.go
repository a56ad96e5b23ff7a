package matcher

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// listing is the task list as one pilot holds it, with an index from files to
// the tasks that read them.
type listing struct {
	entries []*ListEntry // by number, rising
	readers map[task.FileKey][]uint64
}

func newListing() listing { return listing{readers: make(map[task.FileKey][]uint64)} }

func (l *listing) find(no uint64) (at int, found bool) {
	return slices.BinarySearchFunc(l.entries, no, func(entry *ListEntry, no uint64) int { return cmp.Compare(entry.No, no) })
}

// entry returns a listed task, nil if the number is unknown.
func (l *listing) entry(no uint64) *ListEntry {
	if at, found := l.find(no); found {
		return l.entries[at]
	}
	return nil
}

// add lists entries and returns those that were not listed before. A listed one
// is not replaced: equal numbers mean equal entries.
func (l *listing) add(entries []*ListEntry) (fresh []*ListEntry) {
	for _, entry := range entries {
		at, found := l.find(entry.No)
		if found {
			continue
		}
		l.entries = slices.Insert(l.entries, at, entry) // mostly at the end
		fresh = append(fresh, entry)
		for i := range entry.Files {
			key := entry.Files[i].Key
			readers := l.readers[key]
			if at, found := slices.BinarySearch(readers, entry.No); !found {
				l.readers[key] = slices.Insert(readers, at, entry.No)
			}
		}
	}
	return fresh
}

// remove takes entries off the list. The cost is that of moving the rest of it
// once, however many go.
func (l *listing) remove(numbers []uint64) {
	gone := make([]int, 0, len(numbers)) // where they are
	for _, no := range numbers {
		at, found := l.find(no)
		if !found {
			continue
		}
		gone = append(gone, at)
		for i := range l.entries[at].Files {
			l.unread(l.entries[at].Files[i].Key, no)
		}
	}
	if len(gone) == 0 {
		return
	}
	slices.Sort(gone)
	gone = slices.Compact(gone)
	left := gone[0]
	for i, at := range gone {
		next := len(l.entries)
		if i+1 < len(gone) {
			next = gone[i+1]
		}
		left += copy(l.entries[left:], l.entries[at+1:next])
	}
	clear(l.entries[left:])
	l.entries = l.entries[:left]
}

func (l *listing) unread(key task.FileKey, no uint64) {
	readers := l.readers[key]
	at, found := slices.BinarySearch(readers, no)
	switch {
	case !found:
	case len(readers) == 1:
		delete(l.readers, key)
	default:
		l.readers[key] = slices.Delete(readers, at, at+1)
	}
}
