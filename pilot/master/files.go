package master

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// known is a file as the master knows it: one that held tasks read, or one
// that the site has made and that no storage element has yet.
type known struct {
	file    task.File
	readers heldTasks // of which it is an input
	makers  heldTasks // of which it is an output
	waiters heldTasks // that miss it
	// stranded is since when tasks wait for it although no held task makes it.
	stranded time.Time
}

type heldTasks []*held

func (t *heldTasks) drop(h *held) {
	*t = slices.DeleteFunc(*t, func(other *held) bool { return other == h })
}

// file returns what is known of a file, made when nothing is.
func (hand *handout) file(name task.LFN) *known {
	k := hand.files[name]
	if k == nil {
		k = &known{file: task.File{LFN: name, Size: -1}}
		hand.files[name] = k
	}
	return k
}

// makerMembers visits the members that have been given a task that makes it.
func (k *known) makerMembers() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		if k == nil {
			return
		}
		for _, maker := range k.makers {
			if maker.placement != nil && !yield(maker.placement.member) {
				return
			}
		}
	}
}

// sole tells whether only caches of the site hold what a task made.
func sole(file task.File) bool {
	return !file.Producer.IsZero() && len(file.Announced) > 0 && len(file.Replicas) == 0
}

// dispose forgets a file that nobody here needs to know. What the queue does
// not know yet stays: hand-outs describe files as the queue knows them.
func (hand *handout) dispose(at *step, outbox *outbox, k *known) {
	if len(k.readers) > 0 || len(k.makers) > 0 || sole(k.file) && at.settings.SE != "" || outbox.outcomes[k.file.Producer] != nil {
		return
	}
	if hand.files[k.file.LFN] == k {
		delete(hand.files, k.file.LFN)
	}
}

// miss has a task wait for a file.
func (hand *handout) miss(h *held, k *known) {
	if h.missing[k.file.LFN] {
		return
	}
	if h.missing == nil {
		h.missing = make(map[task.LFN]bool)
	}
	h.missing[k.file.LFN] = true
	k.waiters = append(k.waiters, h)
	hand.missed[k.file.LFN] = true
}

// learnFile takes the queue's word on a file that held tasks read. What an
// attempt of this site has made is known here earlier than there, until the
// queue has judged the attempt; copies on the storage element likewise.
func (site *site) learnFile(at *step, outbox *outbox, file task.File) {
	k := site.handout.files[file.LFN]
	if k == nil || outbox.outcomes[k.file.Producer] != nil && k.file.Exists() {
		return
	}
	if stored, reported := outbox.stored[task.OutputID{Attempt: file.Producer, LFN: file.LFN}]; reported {
		file.Replicas = withReplica(file.Replicas, task.Replica{Site: at.settings.Site, URL: stored.stored.URL})
	}
	if !file.Exists() {
		site.fileMissing(at, outbox, k)
		return
	}
	k.file = file
	site.fileExists(at, k)
}

func withReplica(replicas []task.Replica, replica task.Replica) []task.Replica {
	if slices.Contains(replicas, replica) {
		return replicas
	}
	return append(slices.Clone(replicas), replica)
}

// fileExists makes tasks ready that waited for a file.
func (site *site) fileExists(at *step, k *known) {
	waiting := k.waiters
	k.waiters = nil
	for _, h := range waiting {
		delete(h.missing, k.file.LFN)
		site.mayBeReady(at, h)
		site.markMakers(h)
	}
}

func (site *site) mayBeReady(at *step, h *held) {
	if site.handout.held[h.Task.ID] != h || len(h.missing) > 0 {
		return
	}
	switch {
	case h.phase == waiting && h.searching == 0:
		site.makeReady(at, h)
	case h.phase == placed && h.placement != nil:
		site.inputsMade(at, h.placement)
	}
}

// fileMissing takes a file for lost: tasks that were to read it wait.
func (site *site) fileMissing(at *step, outbox *outbox, k *known) {
	k.file = task.File{LFN: k.file.LFN, Size: -1}
	for _, h := range site.handout.readersOf(k.file.LFN) {
		site.handout.miss(h, k)
		if h.phase == ready {
			site.makeWait(h)
		}
	}
	site.handout.dispose(at, outbox, k)
}

