package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// find is a question for locations under way: each file's nearest members are
// asked, one, then two, then all of FindMost, before the file counts as
// absent (DESIGN section 5).
type find struct {
	user     uint64
	files    map[task.FileKey]*wanted
	deadline time.Time
}

type wanted struct {
	targets []task.PeerID // nearest first
	asked   int           // so many of them
	waiting map[task.PeerID]bool
	holders []Holder
}

func (w *wanted) settled() bool {
	return len(w.holders) > 0 || w.asked == len(w.targets) && len(w.waiting) == 0
}

func (o *Overlay) locate(e Locate) {
	o.findCount++
	n := o.findCount
	f := &find{user: e.N, files: make(map[task.FileKey]*wanted, len(e.Files))}
	o.finds[n] = f
	for _, file := range e.Files {
		w := &wanted{waiting: make(map[task.PeerID]bool)}
		f.files[file] = w
		w.add(o.records.find(o.now, []task.FileKey{file}), o.self.Peer)
		for _, m := range o.Nearest(file, o.config.FindMost) {
			if m.Peer != o.self.Peer {
				w.targets = append(w.targets, m.Peer)
			}
		}
	}
	o.ask(n, f)
}

// add takes records of one file; this pilot itself is no holder to be told of.
func (w *wanted) add(records []Record, self task.PeerID) {
	for _, r := range records {
		known := slices.ContainsFunc(w.holders, func(h Holder) bool { return h.Peer == r.Holder })
		if r.Holder != self && !known {
			w.holders = append(w.holders, Holder{Peer: r.Holder, DataURL: r.DataURL})
		}
	}
}

// ask sends the next questions, or ends the search.
func (o *Overlay) ask(n uint64, f *find) {
	outgoing := make(map[task.PeerID][]task.FileKey)
	for _, file := range sortedFiles(f.files) {
		w := f.files[file]
		if len(w.holders) > 0 || len(w.waiting) > 0 {
			continue
		}
		upto := min(max(1, w.asked*2+1), len(w.targets))
		for ; w.asked < upto; w.asked++ {
			peer := w.targets[w.asked]
			w.waiting[peer] = true
			outgoing[peer] = append(outgoing[peer], file)
		}
	}
	for _, peer := range sortedPeers(outgoing) {
		o.send(peer, Find{N: n, Files: outgoing[peer]})
	}
	f.deadline = o.now.Add(o.config.FindStep)
	o.endFind(n, f)
}

func (o *Overlay) endFind(n uint64, f *find) {
	holders := make(map[task.FileKey][]Holder)
	for file, w := range f.files {
		if !w.settled() {
			return
		}
		if len(w.holders) > 0 {
			holders[file] = w.holders
		}
	}
	delete(o.finds, n)
	o.act(Located{N: f.user, Holders: holders})
}

func (o *Overlay) found(from task.PeerID, m Found) {
	f := o.finds[m.N]
	if f == nil {
		return
	}
	for _, w := range f.files {
		delete(w.waiting, from)
	}
	for _, r := range m.Records {
		if w := f.files[r.File]; w != nil {
			w.add([]Record{r}, o.self.Peer)
		}
	}
	o.ask(m.N, f)
}

// passFinds goes on without those that have not answered in time.
func (o *Overlay) passFinds() {
	for _, n := range sortedNumbers(o.finds) {
		f := o.finds[n]
		if o.now.Before(f.deadline) {
			continue
		}
		for _, w := range f.files {
			clear(w.waiting)
		}
		o.ask(n, f)
	}
}
