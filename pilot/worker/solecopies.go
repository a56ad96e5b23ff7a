package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// soleCopy is an output that this pilot keeps because no storage element has
// it: until one does, another pilot has taken it over, or the queue has judged
// that another attempt counts.
type soleCopy struct {
	message.Output
	troubled time.Time // when an upload of it failed first; zero: none has
	offered  time.Time // when the master was last asked for another keeper
}

// soleCopies are the outputs that only this pilot has, as far as it knows.
type soleCopies struct {
	kept     map[task.OutputID]*soleCopy
	gone     map[task.OutputID]task.File // that have left the cache
	storage  bool                        // the site has a storage element
	handOver time.Time                   // when a leaving pilot hands them over; zero: only what cannot be uploaded
}

// keep notes outputs that are to be kept, and has them uploaded.
func (s *soleCopies) keep(at *step, outputs ...message.Output) {
	for _, output := range outputs {
		delete(s.gone, output.ID())
		if s.kept[output.ID()] == nil {
			s.kept[output.ID()] = &soleCopy{Output: output}
			at.act(Upload{Output: output})
		}
	}
}

// storageIs tells whether the site has a storage element. One that comes gets
// what was kept without it.
func (s *soleCopies) storageIs(at *step, there bool) {
	comes := there && !s.storage
	s.storage = there
	if !comes {
		return
	}
	for _, id := range s.inOrder() {
		at.act(Upload{Output: s.kept[id].Output})
	}
}

// letGo ends the keeping of outputs.
func (s *soleCopies) letGo(at *step, ids ...task.OutputID) {
	for _, id := range ids {
		delete(s.gone, id)
		if kept := s.kept[id]; kept != nil {
			delete(s.kept, id)
			at.act(LetGo{Output: kept.Output})
		}
	}
}

// forsake lets go of what an attempt has made that the queue does not count.
func (s *soleCopies) forsake(at *step, attempt task.AttemptID) {
	for _, id := range s.inOrder() {
		if id.Attempt == attempt {
			s.letGo(at, id)
		}
	}
	maps.DeleteFunc(s.gone, func(id task.OutputID, _ task.File) bool { return id.Attempt == attempt })
}

func (s *soleCopies) inOrder() []task.OutputID {
	return slices.SortedFunc(maps.Keys(s.kept), task.OutputID.Compare)
}

// maxGone bounds the lost copies that a new master hears of.
const maxGone = 1000

// lost tells the master of a copy that was to be kept and has left the cache, as
// a damaged one does: perhaps nobody has the file any more. Until the file has
// been looked for, a master that asks for this worker's state, as a new one does,
// is told again.
func (s *soleCopies) lost(at *step, site task.Site, id task.OutputID) {
	kept := s.kept[id]
	if kept == nil {
		return
	}
	delete(s.kept, id)
	file := kept.File(site)
	if len(s.gone) < maxGone {
		s.gone[id] = file
	}
	at.news.Gone = append(at.news.Gone, file)
	at.later()
}

// lostBefore tells the master again of what left the cache before the queue had accepted
// the outcome: word of it that came earlier was of no file that the queue knew.
func (s *soleCopies) lostBefore(at *step, attempt task.AttemptID) {
	for _, id := range slices.SortedFunc(maps.Keys(s.gone), task.OutputID.Compare) {
		if id.Attempt == attempt {
			at.news.Gone = append(at.news.Gone, s.gone[id])
			at.later()
		}
	}
}

func (s *soleCopies) troubled(at *step, id task.OutputID) {
	if kept := s.kept[id]; kept != nil && kept.troubled.IsZero() {
		kept.troubled = at.now
	}
}

// takeOver carries out a StoreOrder.
func (s *soleCopies) takeOver(at *step, file task.File) {
	id := task.OutputID{Attempt: file.Producer, LFN: file.LFN}
	if s.kept[id] != nil {
		at.kept(message.KeptAnswer{Output: id})
		return
	}
	at.act(Keep{File: file})
}

// kept answers a StoreOrder.
func (at *step) kept(answer message.KeptAnswer) {
	at.news.Kept = append(at.news.Kept, answer)
	at.later()
}

// offerAnew has a new master asked for other keepers.
func (s *soleCopies) offerAnew() {
	for _, kept := range s.kept {
		kept.offered = time.Time{}
	}
}

// offerAfter is how long uploads of a copy fail until a pilot that stays asks for another
// keeper, and how long until it asks again.
const offerAfter = time.Minute

// handOverDue is when a pilot asks for another keeper of a copy; zero is never. One that
// stays does so when uploads have failed for a while: others may reach the storage element.
// When it leaves, a copy whose upload is in trouble, or that no storage element will
// ever have, does not wait; others have half of the time that is left. What
// the queue has not judged yet stays here.
func (s *soleCopies) handOverDue(at *step, kept *soleCopy, leaving bool, unjudged *unjudged) time.Time {
	switch {
	case unjudged.has(kept.Attempt), !leaving && kept.troubled.IsZero():
		return time.Time{}
	case !leaving && kept.offered.IsZero():
		return kept.troubled.Add(offerAfter)
	case !leaving:
		return kept.offered.Add(offerAfter)
	case !kept.offered.IsZero():
		return kept.offered.Add(at.config.ResendAfter)
	case !kept.troubled.IsZero() || !s.storage:
		return at.now
	}
	return s.handOver
}

// passHandOver asks the master for other keepers of sole copies.
func (s *soleCopies) passHandOver(at *step, self task.Site, leaving bool, unjudged *unjudged) {
	for _, id := range s.inOrder() {
		kept := s.kept[id]
		if !at.passed(s.handOverDue(at, kept, leaving, unjudged)) {
			continue
		}
		kept.offered = at.now
		at.news.Leaves = append(at.news.Leaves, kept.File(self))
		at.soon(0)
	}
}

// deadline is when passHandOver has something to do; zero is never.
func (s *soleCopies) deadline(at *step, leaving bool, unjudged *unjudged) (first time.Time) {
	for _, kept := range s.kept {
		first = earliest(first, s.handOverDue(at, kept, leaving, unjudged))
	}
	return first
}
