package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// maxFind bounds the files in one question.
const maxFind = 500

// search is for locations: each file's nearest members are asked, one, then two,
// then all of FindMost, before the file counts as absent (DESIGN section 5).
type search struct {
	number   uint64
	user     uint64
	files    map[task.FileKey]*wanted
	open     int // files that are not settled
	deadline time.Time
}

type wanted struct {
	targets []task.PeerID // nearest first
	asked   int           // so many of them
	waiting []task.PeerID
	holders []Holder
	settled bool
}

// question is one Find message under way.
type question struct {
	search *search
	to     task.PeerID
	files  []task.FileKey
}

// finder has the searches and their questions, both by number.
type finder struct {
	config    Config
	count     uint64
	searches  map[uint64]*search
	questions map[uint64]*question
}

func (f *finder) init(config Config) {
	f.config = config
	f.searches = make(map[uint64]*search)
	f.questions = make(map[uint64]*question)
}

func (f *finder) deadline() (first time.Time) {
	for _, sought := range f.searches {
		first = earlier(first, sought.deadline)
	}
	return first
}

// locate begins a search with what this pilot keeps itself.
func (f *finder) locate(s *step, m *membership, kept *records, e Locate) {
	f.count++
	sought := &search{number: f.count, user: e.N, files: make(map[task.FileKey]*wanted, len(e.Files))}
	f.searches[sought.number] = sought
	for _, file := range e.Files {
		if sought.files[file] != nil {
			continue
		}
		w := &wanted{}
		sought.files[file] = w
		sought.open++
		for _, r := range kept.find(s.now, m, m.self.Peer, []task.FileKey{file}) {
			w.add(m, kept, r)
		}
		for _, other := range m.nearest(s.now, KeyOfFile(file), f.config.Locations.FindMost) {
			if other.member.Peer != m.self.Peer {
				w.targets = append(w.targets, other.member.Peer)
			}
		}
	}
	f.ask(s, sought, slices.Sorted(maps.Keys(sought.files)))
}

// add takes a record's holder unless it is this pilot itself or known to be
// gone.
func (w *wanted) add(m *membership, kept *records, r Record) {
	known := slices.ContainsFunc(w.holders, func(h Holder) bool { return h.Peer == r.Holder })
	if r.Holder != m.self.Peer && !r.Gone && !known && !m.denied[r.Holder] && !kept.isHidden(r.Holder) {
		w.holders = append(w.holders, Holder{Peer: r.Holder, DataURL: r.DataURL})
	}
}

// ask sends the next questions for some of a search's files, or ends the
// search.
func (f *finder) ask(s *step, sought *search, files []task.FileKey) {
	outgoing := make(map[task.PeerID][]task.FileKey)
	for _, file := range files {
		w := sought.files[file]
		if w.settled || len(w.waiting) > 0 && len(w.holders) == 0 {
			continue
		}
		if len(w.holders) > 0 || w.asked == len(w.targets) {
			w.settled = true
			sought.open--
			continue
		}
		upto := min(2*w.asked+1, len(w.targets))
		for ; w.asked < upto; w.asked++ {
			peer := w.targets[w.asked]
			w.waiting = append(w.waiting, peer)
			outgoing[peer] = append(outgoing[peer], file)
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(outgoing)) {
		for some := range slices.Chunk(outgoing[peer], maxFind) {
			f.count++
			f.questions[f.count] = &question{sought, peer, some}
			s.send(peer, Find{N: f.count, Files: some})
		}
	}
	if len(outgoing) > 0 {
		sought.deadline = s.now.Add(f.config.Locations.FindStep)
	}
	if sought.open == 0 {
		f.end(s, sought)
	}
}

func (f *finder) end(s *step, sought *search) {
	delete(f.searches, sought.number)
	maps.DeleteFunc(f.questions, func(_ uint64, q *question) bool { return q.search == sought })
	holders := make(map[task.FileKey][]Holder)
	for file, w := range sought.files {
		if len(w.holders) > 0 {
			holders[file] = w.holders
		}
	}
	s.act(Located{N: sought.user, Holders: holders})
}

// found takes an answer, in time or late.
func (f *finder) found(s *step, m *membership, kept *records, from task.PeerID, answer Found) {
	q := f.questions[answer.N]
	if q == nil || q.to != from {
		return
	}
	for _, r := range answer.Records {
		if w := q.search.files[r.File]; w != nil && !w.settled {
			w.add(m, kept, r)
		}
	}
	f.answered(s, answer.N, q)
}

// answered goes on with the files of a question that has got its answer, or
// will not get one.
func (f *finder) answered(s *step, number uint64, q *question) {
	delete(f.questions, number)
	for _, file := range q.files {
		w := q.search.files[file]
		w.waiting = slices.DeleteFunc(w.waiting, func(peer task.PeerID) bool { return peer == q.to })
	}
	f.ask(s, q.search, q.files)
}

// noAnswer goes on without the answers of a peer that was lost.
func (f *finder) noAnswer(s *step, peer task.PeerID) {
	for _, number := range slices.Sorted(maps.Keys(f.questions)) {
		if q := f.questions[number]; q != nil && q.to == peer {
			f.answered(s, number, q)
		}
	}
}

// pass goes on without those that have not answered in time; a late answer
// still counts while the search lasts.
func (f *finder) pass(s *step) {
	for _, number := range slices.Sorted(maps.Keys(f.searches)) {
		sought := f.searches[number]
		if s.now.Before(sought.deadline) {
			continue
		}
		for _, w := range sought.files {
			w.waiting = nil
		}
		f.ask(s, sought, slices.Sorted(maps.Keys(sought.files)))
	}
}
