package master

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// searches are for files that nobody may have any more.
type searches struct {
	byName map[task.LFN]*search
	behind []loser // whose files wait for the end of the search for another one of that name
}

// search is the question whether a file that only caches hold is lost: a
// pilot could not read it, or whoever made it is gone.
type search struct {
	file    task.File
	tasks   []*held // that wait for the answer
	round   uint64  // of the TaskList that asks; 0: not asking
	misses  int     // rounds that did not reach everybody
	watch   bool    // it is to reach the storage element, or to be reported lost
	drop    bool    // nobody needs it any more: who has it is to drop it
	holder  task.PilotID
	looking bool      // the holder was told to look at the storage element only because nobody has the file
	looks   int       // how many were told so
	again   time.Time // when the next step is due; zero: not before something happens
	resting bool      // it was found; its tasks try again at that time
	bereft  []keeper  // were to keep it and have it no more
}

const (
	// maxSearches is how often a file may be missed, although somebody says to
	// have it, before its task goes back to the queue.
	maxSearches = 5
	// maxLooks is how many pilots look in turn for a file at its place on the
	// storage element, while that does not answer.
	maxLooks = 5
	// maxMisses is in how many rounds silent pilots may leave it open whether
	// a file is lost.
	maxMisses = 5
	// storeWait is how long a pilot that has a file may take to store it
	// before the site is asked again.
	storeWait = time.Minute
)

// missing begins to look for inputs that nobody gave to a pilot.
func (f *searches) missing(at *step, holding *holding, h *held, back message.Handback) {
	if h.searched++; h.searched > maxSearches {
		holding.giveBackUnread(at, h, back.Reason)
		return
	}
	looked := false
	for _, file := range back.Missing {
		k := holding.site.handout.file(file.LFN)
		if k.file.Exists() && k.file.Producer != file.Producer || len(k.file.Replicas) > 0 {
			continue // by now there is another one
		}
		s := f.search(at, &holding.site, file)
		s.tasks = append(s.tasks, h)
		h.searching++
		looked = true
		if s.round == 0 && !s.looking {
			holding.site.list.askFor(at, s)
		}
	}
	if at.own.on && !looked {
		holding.giveBackUnread(at, h, back.Reason) // nobody else is here who might read them
		return
	}
	holding.backToReady(at, h, false)
}

// badCopies tells the queue which copies a member has found missing on storage
// elements, or with other bytes, and forgets them.
func (hand *handout) badCopies(at *step, outbox *outbox, w *member, bad []task.LostFile) {
	for _, copied := range bad {
		copied.Pilot = w.id
		if !slices.ContainsFunc(outbox.lost, func(l loss) bool {
			return l.Digest == copied.Digest && l.LFN == copied.LFN && l.URL == copied.URL && l.Pilot == copied.Pilot
		}) {
			outbox.lost = append(outbox.lost, loss{LostFile: copied})
			outbox.syncSoon(at, hand.gatherDelay(at))
		}
		if k := hand.files[copied.LFN]; k != nil && k.file.Digest == copied.Digest {
			k.file.Replicas = slices.DeleteFunc(slices.Clone(k.file.Replicas), func(r task.Replica) bool { return r.URL == copied.URL })
		}
	}
}

// search returns the search for a file, begun when there is none.
func (f *searches) search(at *step, site *site, file task.File) *search {
	s := f.byName[file.LFN]
	if s == nil {
		s = &search{file: file}
		f.byName[file.LFN] = s
		site.list.askFor(at, s)
	}
	return s
}

// askFor puts the question into the next round.
func (l *list) askFor(at *step, s *search) {
	s.round, s.again, s.resting, s.holder, s.looking = l.round.number+1, time.Time{}, false, "", false
	l.round.ask = append(l.round.ask, s.file.Key())
	l.hurry(at.now)
}

// watch looks for a file that nobody stores by itself, and returns the search.
func (f *searches) watch(at *step, site *site, file task.File) *search {
	s := f.search(at, site, file)
	s.watch = true
	return s
}

// searchFilesOf looks for what a pilot that is gone has made and what no
// storage element has, and again for what it was to store.
func (f *searches) searchFilesOf(at *step, site *site, pilot task.PilotID) {
	for _, k := range byKey(site.handout.files) {
		if k.file.Producer.Pilot == pilot && sole(k.file) {
			f.watch(at, site, k.file)
		}
	}
	for _, s := range byKey(f.byName) {
		if s.holder == pilot {
			site.list.askFor(at, s)
		}
	}
}

