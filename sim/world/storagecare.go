package world

import (
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// What the queue does about copies on storage elements, as the product's server does.

// deleteGarbage deletes losers' copies.
func (q *queue) deleteGarbage() {
	if !q.works() {
		return
	}
	var page, named []task.Replica
	q.view(func(t *taskqueue.Turn) (err error) {
		page, named, err = q.Rules.Garbage(t, 100)
		return err
	})
	if len(named) > 0 {
		q.judge.Errorf("the catalogue names what was to be deleted: %v", named)
	}
	tried, failed := named, []task.Replica(nil)
	for _, replica := range page {
		tried = append(tried, replica)
		s := q.world.element(replica.URL)
		if s == nil || s.down {
			failed = append(failed, replica)
			continue
		}
		q.note("the queue deletes %s", replica.URL)
		delete(s.stored, replica.URL)
		s.deleted = append(s.deleted, replica.URL)
	}
	q.must(func(t *taskqueue.Turn) error {
		if err := t.Files().DropGarbage(tried...); err != nil {
			return err
		}
		if len(failed) == 0 {
			return nil
		}
		return t.Files().AddGarbage(failed...)
	})
}

// tidy looks for what attempts have stored of which nobody has told.
func (q *queue) tidy() {
	if !q.works() {
		return
	}
	var untidy, clean []task.WorkflowID
	q.view(func(t *taskqueue.Turn) (err error) {
		untidy, clean, err = q.Rules.Untidy(t, 100)
		return err
	})
	q.must(func(t *taskqueue.Turn) error { return q.Rules.Clean(t, clean...) })
	for _, id := range untidy {
		q.tidyWorkflow(id)
	}
}

func (q *queue) tidyWorkflow(id task.WorkflowID) {
	for after := uint64(0); ; {
		var folders []taskqueue.Folder
		q.view(func(t *taskqueue.Turn) (err error) {
			folders, after, err = q.Rules.Untold(t, id, after)
			return err
		})
		for i := range folders {
			s := q.world.element(folders[i].Element + "/")
			if s.down {
				q.must(func(t *taskqueue.Turn) error { return q.Rules.TidyLater(t, id) })
				return
			}
			folders[i].Found = s.list(folders[i].Element + "/" + folders[i].Name + "/")
		}
		q.must(func(t *taskqueue.Turn) error {
			n, err := q.Rules.Tidy(t, folders)
			if n > 0 {
				q.note("%d attempts have left copies of which nobody has told", n)
			}
			return err
		})
		if after == 0 {
			q.must(func(t *taskqueue.Turn) error { return q.Rules.Tidied(t, id, t.Clock) })
			q.looked[id] = q.now()
			return
		}
	}
}

// list is what is in a folder of a storage element.
func (s *site) list(folder string) (names []string) {
	for url := range s.stored { // in any order: sorted below
		if below, ok := strings.CutPrefix(url, folder); ok {
			member, _, isFolder := strings.Cut(below, "/")
			if isFolder {
				member += "/"
			}
			names = append(names, member)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lookAtStorage looks for what the last pilots of sites may have stored without a
// word.
func (q *queue) lookAtStorage() {
	if !q.works() {
		return
	}
	for _, v := range read(q, q.Rules.Vacants) {
		var found []task.Stored
		var missing []task.File
		for _, f := range v.Files {
			url := storageURL(v.Element, f.Producer, f.LFN)
			switch s := q.world.element(url); {
			case s.down:
			case s.gives(url, f.Digest):
				found = append(found, task.Stored{LFN: f.LFN, Attempt: f.Producer, URL: url, Size: f.Size, Digest: f.Digest})
			default:
				missing = append(missing, f)
			}
		}
		if len(found)+len(missing) > 0 {
			q.note("the queue has looked at the storage of %s: %d files found, %d missing", v.Site, len(found), len(missing))
			q.must(func(t *taskqueue.Turn) error { return q.Rules.Looked(t, v.Site, found, missing) })
		}
	}
}
