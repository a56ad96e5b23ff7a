package taskqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// savedSites counts how often a site's record is written.
type savedSites struct {
	taskqueue.Tx
	n *int
}

func (s savedSites) Sites() taskqueue.SiteTable { return countedSites{s.Tx.Sites(), s.n} }

type countedSites struct {
	taskqueue.SiteTable
	n *int
}

func (s countedSites) Save(sites ...taskqueue.SiteRecord) error {
	*s.n += len(sites)
	return s.SiteTable.Save(sites...)
}

// TestCacheSizesAreWrittenNowAndThen: slots are saved with every Sync that
// changes them, sizes of caches only with the mark of a Sync.
func TestCacheSizesAreWrittenNowAndThen(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 2)
	a.sync()
	saved := 0
	sync := func(change func(*task.Capacity)) int {
		t.Helper()
		saved = 0
		s := a.message()
		change(&s.Capacity)
		err := g.store.Update(context.Background(), func(tx taskqueue.Tx) error {
			_, err := g.rules.Sync(g.turn(savedSites{tx, &saved}), s)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return saved
	}
	caches := func(c *task.Capacity) { c.CacheBytes, c.CacheUsed, c.Evictions = 100, 50, 3 }
	if n := sync(caches); n != 0 {
		t.Errorf("a Sync that only tells of caches writes the site %d times", n)
	}
	if n := sync(func(c *task.Capacity) { c.FreeSlots = 1 }); n != 1 || g.siteRecord("A").Capacity.FreeSlots != 1 {
		t.Errorf("a Sync that tells of a slot writes the site %d times: %+v", n, g.siteRecord("A").Capacity)
	}
	g.clock = g.clock.Add(time.Second)
	if n := sync(func(c *task.Capacity) { c.FreeSlots = 1; caches(c) }); n != 1 || g.siteRecord("A").Capacity.CacheUsed != 50 {
		t.Errorf("a second later a Sync writes the site %d times: %+v", n, g.siteRecord("A").Capacity)
	}
}
