package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// untidyPage bounds the workflows looked at in one round.
	untidyPage = 1000
	// tidyTime is about how long folders are listed in one round, one at a time: a
	// sixth of the time between two.
	tidyTime = 5 * time.Second
	// mostListed bounds the names taken from a folder: a task has few attempts.
	mostListed = 1000
)

// untold looks for copies of attempts of which nobody has told the queue.
type untold struct {
	*elements
	reluctant reluctances
	places    map[task.WorkflowID]place // of workflows that were begun
}

// place is how far the look at a workflow's folders has come.
type place struct {
	began  taskqueue.Instant
	after  uint64
	missed *reluctance // of an element that has not answered on the way
}

// runUntold looks for copies that nobody told, round by round, until ctx ends.
func (e *elements) runUntold(ctx context.Context) error {
	if e.config.Finder == nil || e.config.Deleter == nil {
		return nil
	}
	u := &untold{e, make(reluctances), make(map[task.WorkflowID]place)}
	return e.config.every(ctx, e.config.Timing.Garbage, "copies that nobody told wait to be looked for on storage", u.look)
}

func (u *untold) look(ctx context.Context) error {
	end := time.Now().Add(tidyTime)
	var untidy, clean []task.WorkflowID
	err := u.turns.view(ctx, func(t *taskqueue.Turn) (err error) {
		untidy, clean, err = u.turns.rules.Untidy(t, untidyPage)
		return err
	})
	if err == nil && len(clean) > 0 {
		err = u.turns.update(ctx, func(t *taskqueue.Turn) error { return u.turns.rules.Clean(t, clean...) })
	}
	maps.DeleteFunc(u.places, func(id task.WorkflowID, _ place) bool { return !slices.Contains(untidy, id) })
	for _, id := range untidy {
		if err != nil || !time.Now().Before(end) {
			return err
		}
		if !u.places[id].missed.rests() || u.places[id].after > 0 {
			err = u.tidy(ctx, id, end)
		}
	}
	return err
}

// tidy looks at a workflow's folders, page by page, until a time.
func (u *untold) tidy(ctx context.Context, id task.WorkflowID, end time.Time) error {
	at := u.places[id]
	if at.after == 0 {
		at = place{}
	}
	for time.Now().Before(end) {
		var folders []taskqueue.Folder
		err := u.turns.view(ctx, func(t *taskqueue.Turn) (err error) {
			if at.began == 0 {
				at.began = t.Clock
			}
			folders, at.after, err = u.turns.rules.Untold(t, id, at.after)
			return err
		})
		if err != nil {
			return err
		}
		var found []taskqueue.Folder
		for i := range folders {
			f := &folders[i]
			switch f.Found, err = u.list(ctx, f); {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				found = append(found, *f)
			case !errors.Is(err, ErrNotThere) && !errors.Is(err, ErrNotListed):
				at.missed = u.reluctant[f.Element]
			}
		}
		if err := u.judge(ctx, id, found); err != nil {
			return err
		}
		u.places[id] = at
		if at.after == 0 {
			return u.tidied(ctx, id, at)
		}
	}
	return nil
}

// judge has deleted what nobody can need of what was found.
func (u *untold) judge(ctx context.Context, id task.WorkflowID, found []taskqueue.Folder) error {
	if len(found) == 0 {
		return nil
	}
	attempts := 0
	err := u.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		attempts, err = u.turns.rules.Tidy(t, found)
		return err
	})
	if attempts > 0 {
		u.config.Log.Info("attempts that nobody needs have stored copies, which are deleted", "workflow", id, "attempts", attempts)
	}
	return err
}

// tidied ends the look at a workflow, or puts it off.
func (u *untold) tidied(ctx context.Context, id task.WorkflowID, at place) error {
	if at.missed == nil {
		delete(u.places, id)
	}
	return u.turns.update(ctx, func(t *taskqueue.Turn) error {
		if at.missed != nil {
			return u.turns.rules.TidyLater(t, id)
		}
		return u.turns.rules.Tidied(t, id, at.began)
	})
}

// list lists a folder, for a while. An element that fails is not asked again soon.
func (u *untold) list(ctx context.Context, f *taskqueue.Folder) ([]string, error) {
	if r := u.reluctant[f.Element]; r.rests() {
		return nil, r.why
	}
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	names, err := u.config.Finder.List(limited, f.Element, f.Name, mostListed)
	if err == nil || errors.Is(err, ErrNotThere) || ctx.Err() != nil {
		delete(u.reluctant, f.Element)
		return names, err
	}
	pause := u.config.Timing.Garbage
	if errors.Is(err, ErrNotListed) {
		pause = longestPause
	}
	if _, first := u.reluctant.add(f.Element, pause, err); first {
		u.config.Log.Warn("a storage element cannot be searched for copies that nobody told: they stay there unless it can be later",
			"site", f.Site, "storage", f.Element, "error", err)
	}
	return nil, err
}
