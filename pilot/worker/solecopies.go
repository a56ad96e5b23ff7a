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
	troubled bool      // an upload of it has failed
	offered  time.Time // when the master was last asked for another keeper
}

// keepSole notes outputs that are to be kept, and has them uploaded.
func (w *Worker) keepSole(outputs ...message.Output) {
	for _, output := range outputs {
		delete(w.gone, output.ID())
		if w.sole[output.ID()] == nil {
			w.sole[output.ID()] = &soleCopy{Output: output}
			w.act(Upload{Output: output})
		}
	}
}

// storageIs tells whether the site has a storage element. One that comes gets
// what was kept without it.
func (w *Worker) storageIs(there bool) {
	comes := there && !w.storage
	w.storage = there
	if !comes {
		return
	}
	for _, id := range w.soleInOrder() {
		w.act(Upload{Output: w.sole[id].Output})
	}
}

// letGo ends the keeping of outputs.
func (w *Worker) letGo(ids ...task.OutputID) {
	for _, id := range ids {
		delete(w.gone, id)
		if kept := w.sole[id]; kept != nil {
			delete(w.sole, id)
			w.act(LetGo{Output: kept.Output})
		}
	}
}

// forsake lets go of what an attempt has made that the queue does not count.
func (w *Worker) forsake(attempt task.AttemptID) {
	for _, id := range w.soleInOrder() {
		if id.Attempt == attempt {
			w.letGo(id)
		}
	}
	maps.DeleteFunc(w.gone, func(id task.OutputID, _ task.File) bool { return id.Attempt == attempt })
}

func (w *Worker) soleInOrder() []task.OutputID {
	return slices.SortedFunc(maps.Keys(w.sole), task.OutputID.Compare)
}

// maxGone bounds the lost copies that a new master hears of.
const maxGone = 1000

// notUploaded tells the master of a copy that was to be kept and has left the
// cache, as a damaged one does: perhaps nobody has the file any more. Until the
// file has been looked for, a master that asks for this worker's state, as a new
// one does, is told again.
func (w *Worker) notUploaded(id task.OutputID) {
	kept := w.sole[id]
	if kept == nil {
		return
	}
	delete(w.sole, id)
	file := kept.File(w.self.Site)
	if len(w.gone) < maxGone {
		w.gone[id] = file
	}
	w.report.Gone = append(w.report.Gone, file)
	w.soon(w.config.ReportDelay)
}

func (w *Worker) uploadFailed(id task.OutputID) {
	if kept := w.sole[id]; kept != nil {
		kept.troubled = true
	}
}

// takeOver carries out a StoreOrder.
func (w *Worker) takeOver(file task.File) {
	id := task.OutputID{Attempt: file.Producer, LFN: file.LFN}
	if w.sole[id] != nil {
		w.report.Kept = append(w.report.Kept, message.KeptAnswer{Output: id})
		w.soon(w.config.ReportDelay)
		return
	}
	w.act(Keep{File: file})
}

// kept tells the master whether a file was taken over, or is stored.
func (w *Worker) kept(e Kept) {
	output := message.Output{Attempt: e.File.Producer, Produced: task.Produced{
		LFN: e.File.LFN, Size: e.File.Size, Digest: e.File.Digest, Exec: e.File.Exec,
	}}
	switch {
	case e.URL != "":
		w.uploaded(Uploaded{Stored: []task.Stored{{
			LFN: output.LFN, Attempt: output.Attempt, URL: e.URL, Size: output.Size, Digest: output.Digest,
		}}})
	case e.Failure == "":
		w.keepSole(output)
	}
	w.report.Kept = append(w.report.Kept, message.KeptAnswer{Output: output.ID(), Failure: e.Failure, Away: e.Away})
	w.soon(w.config.ReportDelay)
}

// handOverDue is when a leaving pilot asks for another keeper of a copy; zero
// is never. A copy whose upload is in trouble, or that no storage element will
// ever have, does not wait; others have half of the time that is left. What
// the queue has not judged yet stays here.
func (w *Worker) handOverDue(kept *soleCopy) time.Time {
	switch {
	case !w.draining || w.master == "" || w.outcomes[kept.Attempt] != nil:
		return time.Time{}
	case !kept.offered.IsZero():
		return kept.offered.Add(w.config.ResendAfter)
	case kept.troubled || !w.storage:
		return w.now
	}
	return w.handOver
}

// passHandOver asks the master for other keepers of this pilot's sole copies
// (DESIGN section 4, leave).
func (w *Worker) passHandOver() {
	if !w.draining || len(w.sole) == 0 {
		return
	}
	for _, id := range w.soleInOrder() {
		kept := w.sole[id]
		if due := w.handOverDue(kept); due.IsZero() || w.now.Before(due) {
			continue
		}
		kept.offered = w.now
		w.report.Leaves = append(w.report.Leaves, kept.File(w.self.Site))
		w.soon(0)
	}
}

// handOverDeadline is when passHandOver has something to do; zero is never.
func (w *Worker) handOverDeadline() (first time.Time) {
	if !w.draining {
		return first
	}
	for _, kept := range w.sole {
		if due := w.handOverDue(kept); !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}
