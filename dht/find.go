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
// then all of FindMost, before the file counts as absent.
type search struct {
	number   uint64
	user     uint64
	files    map[task.FileKey]*wanted
	doubted  []task.PeerID // by who asks
	open     int           // files that are not settled
	deadline time.Time
}

type wanted struct {
	asked     []task.PeerID
	waiting   []task.PeerID
	holders   []Holder
	gone      map[task.PeerID]uint64 // who has withdrawn it, as is said, and the number of that word
	withdrawn []Holder               // of those, who is said to hold it
	settled   bool
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
	sought := &search{number: f.count, user: e.N, doubted: e.Doubted, files: make(map[task.FileKey]*wanted, len(e.Files))}
	f.searches[sought.number] = sought
	for _, file := range e.Files {
		if sought.files[file] != nil {
			continue
		}
		w := &wanted{}
		sought.files[file] = w
		sought.open++
		for _, r := range kept.find(s.now, m.self.Peer, []task.FileKey{file}) {
			w.add(s.now, m, kept, r)
		}
	}
	f.ask(s, m, sought, slices.Sorted(maps.Keys(sought.files)))
}

// add takes a record's holder unless it is this pilot itself or known to be
// gone, or has withdrawn the file since.
func (w *wanted) add(now time.Time, m *membership, kept *records, r Record) {
	if r.Holder == m.self.Peer || m.denied[r.Holder] || kept.hides(r.Holder, now.Add(r.TTL-kept.ttl)) {
		return
	}
	i := slices.IndexFunc(w.holders, func(h Holder) bool { return h.Peer == r.Holder })
	switch {
	case r.Gone:
		if w.gone == nil {
			w.gone = make(map[task.PeerID]uint64)
		}
		w.gone[r.Holder] = max(w.gone[r.Holder], r.Seq)
		if i >= 0 {
			w.withdrawn = append(w.withdrawn, w.holders[i])
			w.holders = slices.Delete(w.holders, i, i+1)
		}
	case i >= 0:
	case r.Seq > w.gone[r.Holder]:
		w.holders = append(w.holders, Holder{Peer: r.Holder, DataURL: r.DataURL})
	case len(w.withdrawn) < maxWithdrawn:
		w.withdrawn = append(w.withdrawn, Holder{Peer: r.Holder, DataURL: r.DataURL})
	}
}

// maxWithdrawn bounds the holders of a file that are named though they have withdrawn it.
const maxWithdrawn = 8

// suffices tells whether somebody holds the file whom the asker does not doubt.
func (w *wanted) suffices(doubted []task.PeerID) bool {
	return slices.ContainsFunc(w.holders, func(h Holder) bool { return !slices.Contains(doubted, h.Peer) })
}

// found are the holders. Where there is none, those count that have withdrawn the file:
// the word of one member alone hides nothing.
func (w *wanted) found() []Holder {
	if len(w.holders) == 0 {
		return w.withdrawn
	}
	return w.holders
}

// ask sends the next questions for some of a search's files, or ends the
// search.
func (f *finder) ask(s *step, m *membership, sought *search, files []task.FileKey) {
	outgoing := make(map[task.PeerID][]task.FileKey)
	for _, file := range files {
		w := sought.files[file]
		enough := w.suffices(sought.doubted)
		if w.settled || len(w.waiting) > 0 && !enough {
			continue
		}
		var next []task.PeerID
		if !enough {
			next = w.next(s.now, m, KeyOfFile(file), f.config.Locations.FindMost)
		}
		if len(next) == 0 {
			w.settled = true
			sought.open--
			continue
		}
		for _, peer := range next {
			w.asked, w.waiting = append(w.asked, peer), append(w.waiting, peer)
			outgoing[peer] = append(outgoing[peer], file)
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(outgoing)) {
		for some := range slices.Chunk(outgoing[peer], maxFind) {
			f.count++
			f.questions[f.count] = &question{sought, peer, some}
			sure := !slices.ContainsFunc(some, func(file task.FileKey) bool { return !m.sure(s.now, KeyOfFile(file)) })
			s.send(peer, Find{N: f.count, Files: some, Sure: sure})
		}
	}
	if len(outgoing) > 0 {
		sought.deadline = s.now.Add(f.config.Locations.FindStep)
	}
	if sought.open == 0 {
		f.end(s, sought)
	}
}

// next are the members to ask now: one, then two, then as many as may be asked,
// each time of those that are known to be nearest by then.
func (w *wanted) next(now time.Time, m *membership, key Key, most int) (next []task.PeerID) {
	several := min(len(w.asked)+1, most-len(w.asked))
	for _, other := range m.nearest(now, key, most) {
		peer := other.member.Peer
		if len(next) < several && peer != m.self.Peer && !slices.Contains(w.asked, peer) {
			next = append(next, peer)
		}
	}
	return next
}

func (f *finder) end(s *step, sought *search) {
	delete(f.searches, sought.number)
	maps.DeleteFunc(f.questions, func(_ uint64, q *question) bool { return q.search == sought })
	holders := make(map[task.FileKey][]Holder)
	for file, w := range sought.files {
		if found := w.found(); len(found) > 0 {
			holders[file] = found
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
			w.add(s.now, m, kept, r)
		}
	}
	f.answered(s, m, answer.N, q)
}

// answered goes on with the files of a question that has got its answer, or
// will not get one.
func (f *finder) answered(s *step, m *membership, number uint64, q *question) {
	delete(f.questions, number)
	for _, file := range q.files {
		w := q.search.files[file]
		w.waiting = slices.DeleteFunc(w.waiting, func(peer task.PeerID) bool { return peer == q.to })
	}
	f.ask(s, m, q.search, q.files)
}

// noAnswer goes on without the answers of a peer that was lost.
func (f *finder) noAnswer(s *step, m *membership, peer task.PeerID) {
	for _, number := range slices.Sorted(maps.Keys(f.questions)) {
		if q := f.questions[number]; q != nil && q.to == peer {
			f.answered(s, m, number, q)
		}
	}
}

// pass goes on without those that have not answered in time; a late answer
// still counts while the search lasts.
func (f *finder) pass(s *step, m *membership) {
	if len(f.searches) == 0 {
		return
	}
	for _, number := range slices.Sorted(maps.Keys(f.searches)) {
		sought := f.searches[number]
		if s.now.Before(sought.deadline) {
			continue
		}
		for _, w := range sought.files {
			w.waiting = nil
		}
		f.ask(s, m, sought, slices.Sorted(maps.Keys(sought.files)))
	}
}
