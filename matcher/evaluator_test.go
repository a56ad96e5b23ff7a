package matcher

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// life is a site with a master's matrix and pilots that follow the list, as
// they would over the network, beside the plain facts.
type life struct {
	matrix   *Matrix
	compiler *Compiler
	pilots   map[task.PilotID]*livePilot
	classes  map[uint32]task.Class
	entries  map[uint64]*ListEntry
	version  ListVersion
	next     uint64
}

type livePilot struct {
	pilot     Pilot
	cache     map[task.FileKey]bool
	evaluator *Evaluator
	told      map[task.FileKey]bool // files that it says to have
}

var (
	lifeRequirements = []string{
		"", "pilot.cores >= 2", `"gpu" in pilot.features && task.inputs < 3`,
		"task.local_inputs > 0 || pilot.cores == 1", "files.all(f, !f.local)", "1 / (pilot.cores - 2) >= 0",
		"pilot.free_cores > 0", "task.inputs < 2 || pilot.io_bound == 0",
	}
	lifeRanks = []string{
		"", "overlap", "overlap_bytes", "rest", "rest_bytes", "dad(0.75)", "dad(0)", "dad(1)", "pilot.cores + 1", "-task.priority",
		"task.local_bytes * pilot.cores", "files.exists(f, f.local) ? -1 : 1", "7", "pilot.load + double(task.inputs)",
		"-pilot.io_bound", `task.inputs > 1 ? -pilot.io_bound : pilot.free_cores - pilot.cpu_bound`,
	}
	lifeRates = Rates{Peer: 1 << 20, SE: 1 << 19, Remote: 1 << 18}
)

func newLife(t *rapid.T) *life {
	l := &life{
		matrix: NewMatrix(testTerm), compiler: NewCompiler(64),
		pilots: make(map[task.PilotID]*livePilot), classes: make(map[uint32]task.Class),
		entries: make(map[uint64]*ListEntry), version: ListVersion{Term: testTerm}, next: 1,
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "pilots") {
		p := &livePilot{cache: make(map[task.FileKey]bool)}
		p.pilot = l.drawPilot(t, pilotID(i))
		p.evaluator = NewEvaluator(p.pilot, func(key task.FileKey) (task.Bytes, bool) { return 0, p.cache[key] }, l.compiler)
		p.evaluator.TellFiles(true)
		l.pilots[p.pilot.ID] = p
		l.reset(p)
	}
	return l
}

func (l *life) drawPilot(t *rapid.T, id task.PilotID) Pilot {
	return Pilot{
		ID: id, Resources: task.Resources{Cores: rapid.IntRange(1, 3).Draw(t, "cores")},
		Features: rapid.SampledFrom([][]string{nil, {"gpu"}}).Draw(t, "features"),
		Load:     float64(rapid.IntRange(0, 4).Draw(t, "load")) / 4,
		Live:     l.drawLive(t),
	}
}

func (l *life) drawLive(t *rapid.T) Live {
	number := rapid.IntRange(0, 2)
	return Live{FreeCores: number.Draw(t, "free cores"), CPUBound: number.Draw(t, "cpu-bound"), IOBound: number.Draw(t, "io-bound")}
}

// work has something else run at a pilot.
func (l *life) work(t *rapid.T) {
	p := l.somePilot(t)
	p.pilot.Live = l.drawLive(t)
	l.update(t, p, p.evaluator.SetLive(p.pilot.Live))
}

func (l *life) somePilot(t *rapid.T) *livePilot {
	return l.pilots[rapid.SampledFrom(slices.Sorted(maps.Keys(l.pilots))).Draw(t, "pilot")]
}

// reset gives a pilot the whole list and the matrix its whole row.
func (l *life) reset(p *livePilot) {
	list := ListSnapshot{Version: l.version, Rates: lifeRates}
	for _, no := range slices.Sorted(maps.Keys(l.classes)) {
		list.Classes = append(list.Classes, ListClass{no, l.classes[no]})
	}
	for _, no := range slices.Sorted(maps.Keys(l.entries)) {
		list.Entries = append(list.Entries, l.entries[no])
	}
	p.evaluator.Reset(list)
	l.tellAll(p)
}

// tellAll gives the matrix a pilot's whole row.
func (l *life) tellAll(p *livePilot) {
	row := p.evaluator.Row()
	l.matrix.SetRow(row)
	p.told = make(map[task.FileKey]bool)
	for _, key := range row.Files {
		p.told[key] = true
	}
}

// update gives the matrix a change of a pilot's row, or all of it.
func (l *life) update(t *rapid.T, p *livePilot, change RowUpdate) {
	switch err := l.matrix.UpdateRow(change); {
	case errors.Is(err, ErrRowGap):
		l.tellAll(p)
		return
	case err != nil:
		t.Fatal(err)
	}
	for _, key := range change.Came {
		p.told[key] = true
	}
	for _, key := range change.Left {
		delete(p.told, key)
	}
}

