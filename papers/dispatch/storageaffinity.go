package dispatch

import (
	"cmp"
	"slices"
)

// StorageAffinity is the task-centric baseline of 001 (sections 2.3 and 2.5,
// after Santos-Neto and others): all tasks are shared out up front to queues
// of the workers, each to the site whose files it overlaps most, and a worker
// that has emptied its queue gets a copy of a task that others have. Whoever
// ends first wins, the others are cancelled.
//
// Up front a site is thought to hold the files of every task that was given to
// it, whatever its capacity: this is the premature decision that the paper
// describes. Equal overlaps go to the shortest queue of the site, and among
// sites to the one with the shortest queue.
type StorageAffinity struct {
	library *library
	workers []*affinityWorker // in the order given
	byName  map[string]*affinityWorker
	sites   map[string]*holding // what they really hold
	planned map[string]*holding // what they are thought to hold up front
	numbers map[uint64]int32
	copies  []int // of each task, in queues or running
	done    []bool
	left    int // tasks that have not ended
}

// Worker has a name and belongs to a site.
type Worker struct{ Name, Site string }

type affinityWorker struct {
	Worker
	queue   []int32
	running []int32
}

// NewStorageAffinity returns a scheduler for these workers, counting overlap
// in files or in bytes.
func NewStorageAffinity(workers []Worker, bytes bool) *StorageAffinity {
	s := &StorageAffinity{
		library: newLibrary(Policy{Bytes: bytes}.size), byName: make(map[string]*affinityWorker), numbers: make(map[uint64]int32),
		sites: make(map[string]*holding), planned: make(map[string]*holding),
	}
	for _, worker := range workers {
		w := &affinityWorker{Worker: worker}
		s.workers = append(s.workers, w)
		s.byName[worker.Name] = w
		if s.sites[worker.Site] == nil {
			s.sites[worker.Site] = &holding{library: s.library}
			s.planned[worker.Site] = &holding{library: s.library}
		}
	}
	return s
}

// Add gives tasks to queues, one after the other.
func (s *StorageAffinity) Add(tasks ...Task) {
	for _, t := range tasks {
		number := s.library.add(t)
		s.numbers[t.No] = number
		s.copies, s.done = append(s.copies, 0), append(s.done, false)
		s.left++
		s.place(number)
	}
}

// place queues a task at the worker whose site overlaps it most.
func (s *StorageAffinity) place(number int32) {
	var best *affinityWorker
	most := 0.0
	for _, w := range s.workers {
		site := s.planned[w.Site]
		site.grow()
		overlap := site.overlap[number]
		if best == nil || overlap > most || overlap == most && len(w.queue) < len(best.queue) {
			best, most = w, overlap
		}
	}
	if best == nil {
		return
	}
	s.planned[best.Site].assign(number)
	best.queue = append(best.queue, number)
	s.copies[number]++
}

// Next takes the worker's next task, from its queue or, once that is empty, a
// copy of another's: of the tasks with the fewest copies the one that the
// site's real holding overlaps most, then the oldest.
func (s *StorageAffinity) Next(r Request) (no uint64, found bool) {
	w := s.byName[r.Worker]
	if w == nil {
		return 0, false
	}
	site := s.sites[w.Site]
	site.grow()
	site.evict(r.Evicted)
	number, found := s.fromQueue(w, &r)
	if !found {
		if number, found = s.copyOf(w, site, &r); !found {
			return 0, false
		}
		s.copies[number]++
	}
	w.running = append(w.running, number)
	site.assign(number)
	return s.library.tasks[number].no, true
}

func (s *StorageAffinity) fromQueue(w *affinityWorker, r *Request) (int32, bool) {
	w.queue = slices.DeleteFunc(w.queue, func(number int32) bool { return s.done[number] })
	at := slices.IndexFunc(w.queue, func(number int32) bool { return r.accepts(s.library.tasks[number].no) })
	if at < 0 {
		return 0, false
	}
	number := w.queue[at]
	w.queue = slices.Delete(w.queue, at, at+1)
	return number, true
}

func (s *StorageAffinity) copyOf(w *affinityWorker, site *holding, r *Request) (best int32, found bool) {
	for number := range int32(len(s.library.tasks)) {
		if s.done[number] || slices.Contains(w.running, number) || slices.Contains(w.queue, number) || !r.accepts(s.library.tasks[number].no) {
			continue
		}
		if !found || cmp.Or(
			cmp.Compare(s.copies[number], s.copies[best]), cmp.Compare(site.overlap[best], site.overlap[number]),
		) < 0 {
			best, found = number, true
		}
	}
	return best, found
}

// Done says that a worker has ended a task. The workers whose copies lose are
// to be cancelled; they may ask at once.
func (s *StorageAffinity) Done(worker string, no uint64) (losers []string) {
	number, known := s.numbers[no]
	if !known || s.done[number] {
		return nil
	}
	s.done[number] = true
	s.left--
	for _, w := range s.workers {
		at := slices.Index(w.running, number)
		if at < 0 {
			continue
		}
		w.running = slices.Delete(w.running, at, at+1)
		if w.Name != worker {
			losers = append(losers, w.Name)
		}
	}
	return losers
}

// Leave forgets a worker. Tasks that only it had go to other queues.
func (s *StorageAffinity) Leave(worker string) {
	w := s.byName[worker]
	if w == nil {
		return
	}
	delete(s.byName, worker)
	s.workers = slices.DeleteFunc(s.workers, func(other *affinityWorker) bool { return other == w })
	for _, number := range append(w.running, w.queue...) {
		if s.copies[number]--; s.copies[number] == 0 && !s.done[number] {
			s.place(number)
		}
	}
}

// Waiting is the number of tasks that have not ended.
func (s *StorageAffinity) Waiting() int { return s.left }
