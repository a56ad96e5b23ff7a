package world

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// leftover is a copy on a storage element that the catalogue does not name.
type leftover struct {
	url    string
	site   task.Site
	flow   task.WorkflowID
	state  taskqueue.AttemptState // of the attempt that has stored it
	stored time.Duration          // when
}

// judgeLeftovers wants no copy to stay on a storage element that the catalogue does not
// name: what others than the winners have stored is gone, also what was stored by attempts
// of which nobody has told the queue. What a pilot that was taken for dead and lived on has
// stored after the first look at its workflow may stay until the second. It returns when
// the last of these is; 0: nothing is left.
func (s *storm) judgeLeftovers() (second taskqueue.Instant) {
	if s.restored() {
		return 0 // of what the copy did not know, nobody knows
	}
	for _, l := range s.world.leftovers(s.flows) {
		next := s.queue.workflow(l.flow).SecondLook
		if second = max(second, next); next <= s.queue.clock() || l.stored <= s.queue.looked[l.flow] {
			s.judge.Errorf("%s is left on the storage of %s by an attempt in state %d", l.url, l.site, l.state)
		}
	}
	return second
}

func (w *world) leftovers(flows []task.WorkflowID) (left []leftover) {
	named, states := namedCopies(w.queue.files()), make(map[string]taskqueue.AttemptState) // by the names of attempts' folders
	for _, flow := range flows {
		for _, state := range w.queue.tasks(flow) {
			for _, attempt := range w.queue.attempts(state.ID) {
				states[path.Dir(task.StorageName(attempt.Outcome.Attempt, "x"))] = attempt.State
			}
		}
	}
	for _, at := range w.sites {
		for _, url := range slices.Sorted(maps.Keys(at.stored)) {
			name, _ := taskqueue.NameAt("file:///"+string(at.name), url)
			if flow, _, _ := strings.Cut(name, "/"); !named[url] && task.StoredFile(name) != "" {
				left = append(left, leftover{url, at.name, task.WorkflowID(flow), states[path.Dir(name)], at.storedAt[url]})
			}
		}
	}
	return left
}

// namedCopies are the URLs of those that a catalogue names.
func namedCopies(files []taskqueue.FileRecord) map[string]bool {
	named := make(map[string]bool)
	for i := range files {
		f := &files[i]
		for _, replica := range f.Replicas {
			named[replica.URL] = true
		}
		for _, bad := range f.Bad { // one that a good one may be, under another URL, goes with the file, as all do while there is none
			if len(f.Replicas) == 0 || slices.ContainsFunc(f.Replicas, func(r task.Replica) bool { return task.CopyName(r.URL) == task.CopyName(bad.URL) }) {
				named[bad.URL] = true
			}
		}
	}
	return named
}
