package world

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// clearsAway has users delete all workflows at the end of some runs: nothing of them
// may be left anywhere.
func (s *storm) clearsAway() {
	d := draws{rand.New(rand.NewPCG(s.plan.Seed, 5))}
	if s.restored() || !d.one(8) { // it takes longer than all the rest of a run
		return
	}
	all := s.queue.workflows("")
	for i := range all {
		s.queue.must(func(t *taskqueue.Turn) error {
			_, err := s.queue.Rules.DeleteWorkflow(t, all[i].ID, false)
			return err
		})
	}
	s.note("all workflows are deleted")
	s.comesToRest(s.judgeCleared)
}

// lasting are the tables of what outlives work.
var lasting = []string{
	"values", "counters", "classes", "sites", "pilots", "pilots by state", "pilots by peer", "usage", "audit", "grants",
}

// judgeCleared wants nothing of the work to be left in the queue's tables, on storage,
// or at pilots.
func (s *storm) judgeCleared() {
	if left := s.queue.workflows(""); len(left) > 0 { // all rows are counted when these have gone
		s.judge.Errorf("%d workflows are left although all are deleted", len(left))
		return
	}
	rows, err := s.queue.store.Rows(context.Background())
	if err != nil {
		s.judge.Fatalf("the queue's tables: %v", err)
	}
	none := true
	for table, n := range rows {
		if !slices.Contains(lasting, table) {
			s.judge.Errorf("table %s has %d rows although all workflows are deleted", table, n)
			none = false
		}
	}
	if !none {
		return // which is looked at often
	}
	for _, at := range s.world.sites {
		for url := range at.stored {
			name, _ := taskqueue.NameAt("file:///"+string(at.name), url)
			if task.StoredFile(name) != "" {
				s.judge.Errorf("%s is left on the storage of %s although all workflows are deleted", url, at.name)
			}
		}
		for _, n := range at.live() {
			n.judgeSize("master", n.master)
			n.judgeSize("worker", n.worker)
		}
	}
}

// mostEntries is how long a map or list of a role is at most when there is no work: of
// members and their slots, of classes, of the last events.
func (w *world) mostEntries() int { return 20 + 4*len(w.pilots) }

// remembered is what roles keep for a while after work has ended, and what the next work
// clears: the cache's files and how often each was read, what a keeper has of the last
// hand-out (half an hour), files' replicas, what was cancelled (10 minutes), and what
// pilots answered to the last round.
var remembered = []string{".ledger.", ".handOuts.", ".replication.", ".replicas.", ".references", ".cancelled.", ".exceptions"}

// judgeSize wants the maps and lists of a role to have shrunk to what is there.
func (n *node) judgeSize(name string, role any) {
	sizes := make(map[string]int)
	measure(reflect.ValueOf(role), name, sizes, make(map[uintptr]bool))
	for path, size := range sizes {
		if slices.ContainsFunc(remembered, func(part string) bool { return strings.Contains(path, part) }) {
			continue
		}
		most := n.world.mostEntries()
		if strings.Contains(path, ".references") {
			most = 2 * n.files.Cached.Usage().Files // by name and content, of files that are there
		}
		if size > most {
			n.judge.Errorf("%s of %s has %d entries although there is no work", path, n.id, size)
		}
	}
}

// ours is how the paths of this product's packages begin.
const ours = "github.com/pilotage-grid/pilotage/"

// measure finds how long the longest map or list is in each place that a value leads to.
func measure(v reflect.Value, path string, sizes map[string]int, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] && v.Type() != reflect.TypeFor[*matcher.Compiler]() {
			seen[v.Pointer()] = true
			measure(v.Elem(), path, sizes, seen)
		}
	case reflect.Interface:
		if !v.IsNil() {
			measure(v.Elem(), path, sizes, seen)
		}
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), ours) && v.Type().Name() != "" {
			return // a library's, which keeps what it likes
		}
		for i := range v.NumField() {
			measure(v.Field(i), path+"."+v.Type().Field(i).Name, sizes, seen)
		}
	case reflect.Map:
		sizes[path] = max(sizes[path], v.Len())
		for entries := v.MapRange(); entries.Next(); {
			measure(entries.Value(), path+"[]", sizes, seen)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		sizes[path] = max(sizes[path], v.Len())
		for i := range v.Len() {
			measure(v.Index(i), path+"[]", sizes, seen)
		}
	}
}
