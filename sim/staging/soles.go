package staging

import (
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// Soles lists the outputs that stay here until a storage element has them.
func (f *Files) Soles() []task.OutputID {
	return slices.SortedFunc(maps.Keys(f.soles), task.OutputID.Compare)
}

// LetGo notes that an output need not be kept.
func (f *Files) LetGo(id task.OutputID) {
	key, kept := f.soles[id]
	if !kept {
		return
	}
	delete(f.soles, id)
	for _, other := range f.soles {
		if other == key {
			return
		}
	}
	agree(f.Cached.MarkStored(key))
	f.evicted(f.Cached.Shed())
}

// TakeOver has a file stay until a storage element has it, wherever it comes from.
func (f *Files) TakeOver(file task.File, then func(*cache.FetchError)) {
	f.want(file, func(_ task.Source, err *cache.FetchError) {
		if err == nil {
			agree(f.Cached.MarkSole(file.Key()))
			f.soles[task.OutputID{Attempt: file.Producer, LFN: file.LFN}] = file.Key()
		}
		f.later(func() { then(err) })
	})
}

// Upload stores an output, unless it is gone or need not be stored any more. Whoever is
// told that this failed tries again.
func (f *Files) Upload(output message.Output, then func(message.Event)) {
	id := output.ID()
	if _, kept := f.soles[id]; !kept {
		then(worker.NotUploaded{Output: id})
		return
	}
	f.config.Storage.Put(output, func(url string) {
		switch {
		case f.closed:
		case url == "":
			then(worker.UploadFailed{Output: id})
		default:
			then(worker.Uploaded{Stored: []task.Stored{{LFN: id.LFN, Attempt: id.Attempt, URL: url, Size: output.Size, Digest: output.Digest}}})
		}
	})
}
