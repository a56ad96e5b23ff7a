package master

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// ledger is what this pilot's cache holds and what the queue knows of that.
// It outlives masterships.
type ledger struct {
	holds   map[task.FilePrint]struct{}
	changed map[task.FilePrint]struct{} // since the summary of version known
	flying  map[task.FilePrint]struct{} // of these, those that a call under way tells
	version uint64                      // of the newest summary
	known   uint64                      // that the queue has; 0: none
}

func (l *ledger) change(added, removed []task.FileKey) {
	if l.holds == nil {
		l.holds, l.changed = make(map[task.FilePrint]struct{}), make(map[task.FilePrint]struct{})
	}
	for _, key := range added {
		print := key.Print()
		if _, has := l.holds[print]; !has {
			l.holds[print] = struct{}{}
			l.changed[print] = struct{}{}
		}
	}
	for _, key := range removed {
		print := key.Print()
		if _, has := l.holds[print]; has {
			delete(l.holds, print)
			l.changed[print] = struct{}{}
		}
	}
}

// news tells whether the queue lacks something.
func (l *ledger) news() bool { return l.known == 0 || len(l.changed) > 0 }

// tell is what a call says: the changes, or all if the queue knows nothing.
// One without content says only where both stand.
func (l *ledger) tell(content bool) task.CacheDelta {
	if !content || !l.news() {
		return task.CacheDelta{Base: l.known, Version: l.known}
	}
	l.version++
	delta := task.CacheDelta{Base: l.known, Version: l.version}
	if l.known == 0 {
		for print := range l.holds {
			delta.Added = append(delta.Added, print)
		}
	} else {
		for print := range l.changed {
			if _, has := l.holds[print]; has {
				delta.Added = append(delta.Added, print)
			} else {
				delta.Removed = append(delta.Removed, print)
			}
		}
	}
	slices.Sort(delta.Added)
	slices.Sort(delta.Removed)
	if len(delta.Added) > task.MaxPrints {
		delta.Added, delta.Partial = delta.Added[:task.MaxPrints], true
	}
	delta.Removed = delta.Removed[:min(len(delta.Removed), task.MaxPrints)]
	l.flying, l.changed = l.changed, make(map[task.FilePrint]struct{})
	return delta
}

// landed takes the queue's word on a call that told something: the version
// that it has by now.
func (l *ledger) landed(told, has uint64) {
	l.flying = nil
	if l.known = told; has != told {
		l.known = 0
	}
}

// failed takes back what a call without an answer has told.
func (l *ledger) failed() {
	for print := range l.flying {
		l.changed[print] = struct{}{}
	}
	if l.flying != nil {
		l.known = 0 // the call may have arrived
	}
	l.flying = nil
}
