package worksites

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotage-grid/pilotage/sim"
)

// dataServer keeps files for the workers of a site and fetches what is missing,
// for one request at a time.
type dataServer struct {
	world   *world
	site    Site
	route   []sim.LinkID
	files   *simplelru.LRU[int32, struct{}]
	evicted []int32 // since the last request to the scheduler
	queue   []int   // workers whose requests wait
	serving int     // the worker that is served, -1: none
	missing []int32 // that are being fetched for it
	bytes   float64 // of them
	flow    *sim.Flow
	latency *sim.Event
}

func newDataServer(w *world, site Site, route []sim.LinkID) *dataServer {
	s := &dataServer{world: w, site: site, route: route, serving: -1}
	files, err := simplelru.NewLRU(site.Capacity, func(file int32, _ struct{}) {
		s.evicted = append(s.evicted, file)
		w.evictions++
	})
	if err != nil {
		panic(err) // the capacity was checked
	}
	s.files = files
	return s
}

// takeEvicted returns what has been dropped since the last call and is not
// back.
func (s *dataServer) takeEvicted() []int32 {
	gone := slices.DeleteFunc(s.evicted, s.files.Contains)
	s.evicted = nil
	slices.Sort(gone)
	return slices.Compact(gone)
}

func (s *dataServer) enqueue(worker int) {
	s.queue = append(s.queue, worker)
	s.next()
}

// next serves the oldest request: files at hand are used, the others fetched.
func (s *dataServer) next() {
	if s.serving >= 0 || len(s.queue) == 0 {
		return
	}
	w := s.world
	i := s.queue[0]
	s.queue, s.serving = s.queue[1:], i
	one := &w.workers[i]
	s.missing, s.bytes = s.missing[:0], 0
	for _, f := range w.Workload.Tasks[one.task].Inputs {
		if _, found := s.files.Get(f); found {
			one.sums.Hits++
			continue
		}
		s.missing = append(s.missing, f)
		s.bytes += float64(w.Workload.Files[f].Size)
	}
	w.enter(i, sim.Transferring)
	if len(s.missing) == 0 {
		s.served()
		return
	}
	w.transfers(+1)
	s.latency = w.timeline.After(2*s.site.Latency, func() {
		s.latency = nil
		s.flow = w.network.Send(s.bytes, s.route, s.fetched)
	})
}

// fetched ends the transfer of one batch.
func (s *dataServer) fetched() {
	s.world.transfers(-1)
	s.store(len(s.missing))
	s.served()
}

// store takes the first so many fetched files in.
func (s *dataServer) store(count int) {
	sums := &s.world.workers[s.serving].sums
	for _, f := range s.missing[:count] {
		s.files.Add(f, struct{}{})
		sums.Transfers++
		sums.Bytes += s.world.Workload.Files[f].Size
	}
	s.world.record.Note(s.world.timeline.Now(), "fetched", int64(s.serving), int64(count))
}

func (s *dataServer) served() {
	i := s.serving
	s.serving, s.flow = -1, nil
	s.world.compute(i)
	s.next()
}

// forget drops the request of a worker whose task was cancelled; what has come
// of its files by then is kept.
func (s *dataServer) forget(worker int) {
	if at := slices.Index(s.queue, worker); at >= 0 {
		s.queue = slices.Delete(s.queue, at, at+1)
		return
	}
	if s.serving != worker {
		return
	}
	w, come := s.world, 0.0
	if s.latency != nil {
		w.timeline.Cancel(s.latency)
	} else {
		come = s.bytes - w.network.Stop(s.flow)
	}
	w.transfers(-1)
	whole := 0
	for _, f := range s.missing {
		if come -= float64(w.Workload.Files[f].Size); come < 0 {
			break
		}
		whole++
	}
	s.store(whole)
	s.serving, s.flow, s.latency = -1, nil, nil
	s.next()
}
