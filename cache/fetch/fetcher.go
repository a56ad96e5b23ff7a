package fetch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/internal/loop"
	"github.com/pilotage-grid/pilotage/task"
)

// Locator finds the holders of files in the overlay. Keys that nobody holds
// are absent from the answer. It goes on looking where nobody is named but peers that
// are doubted.
type Locator interface {
	Locate(ctx context.Context, keys []task.FileKey, doubted []task.PeerID) (map[task.FileKey][]Holder, error)
}

// Config of a Fetcher.
type Config struct {
	Cache   *disk.Cache
	Peers   *peer.Client
	Storage *storage.Client // file:// replicas need its FileRoots, or to be below the site's SE
	Locator Locator
	Homes   Homes
	Self    task.PeerID
	Site    task.Site
	// Settings tells the site's settings of the moment: SE and RemoteRead.
	Settings func() task.SiteSettings
	// Cached, if set, is told each key under which a fetched file has become
	// reachable, to be announced. Called from several goroutines.
	Cached func(key task.FileKey)
	// BadCopy, if set, is told of copies of produced files that a storage element
	// does not have, or has with other bytes, before Stage returns. Called from
	// Run's goroutine.
	BadCopy func(copy task.LostFile)
	// Limits of the plan; Self and Site in it are set from above.
	Limits        cache.PlannerConfig
	LocateTimeout time.Duration // cache.LocateTime when zero
	Log           *slog.Logger  // nil: slog.Default()
}

// ErrStopped tells that Run has ended.
var ErrStopped = errors.New("the pilot no longer fetches files: it is stopping")

// Fetcher brings files into a cache. Safe for concurrent use; nothing happens
// before Run.
type Fetcher struct {
	config Config
	log    *slog.Logger
	loop   *loop.Loop    // of Run's goroutine
	done   chan struct{} // closed when Run has ended

	readsMu sync.Mutex
	reads   map[task.Site]*task.SERead

	// Run's goroutine only:
	planner  *cache.Planner
	underWay map[task.FileKey]*fetching
	wishes   map[uint64]*wish
	serial   uint64
	group    sync.WaitGroup
	ctx      context.Context // of Run
}

// wish is one file of one Stage call.
type wish struct {
	index   int
	file    task.File
	pinned  *disk.Pinned // when it was cached already
	results chan<- delivery
}

// delivery fulfils a wish, or says why not.
type delivery struct {
	index  int
	pinned *disk.Pinned
	source task.Source
	err    *cache.FetchError
}

