package server

import (
	"context"
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// lookTime bounds one look at a storage element, which may hang.
const lookTime = 30 * time.Second

// runLooks looks for files at the storage elements of sites whose last pilot has
// gone, until ctx ends.
func (e *elements) runLooks(ctx context.Context) error {
	if e.config.Finder == nil {
		return nil
	}
	return e.config.every(ctx, e.config.Timing.MatchTick, "files of sites without pilots wait to be looked for on storage", e.lookAtStorage)
}

// find looks for a file at a place on a storage element, for a while.
func (e *elements) find(ctx context.Context, element, name string, f *task.File) (url string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return e.config.Finder.Find(ctx, element, name, f.Size, f.Digest)
}

// lookAtStorage looks for a page of files of each such site.
func (e *elements) lookAtStorage(ctx context.Context) error {
	vacants, err := seen(ctx, e.turns, func(t *taskqueue.Turn) ([]taskqueue.Vacant, error) { return e.turns.rules.Vacants(t) })
	if err != nil {
		return err
	}
	for i := range vacants {
		v := &vacants[i]
		found, missing := e.lookFor(ctx, v)
		if len(found)+len(missing) == 0 {
			continue
		}
		e.config.Log.Info("files that only caches of a site without pilots held were looked for on its storage element",
			"site", v.Site, "found", len(found), "missing", len(missing))
		if err := e.turns.update(ctx, func(t *taskqueue.Turn) error { return e.turns.rules.Looked(t, v.Site, found, missing) }); err != nil {
			return err
		}
	}
	return nil
}

// lookFor looks for files until the storage element does not answer.
func (e *elements) lookFor(ctx context.Context, v *taskqueue.Vacant) (found []task.Stored, missing []task.File) {
	for _, f := range v.Files {
		url, err := e.find(ctx, v.Element, task.StorageName(f.Producer, f.LFN), &f)
		switch {
		case err == nil:
			found = append(found, task.Stored{LFN: f.LFN, Attempt: f.Producer, URL: url, Size: f.Size, Digest: f.Digest})
		case errors.Is(err, ErrNotThere):
			missing = append(missing, f)
		default:
			e.config.Log.Debug("a storage element cannot be looked at", "site", v.Site, "storage", v.Element, "error", err)
			return found, missing
		}
	}
	return found, missing
}