// change makes the next version of the list and lets some pilots miss it.
func (l *life) change(t *rapid.T) {
	delta := ListDelta{Base: l.version}
	l.version.N++
	delta.Version = l.version
	if no := uint32(len(l.classes)); no < 6 && rapid.Bool().Draw(t, "new class") {
		class := task.Class{
			Require: rapid.SampledFrom(lifeRequirements).Draw(t, "require"), Rank: rapid.SampledFrom(lifeRanks).Draw(t, "rank"),
			Resources: task.Resources{Cores: rapid.IntRange(1, 2).Draw(t, "cores")},
		}
		l.classes[no] = class
		delta.Classes = []ListClass{{no, class}}
		l.matrix.AddClass(delta.Classes[0])
	}
	for range rapid.IntRange(0, 4).Draw(t, "new tasks") {
		if len(l.classes) > 0 {
			delta.Add = append(delta.Add, l.addTask(t))
		}
	}
	for no := range l.next {
		if l.entries[no] != nil && rapid.IntRange(0, 9).Draw(t, "remove") == 0 && l.entries[no].Version < l.version.N {
			delta.Remove = append(delta.Remove, no)
			delete(l.entries, no)
			l.matrix.RemoveTask(no)
		}
	}
	l.forgetUnread()
	for _, id := range slices.Sorted(maps.Keys(l.pilots)) {
		l.deliver(t, l.pilots[id], delta)
	}
}

// forgetUnread has the master forget who has files that no task listed before
// reads: of these pilots tell nothing until a task that does is listed.
func (l *life) forgetUnread() {
	read := make(map[task.FileKey]bool)
	for _, entry := range l.entries {
		for _, file := range entry.Files {
			read[file.Key] = read[file.Key] || entry.Version < l.version.N
		}
	}
	for _, p := range l.pilots {
		maps.DeleteFunc(p.told, func(key task.FileKey, _ bool) bool { return !read[key] })
	}
}

func (l *life) addTask(t *rapid.T) *ListEntry {
	entry := &ListEntry{No: l.next, Version: l.version.N, Class: uint32(rapid.IntRange(0, len(l.classes)-1).Draw(t, "class"))}
	l.next++
	class := l.classes[entry.Class]
	entry.Task = &task.Task{
		Require: class.Require, Rank: class.Rank, Resources: class.Resources, Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "inputs") {
		entry.Files = append(entry.Files, FileInfo{
			Key: l.someKey(t), Size: task.Bytes(rapid.IntRange(-1, 3).Draw(t, "size")) << 20,
			Source: rapid.SampledFrom(task.Sources()[1:]).Draw(t, "source"),
		})
	}
	l.entries[entry.No] = entry
	rank, err := l.compiler.Rank(class.Rank)
	if err != nil {
		t.Fatal(err)
	}
	l.matrix.AddTask(MatrixTask{
		No: entry.No, Class: entry.Class, Version: entry.Version, EntryBase: rank.EntryBase(entry.Task, entry.Files, lifeRates),
	})
	return entry
}

func (l *life) someKey(t *rapid.T) task.FileKey {
	return task.FileKey(fmt.Sprintf("lfn:%d", rapid.IntRange(0, 5).Draw(t, "file")))
}

// deliver brings a delta to a pilot and its answer to the master; either may
// be lost, which the next one reveals.
func (l *life) deliver(t *rapid.T, p *livePilot, delta ListDelta) {
	if rapid.IntRange(0, 5).Draw(t, "delta lost") == 0 {
		return
	}
	update, err := p.evaluator.Apply(delta)
	if errors.Is(err, ErrListGap) {
		l.reset(p)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 5).Draw(t, "answer lost") == 0 {
		return
	}
	l.update(t, p, update)
}

// turnOver puts files into a pilot's cache and out of it.
func (l *life) turnOver(t *rapid.T) {
	p := l.somePilot(t)
	var keys []task.FileKey
	for range rapid.IntRange(1, 3).Draw(t, "files") {
		key := l.someKey(t)
		p.cache[key] = rapid.Bool().Draw(t, "in cache")
		keys = append(keys, key)
	}
	l.update(t, p, p.evaluator.FilesChanged(keys...))
}

func (l *life) reload(t *rapid.T) {
	p := l.somePilot(t)
	p.pilot = l.drawPilot(t, p.pilot.ID)
	p.evaluator.SetPilot(p.pilot)
	l.tellAll(p)
}