// New returns a fetcher for one Run.
func New(config Config) *Fetcher {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.LocateTimeout <= 0 {
		config.LocateTimeout = cache.LocateTime
	}
	config.Limits.Self, config.Limits.Site = config.Self, config.Site
	return &Fetcher{
		config: config, log: config.Log, loop: loop.New(), done: make(chan struct{}),
		reads:    map[task.Site]*task.SERead{},
		planner:  cache.NewPlanner(config.Limits, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		underWay: map[task.FileKey]*fetching{}, wishes: map[uint64]*wish{},
	}
}

// Run fetches until the context ends, then ends all transfers. It can be
// called once.
func (f *Fetcher) Run(ctx context.Context) error {
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithCancel(ctx)
	defer close(f.done)
	err := f.loop.Run(ctx, func() { f.step(cache.Tick{}) }, f.planner.Deadline)
	cancel()
	f.group.Wait()
	for _, g := range f.underWay {
		g.discard()
	}
	return err
}

// do hands work to Run's goroutine. Without an error it is done, or Run has ended.
func (f *Fetcher) do(work func()) error {
	select {
	case <-f.done:
		return ErrStopped
	default:
		f.loop.Post(work)
		return nil
	}
}

// spawn runs something that takes a while and hands on what it returns.
func (f *Fetcher) spawn(slow func() (then func())) {
	f.group.Go(func() { f.loop.Post(slow()) })
}

func (f *Fetcher) step(event cache.PlanEvent) {
	for _, action := range f.planner.Step(time.Now(), event) {
		f.perform(action)
	}
}

func (f *Fetcher) perform(action cache.PlanAction) {
	switch a := action.(type) {
	case cache.Locate:
		f.locate(a)
	case cache.AskHome:
		f.askHome(a)
	case cache.TransferFromPeers:
		f.transfer(a.File.Key(), a.Transfer, func(g *fetching) cache.TransferDone { return f.fromPeers(g, a) })
	case cache.TransferFromSE:
		f.transfer(a.File.Key(), a.Transfer, func(g *fetching) cache.TransferDone { return f.fromStorage(g, a) })
	case cache.RenewGrant:
		f.config.Homes.Renew(a.Key)
	case cache.FinishGrant:
		f.config.Homes.Finish(a.Key, a.End)
	case cache.Abandon:
		f.abandon(a.Key)
	case cache.BadCopy:
		if f.config.BadCopy != nil && !a.File.Producer.IsZero() {
			f.config.BadCopy(task.LostFile{LFN: a.File.LFN, Digest: a.File.Digest, URL: a.Replica.URL, Reason: a.Reason})
		}
	case cache.Ready:
		f.ready(a)
	case cache.Failed:
		f.fulfil(a.Waiter, delivery{err: a.Err})
	}
}

func (f *Fetcher) locate(a cache.Locate) {
	f.spawn(func() func() {
		ctx, cancel := context.WithTimeout(f.ctx, f.config.LocateTimeout)
		defer cancel()
		holders, err := f.config.Locator.Locate(ctx, a.Keys, a.Doubted)
		return func() { f.step(cache.Located{Keys: a.Keys, Holders: holders, Err: err}) }
	})
}

func (f *Fetcher) askHome(a cache.AskHome) {
	g := f.fetching(a.Key)
	f.spawn(func() func() {
		waiting := func() {
			f.tell(cache.HomeAnswered{Ask: a.Ask, Key: a.Key, Verdict: cache.WaitFor})
		}
		answer, err := f.config.Homes.Ask(g.ctx, Question{Key: a.Key, Tried: a.Tried, Waiting: waiting})
		if err != nil {
			if g.ctx.Err() == nil && !errors.Is(err, cache.ErrNoHome) {
				f.log.Info("a storage element will be read without the consent of the file's home", "file", a.Key, "reason", err)
			}
			answer = Answer{Verdict: cache.Unanswered}
		}
		return func() {
			f.step(cache.HomeAnswered{Ask: a.Ask, Key: a.Key, Verdict: answer.Verdict, Holders: answer.Holders})
		}
	})
}

// tell hands an event to Run's goroutine.
func (f *Fetcher) tell(event cache.PlanEvent) { f.loop.Post(func() { f.step(event) }) }

// ready gives a waiter its file with a pin of its own.
func (f *Fetcher) ready(a cache.Ready) {
	w := f.wishes[a.Waiter]
	if w == nil {
		return
	}
	pinned := w.pinned
	if pinned == nil {
		var err error
		if pinned, err = f.config.Cache.Pin(a.Key); err != nil {
			f.fulfil(a.Waiter, delivery{err: &cache.FetchError{File: w.file, Local: err}})
			return
		}
	}
	f.fulfil(a.Waiter, delivery{pinned: pinned, source: a.Source})
}

func (f *Fetcher) fulfil(waiter uint64, d delivery) {
	if w := f.wishes[waiter]; w != nil {
		delete(f.wishes, waiter)
		d.index = w.index
		if d.err != nil {
			own := *d.err
			own.File = w.file // of a fetch that others may have asked for by other names
			d.err = &own
		}
		w.results <- d // has room for every file of its Stage
	}
}

// SEReads returns what was read from storage elements since the last call, by
// the owner site of the element, in the order of sites: transfers and their
// bytes, also of those that broke off, as each loads the element.
func (f *Fetcher) SEReads() []task.SERead {
	f.readsMu.Lock()
	defer f.readsMu.Unlock()
	reads := sortedReads(f.reads)
	f.reads = map[task.Site]*task.SERead{}
	return reads
}
