package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// tally is what has been counted of one site's pilots and is not yet stored.
type tally struct {
	methods map[string]uint64
	stale   uint64
}

// requests counts queue requests: every call, and every message of a stream,
// between the queue and a pilot or master (INTERFACE, "Definitions").
type requests struct {
	mutex   sync.Mutex
	sites   map[task.Site]*tally
	writing chan struct{} // holds one while somebody writes
}

func newRequests() *requests { return &requests{writing: make(chan struct{}, 1)} }

func (r *requests) of(site task.Site) *tally {
	if r.sites == nil {
		r.sites = make(map[task.Site]*tally)
	}
	t := r.sites[site]
	if t == nil {
		t = &tally{methods: make(map[string]uint64)}
		r.sites[site] = t
	}
	return t
}

func (r *requests) count(site task.Site, method string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.of(site).methods[method]++
}

func (r *requests) countStale(site task.Site) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.of(site).stale++
}

// take hands over what was counted and begins anew.
func (r *requests) take() map[task.Site]*tally {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	taken := r.sites
	r.sites = nil
	return taken
}

// giveBack takes back what could not be stored.
func (r *requests) giveBack(taken map[task.Site]*tally) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for site, back := range taken {
		t := r.of(site)
		t.stale += back.stale
		for method, n := range back.methods {
			t.methods[method] += n
		}
	}
}

// store has what was counted written, one after the other: when it returns, all
// that had been counted before is stored, or the error says why not.
func (r *requests) store(ctx context.Context, write func(counts map[task.Site]*tally) error) error {
	select {
	case r.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.writing }()
	counts := r.take()
	err := write(counts)
	if err != nil {
		r.giveBack(counts)
	}
	return err
}

// storeRequests writes what was counted since the last time, for those who are
// about to read the sums. While the store takes no writes they read older ones.
func (s *Server) storeRequests(ctx context.Context) {
	_ = s.requests.store(ctx, func(counts map[task.Site]*tally) error {
		if len(counts) == 0 {
			return nil
		}
		return s.turns.update(ctx, func(t *taskqueue.Turn) error { return s.saveRequests(t, counts) })
	})
}

// saveRequests writes what was counted. What was of a site that the store does not know, as
// after going back to a backup, is dropped.
func (s *Server) saveRequests(t *taskqueue.Turn, counts map[task.Site]*tally) error {
	for _, site := range slices.Sorted(maps.Keys(counts)) {
		counted := counts[site]
		err := s.turns.rules.CountRequests(t, site, counted.methods, counted.stale)
		if err != nil && !errors.Is(err, taskqueue.ErrNotFound) {
			return err
		}
	}
	return nil
}