// check looks for files that nobody may have any more, as the queue says, unless it
// is being told what became of them. The queue's word on them counts: put back to a
// backup, it knows neither copies that are known here nor who has made a file before.
func (f *searches) check(at *step, holding *holding, files []task.File) {
	for _, file := range files {
		if holding.outbox.tellsFate(file) {
			continue
		}
		holding.site.learnFile(at, &holding.outbox, file)
		f.anew(at, holding, file).watch = true
	}
}

// anew is the search for a file by the queue's word: one for another attempt's of that
// name ends.
func (f *searches) anew(at *step, holding *holding, file task.File) *search {
	if s := f.byName[file.LFN]; s != nil && s.file.Producer != file.Producer {
		f.endWatch(at, holding, s)
	}
	return f.search(at, &holding.site, file)
}

// drop has caches drop files that nobody needs any more, as the queue says, but for
// those that a task here reads or is to be given.
func (f *searches) drop(at *step, holding *holding, files []task.File) {
	for _, file := range files {
		k := holding.site.handout.files[file.LFN]
		if holding.outbox.tellsFate(file) || k != nil && len(k.readers)+len(k.makers) > 0 {
			continue
		}
		if s := f.byName[file.LFN]; s == nil || s.file.Producer != file.Producer {
			f.anew(at, holding, file).drop = true
		} else if len(s.tasks) == 0 && !s.drop {
			s.drop = true
			holding.site.list.askFor(at, s)
		}
	}
}

// dropped tells who has a file to drop it, and the queue that it is gone.
func (f *searches) dropped(at *step, holding *holding, s *search, has []*member) {
	k := holding.site.handout.files[s.file.LFN]
	if k != nil && len(k.readers)+len(k.makers) > 0 {
		f.endWatch(at, holding, s) // a task that was retried reads it
		return
	}
	for _, w := range has {
		at.tell(w, message.Acks{Relieved: []task.OutputID{{Attempt: s.file.Producer, LFN: s.file.LFN}}})
		at.tell(w, message.Replicate{Term: at.term, Drops: []task.File{s.file}})
	}
	delete(f.byName, s.file.LFN)
	if k != nil && k.file.Producer == s.file.Producer {
		holding.site.fileMissing(at, &holding.outbox, k)
	}
	holding.outbox.lostFile(at, s.file, "nobody needs it any more", s.bereft...)
}

// fateKnown tells whether a file is known to be stored or lost.
func (hand *handout) fateKnown(outbox *outbox, file task.File) bool {
	if k := hand.files[file.LFN]; k != nil && k.file.Producer == file.Producer && len(k.file.Replicas) > 0 {
		return true
	}
	return outbox.tellsFate(file)
}

// tellsFate tells whether the news that a file is stored or lost is on its way to
// the queue.
func (o *outbox) tellsFate(file task.File) bool {
	_, stored := o.stored[task.OutputID{Attempt: file.Producer, LFN: file.LFN}]
	return stored || o.lossOf(file) != nil
}

// searched draws the consequences of a round that asked for files.
func (f *searches) searched(at *step, holding *holding, round uint64, holders map[task.FileKey][]*member, complete bool) {
	for _, s := range byKey(f.byName) {
		if s.round != round {
			continue
		}
		s.round = 0
		switch has := holders[s.file.Key()]; {
		case s.drop && len(s.tasks) == 0 && (complete || s.misses >= maxMisses):
			f.dropped(at, holding, s, has)
		case len(has) > 0:
			f.found(at, s, has)
		case !complete && s.misses < maxMisses:
			s.misses++
			s.again = at.now.Add(at.config.LostWait)
		default:
			f.lookAtStorage(at, holding, s)
		}
	}
}

// lookAtStorage has a pilot look for a file that no cache has at its place on the
// storage element: its maker may have stored it, and gone before it told. Where
// nobody can look it is lost.
func (f *searches) lookAtStorage(at *step, holding *holding, s *search) {
	var pilots []*member // that are there longest
	for _, w := range byKey(holding.site.roster.members) {
		switch {
		case !w.described:
		case len(pilots) == 0 || w.keeps() > pilots[0].keeps():
			pilots = []*member{w}
		case w.keeps() == pilots[0].keeps():
			pilots = append(pilots, w)
		}
	}
	if at.settings.SE == "" || s.looks == maxLooks || len(pilots) == 0 {
		f.fileLost(at, holding, s)
		return
	}
	s.looks++
	chosen := pilots[(int(s.file.Digest[0])+s.looks)%len(pilots)]
	s.holder, s.looking, s.again = chosen.id, true, at.now.Add(storeWait)
	at.tell(chosen, message.StoreOrder{File: s.file})
}

