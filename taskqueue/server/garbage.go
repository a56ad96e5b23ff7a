package server

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// garbagePage bounds the copies deleted in one round.
	garbagePage = 100
	// deletionTime bounds one deletion: a storage element may hang.
	deletionTime = 30 * time.Second
)

// runGarbage deletes losers' copies, round by round, until ctx ends.
func (s *Server) runGarbage(ctx context.Context) error {
	if s.config.Deleter == nil {
		return nil
	}
	ticker := time.NewTicker(s.config.Timing.Garbage)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.deleteGarbage(ctx); err != nil && ctx.Err() == nil {
			s.config.Log.Warn("losers' copies wait for their deletion", "error", err)
		}
	}
}

// deleteGarbage deletes one page of copies. Those that could not be deleted
// go to the end of the list, so that a storage element that is away does not
// hold up the others.
func (s *Server) deleteGarbage(ctx context.Context) error {
	var page, named []task.Replica
	elements := make(map[task.Site]string)
	err := s.view(ctx, func(t *taskqueue.Turn) (err error) {
		if page, named, err = s.rules.Garbage(t, garbagePage); err != nil {
			return err
		}
		sites, err := t.Sites().All()
		for i := range sites {
			elements[sites[i].Name] = sites[i].SE
		}
		return err
	})
	if err != nil || len(page)+len(named) == 0 {
		return err
	}
	for _, replica := range named {
		s.config.Log.Warn("a copy that was to be deleted is left where it is: the catalogue names it", "site", replica.Site, "url", replica.URL)
	}
	tried, failed := named, []task.Replica(nil)
	for _, replica := range page {
		if ctx.Err() != nil {
			break
		}
		tried = append(tried, replica)
		name, ok := taskqueue.NameAt(elements[replica.Site], replica.URL)
		if !ok {
			s.config.Log.Warn("a loser's copy is left where it is: it is not on its site's storage element",
				"site", replica.Site, "url", replica.URL, "storage", elements[replica.Site])
			continue
		}
		if err := s.deleteCopy(ctx, elements[replica.Site], name); err != nil {
			failed = append(failed, replica)
			s.config.Log.Warn("a loser's copy was not deleted; it is tried again later",
				"site", replica.Site, "url", replica.URL, "error", err)
		}
	}
	// What was deleted is told to the store even when the server stops now.
	return s.update(context.WithoutCancel(ctx), func(t *taskqueue.Turn) error {
		if err := t.Files().DropGarbage(tried...); err != nil {
			return err
		}
		if len(failed) == 0 {
			return nil
		}
		return t.Files().AddGarbage(failed...)
	})
}

func (s *Server) deleteCopy(ctx context.Context, element, name string) error {
	ctx, cancel := context.WithTimeout(ctx, deletionTime)
	defer cancel()
	return s.config.Deleter.Delete(ctx, element, name)
}
