package server

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// elements are the sites' storage elements, as far as the queue itself looks at them
// and deletes there.
type elements struct {
	turns  *turns
	config *Config
}

const (
	// garbagePage bounds the copies deleted in one round.
	garbagePage = 100
	// deletionTime bounds one deletion: a storage element may hang.
	deletionTime = 30 * time.Second
	// longestPause ends the doubling of the pauses at a storage element that does
	// not delete.
	longestPause = time.Hour
)

// reluctance is how a storage element that does not do what it is asked for is dealt
// with: it is said once, and tried ever more rarely.
type reluctance struct {
	failed int // tries, since it did
	pause  time.Duration
	until  time.Time
	why    error
}

// rests tells whether an element is not to be tried now.
func (r *reluctance) rests() bool { return r != nil && time.Now().Before(r.until) }

// reluctances are those of storage elements, by URL.
type reluctances map[string]*reluctance

// add notes that an element has failed; the first pause is given.
func (m reluctances) add(element string, pause time.Duration, why error) (r *reluctance, first bool) {
	r = m[element]
	if first = r == nil; first {
		r = &reluctance{pause: pause}
		m[element] = r
	}
	r.failed++
	r.why, r.until = why, time.Now().Add(r.pause)
	r.pause = min(2*r.pause, longestPause)
	return r, first
}

// runGarbage deletes losers' copies, round by round, until ctx ends.
func (e *elements) runGarbage(ctx context.Context) error {
	if e.config.Deleter == nil {
		return nil
	}
	reluctant := make(reluctances)
	return e.config.every(ctx, e.config.Timing.Garbage, "losers' copies wait for their deletion", func(ctx context.Context) (err error) {
		for more := true; more && err == nil && ctx.Err() == nil; {
			more, err = e.deleteGarbage(ctx, reluctant)
		}
		return err
	})
}

// deleteGarbage deletes one page of copies. Those of a storage element that rests
// stay where they are, and those that could not be deleted go to the end of the
// list, so that an element that is away does not hold up the others. There is more if
// the page was full and some of it was deleted.
func (e *elements) deleteGarbage(ctx context.Context, reluctant reluctances) (more bool, err error) {
	var page, named []task.Replica
	elements := make(map[task.Site]string)
	err = e.turns.view(ctx, func(t *taskqueue.Turn) (err error) {
		sites := taskqueue.Read(t.Sites().All())
		var resting []task.Site
		for i := range sites {
			elements[sites[i].Name] = sites[i].SE
			if reluctant[sites[i].SE].rests() {
				resting = append(resting, sites[i].Name)
			}
		}
		page, named, err = e.turns.rules.Garbage(t, garbagePage, resting...)
		return err
	})
	if err != nil || len(page)+len(named) == 0 {
		return false, err
	}
	for _, replica := range named {
		e.config.Log.Warn("a copy that was to be deleted is left where it is: the catalogue names it", "site", replica.Site, "url", replica.URL)
	}
	tried, failed := named, []task.Replica(nil)
	for _, replica := range page {
		if ctx.Err() != nil {
			break
		}
		if reluctant[elements[replica.Site]].rests() {
			continue // since this page began
		}
		tried = append(tried, replica)
		name, ok := taskqueue.NameAt(elements[replica.Site], replica.URL)
		if !ok {
			e.config.Log.Warn("a loser's copy is left where it is: it is not on its site's storage element",
				"site", replica.Site, "url", replica.URL, "storage", elements[replica.Site])
			continue
		}
		if !e.deleteCopy(ctx, replica, elements[replica.Site], name, reluctant) {
			failed = append(failed, replica)
		}
	}
	if len(tried) == 0 {
		return false, nil
	}
	// What was deleted is told to the store even when the server stops now.
	err = e.turns.update(context.WithoutCancel(ctx), func(t *taskqueue.Turn) error {
		taskqueue.Check(t.Files().DropGarbage(tried...))
		if len(failed) == 0 {
			return nil
		}
		return t.Files().AddGarbage(failed...)
	})
	return err == nil && len(page) == garbagePage && len(failed) < len(page), err
}

// deleteCopy tells whether a copy was deleted. Only changes of what a storage
// element does are worth a line in the log.
func (e *elements) deleteCopy(ctx context.Context, replica task.Replica, element, name string, reluctant reluctances) bool {
	r := reluctant[element]
	limited, cancel := context.WithTimeout(ctx, deletionTime)
	defer cancel()
	err := e.config.Deleter.Delete(limited, element, name)
	switch {
	case err == nil && r != nil:
		e.config.Log.Info("a storage element deletes losers' copies again", "site", replica.Site, "storage", element, "failed", r.failed)
		delete(reluctant, element)
	case err != nil && ctx.Err() == nil:
		r, first := reluctant.add(element, e.config.Timing.Garbage, err)
		if first {
			e.config.Log.Warn("a storage element does not delete losers' copies; they wait, and it is tried again ever more rarely",
				"site", replica.Site, "storage", element, "url", replica.URL, "error", err)
		}
		e.config.Log.Debug("a loser's copy was not deleted", "url", replica.URL, "failed", r.failed, "pause", r.pause, "error", err)
	}
	return err == nil
}
