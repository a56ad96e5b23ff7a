package grid

import (
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// fetcher brings files into a pilot's cache: the product's planner decides from
// where, the network model moves the bytes.
type fetcher struct {
	*node
	planner   *cache.Planner
	wakeup    wakeup
	waiter    uint64
	waiting   map[uint64]func(source task.Source, err error)
	transfers map[uint64]*transfer
}

// transfer is one under way.
type transfer struct {
	key   task.FileKey
	flows []*sim.Flow
	from  *storage
	read  *read
	beat  *sim.Event
}

func newFetcher(n *node) *fetcher {
	return &fetcher{
		node:    n,
		planner: cache.NewPlanner(cache.PlannerConfig{Self: n.peer, Site: n.site.Name}, sim.Random(n.config.Seed, "fetch "+string(n.peer))),
		waiting: make(map[uint64]func(task.Source, error)), transfers: make(map[uint64]*transfer),
	}
}

// want asks for a file; then is told once.
func (f *fetcher) want(file task.File, then func(source task.Source, err error)) {
	f.waiter++
	f.waiting[f.waiter] = then
	_, has := f.cachedSize(file.Key())
	f.step(cache.Want{File: file, Waiter: f.waiter, Cached: has, Remote: true})
}

func (f *fetcher) step(event cache.PlanEvent) {
	if !f.alive {
		return
	}
	for _, action := range f.planner.Step(f.world.now(), event) {
		f.perform(action)
	}
	f.arm(&f.wakeup, f.planner.Deadline(), func() { f.step(cache.Tick{}) })
}

func (f *fetcher) perform(action cache.PlanAction) {
	switch a := action.(type) {
	case cache.Locate:
		f.timeline.After(2*f.site.Latency, func() { f.step(cache.Located{Keys: a.Keys, Holders: f.locate(a.Keys)}) })
	case cache.AskHome:
		f.site.grants.tell(cache.Ask{Key: a.Key, From: f.peer, Tried: a.Tried, Number: a.Ask})
	case cache.RenewGrant:
		f.site.grants.tell(cache.Renew{Key: a.Key, From: f.peer})
	case cache.FinishGrant:
		f.site.grants.tell(cache.Finish{Key: a.Key, From: f.holder(), End: a.End})
	case cache.TransferFromPeers:
		f.fromPeers(a)
	case cache.TransferFromSE:
		f.fromStorage(a)
	case cache.Abandon:
		f.abandon(a.Key)
	case cache.Ready:
		f.tell(a.Waiter, a.Source, nil)
	case cache.Failed:
		f.tell(a.Waiter, 0, a.Err)
	}
}

func (f *fetcher) tell(waiter uint64, source task.Source, err error) {
	then := f.waiting[waiter]
	delete(f.waiting, waiter)
	if then != nil {
		then(source, err)
	}
}

// locate finds who holds files in the site, in the order of pilots.
func (f *fetcher) locate(keys []task.FileKey) map[task.FileKey][]cache.Holder {
	found := make(map[task.FileKey][]cache.Holder)
	for _, key := range keys {
		for _, n := range f.site.nodes {
			if n != f.node && n.alive && n.cached.Contains(key) {
				found[key] = append(found[key], n.holder())
			}
		}
	}
	return found
}

func (n *node) holder() cache.Holder {
	return cache.Holder{Peer: n.peer, DataURL: "https://" + string(n.peer)}
}

// begin reserves room for a transfer.
func (f *fetcher) begin(id uint64, file task.File) *transfer {
	evicted, err := f.cached.Reserve(file.Key(), file.Size)
	if errors.Is(err, cache.ErrReserved) { // an abandoned transfer of it is still ending
		f.cached.Cancel(file.Key())
		evicted, err = f.cached.Reserve(file.Key(), file.Size)
	}
	f.gone(evicted)
	if err != nil {
		f.timeline.After(0, func() { f.step(cache.TransferDone{Transfer: id, Local: err}) })
		return nil
	}
	t := &transfer{key: file.Key()}
	f.transfers[id] = t
	f.progress(id, t)
	return t
}

// progress shows now and then that a transfer moves.
func (f *fetcher) progress(id uint64, t *transfer) {
	t.beat = f.timeline.After(2*time.Second, func() {
		f.step(cache.Progress{Transfer: id})
		if f.transfers[id] == t {
			f.progress(id, t)
		}
	})
}

// end finishes a transfer.
func (f *fetcher) end(id uint64, file task.File, done cache.TransferDone) {
	t := f.transfers[id]
	if t == nil || !f.alive {
		return
	}
	delete(f.transfers, id)
	f.timeline.Cancel(t.beat)
	done.Transfer = id
	if done.Arrived {
		if err := f.cached.Commit(t.key, t.key, file.Size, false); err != nil {
			f.fail("%s: %s: %w", f.peer, file.LFN, err)
		}
		f.changed([]task.FileKey{t.key})
	} else {
		f.cached.Cancel(t.key)
	}
	f.step(done)
}

// fromPeers fetches a file in equal parts from all that still have it.
func (f *fetcher) fromPeers(a cache.TransferFromPeers) {
	t := f.begin(a.Transfer, a.File)
	if t == nil {
		return
	}
	var sources []*node
	done := cache.TransferDone{}
	for _, h := range a.Holders {
		n := f.peers[h.Peer]
		switch {
		case !n.alive:
			done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Unreachable})
		case !n.cached.Contains(t.key):
			done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Gone})
		default:
			sources = append(sources, n)
		}
	}
	f.timeline.After(2*f.site.Latency, func() {
		if f.transfers[a.Transfer] != t {
			return
		}
		if len(sources) == 0 {
			f.end(a.Transfer, a.File, done)
			return
		}
		left := len(sources)
		for _, n := range sources {
			part := float64(a.File.Size) / float64(len(sources))
			f.sums.PeerBytes += part
			t.flows = append(t.flows, f.network.Send(part, []sim.LinkID{n.up, f.down}, func() {
				if left--; left > 0 {
					return
				}
				done.Arrived, done.From = true, sources[0].peer
				f.sums.PeerTransfers++
				f.end(a.Transfer, a.File, done)
			}))
		}
	})
}

// fromStorage reads a replica.
func (f *fetcher) fromStorage(a cache.TransferFromSE) {
	t := f.begin(a.Transfer, a.File)
	if t == nil {
		return
	}
	owner := f.site
	route := []sim.LinkID{f.down}
	for _, s := range f.sites {
		if s.Name == a.Replica.Site && s != f.site {
			owner, route = s, append(route, s.wide, f.site.wide)
		}
	}
	f.timeline.After(2*f.site.Latency, func() {
		if f.transfers[a.Transfer] != t {
			return
		}
		t.from = owner.storage
		t.read = owner.storage.transfer(float64(a.File.Size), route, func() {
			f.end(a.Transfer, a.File, cache.TransferDone{Arrived: true})
		})
	})
}

// abandon stops the transfers of a file.
func (f *fetcher) abandon(key task.FileKey) {
	for id, t := range f.transfers {
		if t.key == key {
			f.stop(t)
			f.timeline.After(0, func() { f.end(id, task.File{}, cache.TransferDone{}) })
		}
	}
}

func (f *fetcher) stop(t *transfer) {
	f.timeline.Cancel(t.beat)
	for _, flow := range t.flows {
		f.network.Stop(flow)
	}
	if t.read != nil {
		t.from.stop(t.read)
	}
}
