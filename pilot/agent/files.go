package agent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// files is what the pilot has in its cache: it keeps the site informed, and brings
// files in that no task of the pilot asks for.
type files struct {
	*shell

	cache   Cache
	fetcher Fetcher
	uploads *uploader
	network *network
	aliases *aliases
	worker  workerEvents
	// changed is told what has come into the cache or left it.
	changed func(keys []task.FileKey, now message.CacheReport)
}

// cachedSize tells whether the cache has a file, by any of its keys, and its size.
func (f *files) cachedSize(key task.FileKey) (size task.Bytes, has bool) {
	entry, has := f.cache.Lookup(key)
	if !has {
		entry, has = f.cache.Lookup(f.aliases.resolve(key))
	}
	return entry.Size, has
}

// came tells the site of files that are in the cache now; by names it knows what
// tasks are still to make.
func (f *files) came(announced []task.FileKey, names ...task.FileKey) {
	f.network.announce(announced...)
	f.note(append(names, announced...))
}

func (f *files) note(keys []task.FileKey) {
	usage := f.cache.Usage()
	sharers := task.Bytes(max(1, usage.Sharers)) // whose reports are added up
	f.changed(keys, message.CacheReport{Capacity: usage.Capacity / sharers, Used: usage.Used / sharers, Evictions: usage.Evictions, Damaged: usage.Damaged})
}

// cached is told by the fetcher of a file that came into the cache.
func (f *files) cached(key task.FileKey) {
	keys := []task.FileKey{key}
	if entry, found := f.cache.Lookup(key); found && entry.Key != key {
		keys = append(keys, entry.Key)
	}
	f.came(keys)
}

// evicted is told by the cache of files that it no longer has.
func (f *files) evicted(keys []task.FileKey) {
	every := f.aliases.all(keys...)
	f.aliases.forget(keys)
	f.network.withdraw(keys...)
	f.note(every)
}

// badCopy is told by the fetcher of a copy that its storage element does not have
// as it should.
func (f *files) badCopy(copied task.LostFile) {
	copied.Reason = oneLine(copied.Reason)
	f.log.Warn("a copy on a storage element is lost or damaged: it is read elsewhere or made again", "file", copied.LFN, "url", copied.URL, "reason", copied.Reason)
	f.worker.tell(worker.BadCopy{Copy: copied})
}

// announce tells the site of files that are in the cache by no doing of this pilot: an
// earlier one has left them in its folder, or another one of its node has brought them.
// It has those uploaded that no storage element has and that are this pilot's to keep:
// the queue counts them, or deletes what nobody wants.
func (f *files) announce(entries []disk.Entry) {
	var keys, names []task.FileKey
	var recovered worker.Recovered
	for _, entry := range entries {
		keys = append(append(keys, entry.Key), entry.Names...)
		for _, id := range slices.Concat(entry.Outputs, entry.Others) {
			f.aliases.learn(id.LFN, entry.Digest)
			names = append(names, task.KeyOf(id.LFN, task.Digest{}))
		}
		for _, id := range entry.Outputs {
			made := task.Produced{LFN: id.LFN, Size: entry.Size, Digest: entry.Digest, Exec: entry.Exec}
			recovered.Outputs = append(recovered.Outputs, message.Output{Attempt: id.Attempt, Produced: made})
		}
	}
	if len(keys) > 0 {
		f.came(keys, names...)
	}
	if len(recovered.Outputs) > 0 {
		f.worker.tell(recovered)
	}
}

// bring has one file in the cache, fetched from other pilots first, and the site
// told of it. It is pinned until it is released.
func (f *files) bring(ctx context.Context, file task.File) (fetch.Staged, error) {
	staged, err := f.fetcher.Stage(ctx, []task.File{file})
	if err != nil {
		return fetch.Staged{}, err
	}
	f.aliases.learn(file.LFN, staged[0].Entry.Digest)
	f.note([]task.FileKey{task.KeyOf(file.LFN, task.Digest{})})
	return staged[0], nil
}