// answered takes the answer of a holder that was to store a file, or of who was to look at
// the storage element. News that the file is there came before it. A holder that keeps the
// file tells a new master of it, as those did who were to keep it before.
func (f *searches) answered(at *step, holding *holding, w *member, answer message.KeptAnswer) {
	s := f.byName[answer.Output.LFN]
	if s == nil || s.holder != w.id || s.file.Producer != answer.Output.Attempt {
		return
	}
	switch {
	case !s.looking:
		if answer.Failure == "" {
			f.relieveBereft(at, &holding.site, s)
		}
	case answer.Failure == "":
		holding.site.list.askFor(at, s) // it came into a cache meanwhile
	case answer.Away:
		s.again = at.now.Add(at.config.LostWait << s.looks)
	default:
		f.fileLost(at, holding, s)
	}
}

// found has a holder store a file that is to be kept. Tasks that missed it
// try again soon.
func (f *searches) found(at *step, s *search, has []*member) {
	s.misses, s.again = 0, time.Time{}
	if len(s.tasks) > 0 {
		s.resting, s.again = true, at.now.Add(at.config.LostWait)
	}
	if !s.watch {
		s.resting, s.again = true, at.now.Add(at.config.LostWait)
		return
	}
	chosen := has[0]
	for _, w := range has {
		if w.keeps() > chosen.keeps() {
			chosen = w
		}
	}
	s.holder = chosen.id
	if at.settings.SE == "" {
		return // it stays in caches, and is looked for again when the holder goes
	}
	if !s.resting {
		s.again = at.now.Add(storeWait)
	}
	at.tell(chosen, message.StoreOrder{File: s.file})
}

// fileLost tells the queue that nobody holds a file any more; the queue has
// it made again.
func (f *searches) fileLost(at *step, holding *holding, s *search) {
	delete(f.byName, s.file.LFN)
	k := holding.site.handout.files[s.file.LFN]
	if k != nil && k.file.Exists() && (k.file.Producer != s.file.Producer || len(k.file.Replicas) > 0) {
		f.relieveBereft(at, &holding.site, s)
		f.release(at, holding, s) // it has reached a storage element meanwhile, or was made again
		return
	}
	reason := fmt.Sprintf("no pilot holds %s and no storage element has it", s.file.LFN.Local())
	holding.outbox.lostFile(at, s.file, reason, s.bereft...)
	if k != nil {
		holding.site.fileMissing(at, &holding.outbox, k)
	}
	for _, h := range s.tasks {
		h.searching--
	}
	for _, h := range holding.site.handout.readersOf(s.file.LFN) {
		holding.giveBackUnread(at, h, reason)
	}
}

// release lets tasks go on that waited for a search.
func (f *searches) release(at *step, holding *holding, s *search) {
	tasks := s.tasks
	s.tasks = nil
	for _, h := range tasks {
		h.searching--
		holding.site.mayBeReady(at, h)
	}
}

// endWatch ends the search for a file that has reached a storage element, or that does
// not count any more.
func (f *searches) endWatch(at *step, holding *holding, s *search) {
	delete(f.byName, s.file.LFN)
	f.relieveBereft(at, &holding.site, s)
	f.release(at, holding, s)
}

// passSearches lets tasks go on whose file has been found, and asks again for
// files that do not reach the storage element.
func (f *searches) passSearches(at *step, holding *holding) {
	for name, s := range byKey(f.byName) {
		if s.again.IsZero() || at.now.Before(s.again) {
			continue
		}
		switch {
		case s.resting && !s.watch:
			delete(f.byName, name)
			f.release(at, holding, s)
		case s.resting:
			f.release(at, holding, s)
			s.resting, s.again = false, time.Time{}
			if at.settings.SE != "" {
				s.again = at.now.Add(storeWait)
			}
		default:
			holding.site.list.askFor(at, s)
		}
	}
	f.passBehind(at, holding)
}
