package master

import (
	"slices"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// keeper is a pilot that has an output to keep, or had one.
type keeper struct {
	pilot  task.PilotID
	output task.OutputID
}

// loser is a pilot that has lost its copy of a file which it was to keep.
type loser struct {
	keeper
	file task.File
}

// tellRelieved tells pilots that are still there that a copy is their business no more.
func (roster *roster) tellRelieved(at *step, keepers ...keeper) {
	for _, k := range keepers {
		if w := roster.members[k.pilot]; w != nil {
			at.tell(w, message.Acks{Relieved: []task.OutputID{k.output}})
		}
	}
}

// copiesGone looks for files of which their keeper has lost its copy, and tells
// that one when that is done, and the queue knows if nobody has them: a master that dies
// before leaves it to the next one.
func (f *searches) copiesGone(at *step, holding *holding, w *member, files []task.File) {
	for _, file := range files {
		told := keeper{w.id, task.OutputID{Attempt: file.Producer, LFN: file.LFN}}
		if lost := holding.outbox.lossOf(file); lost != nil {
			lost.bereft = addKeeper(lost.bereft, told)
			continue
		}
		if holding.site.handout.fateKnown(&holding.outbox, file) {
			holding.site.roster.tellRelieved(at, told)
			continue
		}
		if s := f.byName[file.LFN]; s != nil && s.file.Producer != file.Producer {
			if !holding.counts(file) {
				f.behind = append(f.behind, loser{told, file})
				continue
			}
			f.endWatch(at, holding, s)
		}
		s := f.watch(at, &holding.site, file)
		s.bereft = addKeeper(s.bereft, told)
		if s.holder == w.id {
			holding.site.list.askFor(at, s)
		}
	}
}

// counts tells whether a file is known as the one of its name that the queue counts.
func (holding *holding) counts(file task.File) bool {
	k := holding.site.handout.files[file.LFN]
	return k != nil && k.file.Producer == file.Producer && holding.outbox.outcomes[file.Producer] == nil
}

// addKeeper adds a keeper once.
func addKeeper(all []keeper, one keeper) []keeper {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// relieveBereft tells those who had a file to keep that it has been looked for.
func (f *searches) relieveBereft(at *step, site *site, s *search) {
	site.roster.tellRelieved(at, s.bereft...)
	s.bereft = nil
}

// passBehind looks for files that waited for the end of another search.
func (f *searches) passBehind(at *step, holding *holding) {
	behind := f.behind
	f.behind = nil
	for _, l := range behind {
		again := slices.ContainsFunc(f.behind, func(other loser) bool { return other.keeper == l.keeper })
		if w := holding.site.roster.members[l.pilot]; w != nil && !again {
			f.copiesGone(at, holding, w, []task.File{l.file})
		}
	}
}
