package taskqueue

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// remakeFinal asks for a final output that nobody has to be made again, if it
// was made. That may have been in this very turn: news of a dead pilot's output
// and of its loss come together.
func (r *readiness) remakeFinal(f *FileRecord) {
	if f.Final && f.ProducerTask != "" {
		r.life.remaking = append(r.life.remaking, f.ProducerTask)
	}
}

// askMakers asks those who made the missing inputs of a waiting task to make
// them again. If one of them ended badly the task ends with it.
func (r *readiness) askMakers(s *TaskState, spec *task.Task) {
	for _, name := range inputs(spec) {
		f := r.files.held[name]
		if f == nil || exists(f) || f.ProducerTask == "" {
			continue
		}
		maker := r.tasks.held[f.ProducerTask]
		switch {
		case maker == nil:
		case maker.State == task.Done:
			r.life.remaking = append(r.life.remaking, maker.ID)
		case maker.State.EndedBadly():
			r.life.cancelUpstream(s, maker)
			return
		}
	}
}

// remakeAll opens a new generation of every task whose lost output is needed.
func (r *readiness) remakeAll() {
	ids := r.life.remaking
	r.life.remaking = nil
	if len(ids) == 0 {
		return
	}
	r.tasks.load(ids...)
	r.loadOutputs(ids)
	for _, id := range ids {
		if s := r.tasks.held[id]; s != nil && s.State == task.Done {
			r.regenerate(s)
		}
	}
}

// loadOutputs loads descriptions and output files of tasks.
func (r *records) loadOutputs(ids []task.ID) {
	r.specs.load(ids...)
	var names []task.LFN
	for _, id := range ids {
		if spec := r.specs.held[id]; spec != nil {
			for _, out := range spec.Outputs {
				names = append(names, out.LFN)
			}
		}
	}
	r.files.load(names...)
}

// regenerate reopens a DONE task because its output was lost, or fails it
// when that happened too often or nothing is gained by it.
func (r *readiness) regenerate(s *TaskState) {
	w := r.workflows.need(s.ID.Workflow())
	if w.Cancelled || w.Deleted {
		return
	}
	inVain := r.inVain(w)
	site := s.Site
	r.life.move(s, task.Regenerate, "its output was lost and is needed again")
	r.life.renew(s)
	if inVain {
		r.life.giveUp(s, fmt.Sprintf("its output was on no storage element, and has left the caches of %s", site))
		return
	}
	s.Remade++
	if s.Remade > r.config.Retry.MaxGenerations {
		r.life.giveUp(s, fmt.Sprintf("its output was lost %s: storage or pilots of the sites that ran it lose files", task.Counted(s.Remade, "time")))
		return
	}
	r.life.review(s.ID)
}

// renew gives a reopened task its next generation and empties the entries of
// those outputs that nobody has.
func (l *lifecycle) renew(s *TaskState) {
	s.Generation++
	s.Winner = task.AttemptID{}
	s.TaskFaults, s.NotBefore = TaskFaults{}, 0
	s.Site = ""
	l.tasks.touch(s.ID)
	spec := l.specs.held[s.ID]
	if spec == nil {
		return
	}
	for _, out := range spec.Outputs {
		if f := l.files.held[out.LFN]; f != nil && !exists(f) && !f.Producer.IsZero() {
			f.Producer, f.Digest, f.Size, f.Struck = task.AttemptID{}, task.Digest{}, -1, false
			l.files.touch(f.LFN)
		}
	}
}

// giveUp fails an open task for good, with all that depends on it.
func (l *lifecycle) giveUp(s *TaskState, reason string) {
	l.move(s, task.GiveUp, reason)
	l.ended = append(l.ended, s.ID)
}

// cancelDependants cancels the open readers of what the tasks that ended
// badly will not make, and theirs in turn.
func (r *readiness) cancelDependants() {
	for len(r.life.ended) > 0 {
		ids := r.life.ended
		r.life.ended = nil
		r.tasks.load(ids...)
		r.loadOutputs(ids)
		for _, id := range ids {
			r.cancelReaders(id)
			if s := r.tasks.held[id]; s != nil {
				r.catalogue.discardLosers(s)
			}
		}
	}
}

func (r *readiness) cancelReaders(id task.ID) {
	ended, spec := r.tasks.held[id], r.specs.held[id]
	if ended == nil || spec == nil || !ended.State.EndedBadly() {
		return
	}
	for _, out := range spec.Outputs {
		f := r.files.held[out.LFN]
		if f == nil || f.Uses == 0 || exists(f) {
			continue
		}
		readers := read(r.Files().Readers(f.LFN))
		r.tasks.load(readers...)
		for _, reader := range readers {
			if s := r.tasks.held[reader]; s != nil && !s.State.Terminal() {
				r.life.cancelUpstream(s, ended)
			}
		}
	}
}

// cancelUpstream ends a task because one that it depends on ended badly.
func (l *lifecycle) cancelUpstream(s, ended *TaskState) {
	root := ended.ID
	if ended.Upstream != "" {
		root = ended.Upstream
	}
	if s.State == task.Leased {
		l.revoke(s.Site, s.Lease, s.ID, true)
	}
	l.move(s, task.CancelUpstream, fmt.Sprintf("%s, on which it depends, ended %s", ended.ID, ended.State))
	s.Upstream = root
	l.ended = append(l.ended, s.ID)
}