// readersOf lists held tasks that read a file and are not at a pilot, in the
// order of their ids.
func (hand *handout) readersOf(name task.LFN) []*held {
	k := hand.files[name]
	if k == nil {
		return nil
	}
	var readers []*held
	for _, h := range k.readers {
		if h.phase <= ready {
			readers = append(readers, h)
		}
	}
	slices.SortFunc(readers, func(a, b *held) int { return cmp.Compare(a.Task.ID, b.Task.ID) })
	return slices.Compact(readers) // it may read a file under two names
}

// passStranded gives tasks back that wait for a file which the site does not
// make: the queue knows where it is by now, or has it made elsewhere.
func (holding *holding) passStranded(at *step) {
	for _, name := range slices.Sorted(maps.Keys(holding.site.handout.missed)) {
		k := holding.site.handout.files[name]
		if k == nil || len(k.waiters) == 0 {
			delete(holding.site.handout.missed, name)
		}
		if k == nil {
			continue
		}
		if len(k.waiters) == 0 || len(k.makers) > 0 {
			k.stranded = time.Time{}
			continue
		}
		if k.stranded.IsZero() {
			k.stranded = at.now
		}
		if at.now.Sub(k.stranded) < at.config.Members.AuditAfter {
			continue
		}
		for _, h := range slices.Clone(k.waiters) {
			if h.phase == waiting {
				holding.giveBack(at, h, "its input "+name.Local()+" is not made here")
			}
		}
	}
}

// inputs returns the files of a task's inputs, in order.
func (hand *handout) inputs(t task.Task) []task.File {
	files := make([]task.File, len(t.Inputs))
	for i, in := range t.Inputs {
		files[i] = hand.file(in.LFN).file
	}
	return files
}

// produced makes a task's outputs known to the hand-out. An output of an
// earlier generation that still exists stays as it is, as at the queue.
func (site *site) produced(at *step, outbox *outbox, outcome task.Outcome) {
	for _, output := range outcome.Outputs {
		k := site.handout.file(output.LFN)
		here := len(k.file.Replicas) > 0 || slices.Contains(k.file.Announced, outcome.Site)
		if here && k.file.Producer.Task == outcome.Attempt.Task {
			continue
		}
		k.file = message.Output{Attempt: outcome.Attempt, Produced: output}.File(outcome.Site)
		site.fileExists(at, k)
		site.handout.dispose(at, outbox, k)
	}
}

// disown takes back what a losing attempt was thought to have made. Tasks
// that were to read it go back to the queue, which knows the winner's.
func (holding *holding) disown(at *step, outcome task.Outcome) {
	for _, output := range outcome.Outputs {
		k := holding.site.handout.files[output.LFN]
		if k == nil || k.file.Producer != outcome.Attempt {
			continue
		}
		readers := holding.site.handout.readersOf(output.LFN)
		holding.site.fileMissing(at, &holding.outbox, k)
		for _, h := range readers {
			holding.giveBack(at, h, "another attempt's "+output.LFN.Local()+" counts")
		}
	}
}

// takeStored passes on which files have reached a storage element.
func (m *Master) takeStored(w *member, stored []task.Stored) {
	if len(stored) > 0 {
		w.copying.stores = true
	}
	for _, s := range stored {
		m.holding.outbox.addStored(w.peer, s)
		m.holding.outbox.syncSoon(&m.step, m.holding.site.handout.gatherDelay(&m.step))
		if search := m.searches.byName[s.LFN]; search != nil && search.file.Producer == s.Attempt {
			m.searches.endWatch(&m.step, &m.holding, search)
		}
		k := m.holding.site.handout.files[s.LFN]
		if k == nil || k.file.Producer != s.Attempt {
			continue
		}
		k.file.Replicas = withReplica(k.file.Replicas, task.Replica{Site: m.settings.Site, URL: s.URL})
		if len(k.readers) > 0 && m.holding.outbox.outcomes[s.Attempt] == nil {
			m.holding.copies.files(k.file)
		}
		m.holding.site.handout.dispose(&m.step, &m.holding.outbox, k)
	}
}
