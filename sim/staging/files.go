package staging

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// Peers are the other pilots of a site.
type Peers interface {
	// Locate finds who holds files; Files.Tell is told cache.Located.
	Locate(cache.Locate)
	// TellHome brings a word to the home of a file; Files.Tell is told cache.HomeAnswered.
	TellHome(cache.GrantEvent)
	// Read moves a file here from those that still have it, until Transfer.End.
	Read(*Transfer, []cache.Holder)
}

// Storage are the storage elements.
type Storage interface {
	// Read moves a copy of a file here, until Transfer.End.
	Read(*Transfer, task.Replica)
	// Put stores an output that is in the cache and says where; "" is nowhere. It is
	// called again by whoever wants that.
	Put(output message.Output, done func(url string))
}

// Config is what a Files is made of.
type Config struct {
	Self     cache.Holder
	Site     task.Site
	Capacity task.Bytes // of the cache
	Random   *rand.Rand // of the planner
	Clock    sim.Clock
	Peers    Peers
	Storage  Storage
	Remote   func() bool // whether other sites' storage elements may be read
	// Patient has what an attempt has asked for come, also when the attempt is over. In
	// the product its wishes are withdrawn then.
	Patient bool
	// Changed is told of files that came into the cache or left it, by all their keys.
	Changed func(keys []task.FileKey)
	// BadCopy is told of copies of produced files that are not there or have other bytes.
	BadCopy func(task.LostFile)
}

// Files is what a simulated pilot has in its cache, and what it brings there.
type Files struct {
	Cached  *cache.Index // by the keys of files
	Evicted int          // files that went for want of room

	config    Config
	planner   *cache.Planner
	alarm     sim.Alarm
	events    []cache.PlanEvent // that the planner is still to be told
	waiter    uint64
	waiting   map[uint64]func(task.Source, *cache.FetchError)
	transfers map[uint64]*Transfer
	attempts  map[task.AttemptID]*inputs
	content   map[task.FileKey]task.FileKey   // of names
	names     map[task.FileKey][]task.FileKey // of contents
	soles     map[task.OutputID]task.FileKey  // that stay until a storage element has them
	closed    bool
}

// New returns the files of a pilot that has none yet.
func New(config Config) (*Files, error) {
	cached, err := cache.NewIndex(cache.IndexConfig{Capacity: config.Capacity})
	if err != nil {
		return nil, fmt.Errorf("cache of %s: %w", config.Self.Peer, err)
	}
	return &Files{
		Cached: cached, config: config,
		planner:   cache.NewPlanner(cache.PlannerConfig{Self: config.Self.Peer, Site: config.Site}, config.Random),
		waiting:   make(map[uint64]func(task.Source, *cache.FetchError)),
		transfers: make(map[uint64]*Transfer), attempts: make(map[task.AttemptID]*inputs),
		content: make(map[task.FileKey]task.FileKey), names: make(map[task.FileKey][]task.FileKey),
		soles: make(map[task.OutputID]task.FileKey),
	}, nil
}

// Close ends all of it: the pilot is gone.
func (f *Files) Close() {
	f.closed = true
	for _, id := range slices.Sorted(maps.Keys(f.transfers)) {
		f.transfers[id].halt()
	}
}

// Size tells whether the cache has a file, by any of its keys, and its size.
func (f *Files) Size(key task.FileKey) (size task.Bytes, has bool) {
	if size, has = f.Cached.Size(key); has {
		return size, true
	}
	return f.Cached.Size(f.content[key])
}

// Report is what the site is told of the cache.
func (f *Files) Report() message.CacheReport {
	usage := f.Cached.Usage()
	return message.CacheReport{Capacity: usage.Capacity, Used: usage.Used, Evictions: usage.Evictions}
}

// learn notes that a file of a name has a content.
func (f *Files) learn(name task.LFN, key task.FileKey) {
	named := task.KeyOf(name, task.Digest{})
	if named == key || f.content[named] == key {
		return
	}
	f.content[named] = key
	f.names[key] = append(f.names[key], named)
}

// all lists files by all their keys.
func (f *Files) all(keys []task.FileKey) []task.FileKey {
	every := slices.Clone(keys)
	for _, key := range keys {
		every = append(every, f.names[key]...)
	}
	return every
}

// went tells of files that have left the cache.
func (f *Files) went(keys ...task.FileKey) {
	if len(keys) == 0 {
		return
	}
	every := f.all(keys)
	for _, key := range keys {
		for _, name := range f.names[key] {
			if f.content[name] == key {
				delete(f.content, name)
			}
		}
		delete(f.names, key)
	}
	f.config.Changed(every)
}

func (f *Files) evicted(keys []task.FileKey) {
	f.Evicted += len(keys)
	f.went(keys...)
}

// Held lists the files in the cache.
func (f *Files) Held() (keys []task.FileKey) {
	for key := range f.names {
		if f.Cached.Contains(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Drop removes a file, whatever it is kept for, as a damaged one is.
func (f *Files) Drop(key task.FileKey) {
	if f.Cached.Remove(key) != nil {
		return
	}
	maps.DeleteFunc(f.soles, func(_ task.OutputID, kept task.FileKey) bool { return kept == key })
	for _, in := range f.attempts {
		in.pinned = slices.DeleteFunc(in.pinned, func(pinned task.FileKey) bool { return pinned == key })
	}
	f.went(key)
}

// DropCopy lets a replica go, unless something here needs the file.
func (f *Files) DropCopy(file task.File) {
	if f.Cached.Evict(file.Key()) {
		f.config.Clock.After(0, func() { f.went(file.Key()) })
	}
}

// CopyIn makes a replica, which is evicted like any other file.
func (f *Files) CopyIn(file task.File, then func(worker.CopiedIn)) {
	f.want(file, func(source task.Source, err *cache.FetchError) {
		done := worker.CopiedIn{File: file}
		switch {
		case err != nil:
			done.Failure = err.Error()
		case source != task.SourceLocal:
			done.Copied, done.Bytes = true, file.Size
		}
		f.later(func() { then(done) })
	})
}

// later does something beside the planner's step: whoever is told may want more files.
func (f *Files) later(do func()) {
	f.config.Clock.After(0, func() {
		if !f.closed {
			do()
		}
	})
}

// agree panics where the index says something else than its user believes.
func agree(err error) {
	if err != nil && !errors.Is(err, cache.ErrUnknown) {
		panic(fmt.Sprintf("cache index: %v", err))
	}
}
