package world

import (
	"flag"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// lastNotes is how much of its story a failing test prints.
var lastNotes = flag.Int("story", 400, "how many of the last notes a failing test prints")

func newWorld(t testing.TB, seed uint64) *world {
	return newTestWorld(t, seed, taskqueue.DefaultConfig())
}

// newTestWorld makes a world that tells its story when the test fails.
func newTestWorld(t testing.TB, seed uint64, config taskqueue.Config) *world {
	w := newWorldOf(t, seed, config)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, what happened:\n%s", seed, strings.Join(w.notes[max(0, len(w.notes)-*lastNotes):], "\n"))
		}
	})
	return w
}

// inMode is the setting of a site's mode, for addSite.
func inMode(mode taskqueue.Mode) func(*taskqueue.SiteRecord) {
	return func(s *taskqueue.SiteRecord) { s.Mode = mode }
}

// mode is the one in force, "+" if the site has fallen back to it.
func (s *site) mode() string {
	record := s.world.queue.site(s.name)
	mode := string(record.InForce())
	if record.Fallback != "" {
		mode += "+"
	}
	return mode
}

// drop takes a file out of the cache, whatever it is kept for.
func (n *node) drop(digest task.Digest) { n.files.Drop(task.KeyOf("", digest)) }
