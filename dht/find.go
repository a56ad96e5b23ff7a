package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// maxFind bounds the files in one question.
const maxFind = 500

// find is a search for locations under way: each file's nearest members are
// asked, one, then two, then all of FindMost, before the file counts as
// absent (DESIGN section 5).
type find struct {
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
	find  *find
	to    task.PeerID
	files []task.FileKey
}

// finds are the searches and their questions, both by number.
type finds struct {
	count     uint64
	byNumber  map[uint64]*find
	questions map[uint64]*question
}

func (f *finds) init() {
	f.byNumber = make(map[uint64]*find)
	f.questions = make(map[uint64]*question)
}

func (f *finds) deadline() time.Time {
	var first time.Time
	for _, search := range f.byNumber {
		first = earlier(first, search.deadline)
	}
	return first
}

func (o *Overlay) locate(e Locate) {
	o.finds.count++
	f := &find{number: o.finds.count, user: e.N, files: make(map[task.FileKey]*wanted, len(e.Files))}
	o.finds.byNumber[f.number] = f
	for _, file := range e.Files {
		if f.files[file] != nil {
			continue
		}
		w := &wanted{}
		f.files[file] = w
		f.open++
		for _, r := range o.located(o.self.Peer, []task.FileKey{file}) {
			o.addHolder(w, r)
		}
		for _, m := range o.known().nearest(KeyOfFile(file), o.config.FindMost, o.unreachable) {
			if m.member.Peer != o.self.Peer {
				w.targets = append(w.targets, m.member.Peer)
			}
		}
	}
	o.ask(f, sortedFiles(f.files))
}

// addHolder takes a record's holder unless it is this pilot itself or known
// to be gone.
func (o *Overlay) addHolder(w *wanted, r Record) {
	known := slices.ContainsFunc(w.holders, func(h Holder) bool { return h.Peer == r.Holder })
	if r.Holder != o.self.Peer && !r.Gone && !known && !o.denied[r.Holder] && !o.records.isHidden(r.Holder) {
		w.holders = append(w.holders, Holder{Peer: r.Holder, DataURL: r.DataURL})
	}
}

// ask sends the next questions for some of a search's files, or ends the
// search.
func (o *Overlay) ask(f *find, files []task.FileKey) {
	outgoing := make(map[task.PeerID][]task.FileKey)
	for _, file := range files {
		w := f.files[file]
		if w.settled || len(w.waiting) > 0 && len(w.holders) == 0 {
			continue
		}
		if len(w.holders) > 0 || w.asked == len(w.targets) {
			w.settled = true
			f.open--
			continue
		}
		upto := min(2*w.asked+1, len(w.targets))
		for ; w.asked < upto; w.asked++ {
			peer := w.targets[w.asked]
			w.waiting = append(w.waiting, peer)
			outgoing[peer] = append(outgoing[peer], file)
		}
	}
	for _, peer := range sortedPeers(outgoing) {
		for some := range slices.Chunk(outgoing[peer], maxFind) {
			o.finds.count++
			o.finds.questions[o.finds.count] = &question{f, peer, some}
			o.send(peer, Find{N: o.finds.count, Files: some})
		}
	}
	if len(outgoing) > 0 {
		f.deadline = o.now.Add(o.config.FindStep)
	}
	if f.open == 0 {
		o.endFind(f)
	}
}

func (o *Overlay) endFind(f *find) {
	delete(o.finds.byNumber, f.number)
	for number, q := range o.finds.questions {
		if q.find == f {
			delete(o.finds.questions, number)
		}
	}
	holders := make(map[task.FileKey][]Holder)
	for file, w := range f.files {
		if len(w.holders) > 0 {
			holders[file] = w.holders
		}
	}
	o.act(Located{N: f.user, Holders: holders})
}

// found takes an answer, in time or late.
func (o *Overlay) found(from task.PeerID, m Found) {
	q := o.finds.questions[m.N]
	if q == nil || q.to != from {
		return
	}
	for _, r := range m.Records {
		if w := q.find.files[r.File]; w != nil && !w.settled {
			o.addHolder(w, r)
		}
	}
	o.answered(m.N, q)
}

// answered goes on with the files of a question that has got its answer, or
// will not get one.
func (o *Overlay) answered(number uint64, q *question) {
	delete(o.finds.questions, number)
	for _, file := range q.files {
		w := q.find.files[file]
		w.waiting = slices.DeleteFunc(w.waiting, func(peer task.PeerID) bool { return peer == q.to })
	}
	o.ask(q.find, q.files)
}

// findWithout goes on without the answers of a peer that was lost.
func (o *Overlay) findWithout(peer task.PeerID) {
	for _, number := range sortedNumbers(o.finds.questions) {
		if q := o.finds.questions[number]; q != nil && q.to == peer {
			o.answered(number, q)
		}
	}
}

// passFinds goes on without those that have not answered in time; a late
// answer still counts while the search lasts.
func (o *Overlay) passFinds() {
	for _, n := range sortedNumbers(o.finds.byNumber) {
		f := o.finds.byNumber[n]
		if o.now.Before(f.deadline) {
			continue
		}
		for _, w := range f.files {
			w.waiting = nil
		}
		o.ask(f, sortedFiles(f.files))
	}
}
