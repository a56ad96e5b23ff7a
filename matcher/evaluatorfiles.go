package matcher

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// TellFiles has the rows of this pilot say which files of listed tasks its
// cache has, for replica policies. A change of this is told by a new Row.
func (e *Evaluator) TellFiles(on bool) { e.tellFiles = on }

// TellsFiles is what TellFiles was told last.
func (e *Evaluator) TellsFiles() bool { return e.tellFiles }

// filesHeld lists the files of entries that the cache has, each once, by key.
func (e *Evaluator) filesHeld(entries []*ListEntry) []task.FileKey {
	if !e.tellFiles {
		return nil
	}
	seen := make(map[task.FileKey]bool)
	var held []task.FileKey
	for _, entry := range entries {
		for i := range entry.Files {
			key := entry.Files[i].Key
			if !seen[key] && e.local(key) {
				held = append(held, key)
			}
			seen[key] = true
		}
	}
	slices.Sort(held)
	return held
}

// filesMoved tells of keys that listed tasks read whether the cache has them.
func (e *Evaluator) filesMoved(keys []task.FileKey) (came, left []task.FileKey) {
	if !e.tellFiles {
		return nil, nil
	}
	for _, key := range keys {
		switch {
		case e.listed.readers[key] == nil:
		case e.local(key):
			came = append(came, key)
		default:
			left = append(left, key)
		}
	}
	slices.Sort(came)
	slices.Sort(left)
	return slices.Compact(came), slices.Compact(left)
}