// check compares the matrix with requirement and rank evaluated pair by pair,
// for all that a pilot's row claims to cover.
func (l *life) check(t *rapid.T) {
	for id, p := range l.pilots {
		at, _ := l.matrix.findPilot(id)
		for no, entry := range l.entries {
			rank, feasible := l.matrix.Rank(id, no)
			if entry.Version > l.matrix.rows[at].version {
				if feasible {
					t.Fatalf("%s may get task %d although it has not seen it", id, no)
				}
				continue
			}
			for _, file := range entry.Files {
				if p.told[file.Key] != p.cache[file.Key] {
					t.Fatalf("%s says of %s, which task %d reads: %v", id, file.Key, no, p.told[file.Key])
				}
			}
			facts := Facts{Pilot: &p.pilot, Task: entry.Task, Files: entry.Files, Local: p.evaluator.local}
			verdict := p.evaluator.Check(entry.Task, entry.Files)
			formula, _ := l.compiler.Rank(entry.Task.Rank)
			if want := formula.Of(facts, lifeRates); feasible != verdict.Feasible || feasible && rank != want {
				t.Fatalf("task %d at %s: %g %v, want %g %+v (require %q rank %q)",
					no, id, rank, feasible, want, verdict, entry.Task.Require, entry.Task.Rank)
			}
			if explained := l.matrix.WhyNotTask(no); !feasible && !slices.ContainsFunc(explained.Clauses, func(c ClauseCount) bool {
				return c.Clause == verdict.FailedClause
			}) {
				t.Fatalf("task %d at %s fails %q, explained is %+v", no, id, verdict.FailedClause, explained)
			}
		}
	}
}

// TestRowsAndEntryBasesGiveEveryRank lets lists, caches and pilots change at
// random, with lost messages, and compares what the master knows with the
// requirement and rank of each pair evaluated by itself, and the files that
// pilots say to have with their caches.
func TestRowsAndEntryBasesGiveEveryRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		t.Repeat(map[string]func(*rapid.T){
			"change": l.change, "turn over": l.turnOver, "work": l.work, "reload": l.reload, "": l.check,
		})
	})
}

// TestListingIsASet: entries come and go at random, several at once, and the index
// from files to readers follows.
func TestListingIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		listed, plain := newListing(), make(map[uint64]*ListEntry)
		files := rapid.SliceOfN(rapid.SampledFrom([]task.FileKey{"a", "b", "c"}), 0, 3)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			numbers := rapid.SliceOfN(rapid.Uint64Range(1, 40), 0, 6).Draw(t, "numbers")
			if rapid.Bool().Draw(t, "remove") {
				listed.remove(numbers)
				for _, no := range numbers {
					delete(plain, no)
				}
				continue
			}
			var entries []*ListEntry
			fresh := 0
			for _, no := range numbers {
				entry := &ListEntry{No: no}
				for _, key := range files.Draw(t, "files") {
					entry.Files = append(entry.Files, FileInfo{Key: key})
				}
				entries = append(entries, entry)
				if plain[no] == nil {
					plain[no] = entry
					fresh++
				}
			}
			if got := len(listed.add(entries)); got != fresh {
				t.Fatalf("%d entries are new, want %d", got, fresh)
			}
		}
		readers := make(map[task.FileKey][]uint64)
		for i, no := range slices.Sorted(maps.Keys(plain)) {
			if i >= len(listed.entries) || listed.entries[i] != plain[no] || listed.entry(no) != plain[no] {
				t.Fatalf("entry %d is not as it was listed", no)
			}
			for _, file := range plain[no].Files {
				if !slices.Contains(readers[file.Key], no) {
					readers[file.Key] = append(readers[file.Key], no)
				}
			}
		}
		if len(listed.entries) != len(plain) || !maps.EqualFunc(listed.readers, readers, slices.Equal) {
			t.Fatalf("%d entries, want %d; readers %v, want %v", len(listed.entries), len(plain), listed.readers, readers)
		}
	})
}

// A task is listed before its inputs are made, so the list does not know how large they
// are; the pilot that has one does.
func TestTheCacheKnowsTheSizeOfWhatWasListedBeforeItWasMade(t *testing.T) {
	file := FileInfo{Key: "lfn:made", LFN: "made", Size: -1, Source: task.SourcePeer}
	sizes := make(map[task.FileKey]task.Bytes)
	cached := func(key task.FileKey) (task.Bytes, bool) { size, has := sizes[key]; return size, has }
	for rank, want := range map[string]float64{"": 1.01, "overlap_bytes": 100e6, "double(task.local_bytes)": 100e6, "double(files[0].size)": 100e6} {
		clear(sizes)
		evaluator := NewEvaluator(Pilot{ID: "p"}, cached, NewCompiler(4))
		evaluator.Reset(ListSnapshot{
			Version: ListVersion{Term: testTerm, N: 1}, Rates: DefaultRates(),
			Classes: []ListClass{{No: 1, Class: task.Class{Rank: rank}}},
			Entries: []*ListEntry{{No: 1, Version: 1, Class: 1, Task: &task.Task{}, Files: []FileInfo{file}}},
		})
		sizes[file.Key] = 100e6
		changed := evaluator.FilesChanged(file.Key)
		if len(changed.Set) != 1 || changed.Set[0].Rank != want {
			t.Errorf("rank %q: %+v, want %g", rank, changed.Set, want)
		}
	}
}