// copyIn makes a replica, which is evicted like any other file.
func (f *files) copyIn(file task.File) {
	f.beside(func(ctx context.Context) {
		done := worker.CopiedIn{File: file}
		staged, err := f.bring(ctx, file)
		if err != nil {
			done.Failure = err.Error()
			f.log.Warn("a replica cannot be made", "file", file.LFN, "error", err)
		} else {
			staged.Release()
			done.Copied, done.Bytes = staged.Source != task.SourceLocal, staged.Entry.Size
			f.log.Debug("a replica is here", "file", file.LFN, "from", staged.Source.String(), "bytes", staged.Entry.Size)
		}
		f.worker.tell(done)
	})
}

// dropCopy lets a replica go, unless something here needs the file.
func (f *files) dropCopy(file task.File) {
	for _, key := range []task.FileKey{file.Key(), f.aliases.resolve(task.KeyOf(file.LFN, task.Digest{}))} {
		if f.cache.Evict(key) {
			f.log.Debug("a replica was dropped", "file", file.LFN)
			return
		}
	}
}

// keep looks for a file at its place on the storage element, or takes it over from
// another pilot that alone has it, or goes on keeping what is here.
func (f *files) keep(file task.File) {
	f.beside(func(ctx context.Context) {
		kept := worker.Kept{File: file}
		var unseen error
		if kept.URL, unseen = f.uploads.find(ctx, f.uploads.settings.get().SE, file); kept.URL != "" {
			f.log.Info("a file was found on the storage element", "file", file.LFN, "attempt", file.Producer)
		} else if err := f.takeOver(ctx, file); err != nil {
			kept.Failure, kept.Away = err.Error(), unseen != nil
			f.log.Warn("a file cannot be taken over", "file", file.LFN, "error", errors.Join(err, unseen))
		}
		f.worker.tell(kept)
	})
}

// takeOver has a file stay in the cache until a storage element has it.
func (f *files) takeOver(ctx context.Context, file task.File) error {
	staged, err := f.bring(ctx, file)
	if err != nil {
		return err
	}
	defer staged.Release()
	if err := f.cache.Keep(staged.Entry.Key, task.OutputID{Attempt: file.Producer, LFN: file.LFN}); err != nil {
		return err
	}
	f.log.Info("a file was taken over: it stays until a storage element has it", "file", file.LFN, "attempt", file.Producer)
	return nil
}

// drop discards a file whose bytes have changed.
func (f *files) drop(s fetch.Staged) {
	if err := f.cache.Drop(s.Entry.Key); err != nil && !errors.Is(err, disk.ErrNotCached) {
		f.log.Warn("a modified input stays in the cache", "file", s.File.LFN, "error", err)
	}
}

// aliases remembers under which names a cached file is known: the task list
// names what tasks make by its logical name, the cache by its digest.
type aliases struct {
	mu     sync.Mutex
	digest map[task.FileKey]task.FileKey // name key -> digest key
	names  map[task.FileKey][]task.FileKey
}

func newAliases() *aliases {
	return &aliases{digest: make(map[task.FileKey]task.FileKey), names: make(map[task.FileKey][]task.FileKey)}
}

// learn notes that a file of a name has a digest.
func (a *aliases) learn(name task.LFN, digest task.Digest) {
	if digest.IsZero() {
		return
	}
	nameKey, digestKey := task.KeyOf(name, task.Digest{}), task.KeyOf("", digest)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digest[nameKey] == digestKey {
		return
	}
	a.digest[nameKey] = digestKey
	a.names[digestKey] = append(a.names[digestKey], nameKey)
}

// resolve returns the key by which the cache may know a file.
func (a *aliases) resolve(key task.FileKey) task.FileKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	if digest, known := a.digest[key]; known {
		return digest
	}
	return key
}

// all returns every key of a file, its own first.
func (a *aliases) all(keys ...task.FileKey) []task.FileKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	var every []task.FileKey
	for _, key := range keys {
		every = append(every, key)
		every = append(every, a.names[key]...)
	}
	return every
}

// forget drops the names of files that the cache no longer has.
func (a *aliases) forget(keys []task.FileKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		for _, name := range a.names[key] {
			if a.digest[name] == key {
				delete(a.digest, name)
			}
		}
		delete(a.names, key)
	}
}
