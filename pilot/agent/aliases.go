package agent

import (
	"sync"

	"github.com/pilotage-grid/pilotage/task"
)

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
