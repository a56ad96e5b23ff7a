package matcher

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// paperCombined is combined_t by 001's formulas, read aloud: weights of all
// tasks for one site, in the form that is meant or in the one that is printed.
// Tasks that miss nothing are +Inf.
func paperCombined(tasks map[uint64][]FileInfo, cache map[task.FileKey]int, size func(FileInfo) float64, printed bool) (map[uint64]float64, float64) {
	ref, rest := make(map[uint64]float64), make(map[uint64]float64)
	totalRef, totalRest := 0.0, 0.0
	for no, files := range tasks {
		missing := 0.0
		for _, file := range files {
			if r, held := cache[file.Key]; held {
				ref[no] += float64(r) * size(file)
			} else {
				missing += size(file)
			}
		}
		rest[no] = 1 / missing
		totalRef += ref[no]
		if missing > 0 {
			totalRest += rest[no]
		}
	}
	over := func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return x / y
	}
	weights := make(map[uint64]float64)
	for no := range tasks {
		switch {
		case math.IsInf(rest[no], 1):
			weights[no] = math.Inf(1)
		case printed:
			weights[no] = over(ref[no], totalRef) + over(totalRest, rest[no])
		default:
			weights[no] = over(ref[no], totalRef) + over(rest[no], totalRest)
		}
	}
	return weights, totalRest
}

// TestCombinedIs001 (section 3.2) lets list, cache and references change and
// compares the ranks in the matrix with the formulas on the whole.
func TestCombinedIs001(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"combined", "combined_bytes", "combined_printed", "combined_printed_bytes"}).Draw(t, "form")
		form := combinedForms[name]
		cache := make(map[task.FileKey]int) // file to references
		tasks := make(map[uint64][]FileInfo)
		var all []FileInfo
		for i := range 6 {
			all = append(all, FileInfo{Key: task.FileKey(fmt.Sprint("f", i)), Size: task.Bytes(i*i - 1)})
		}
		class := ListClass{1, task.Class{Rank: name}}
		evaluator := NewEvaluator(Pilot{ID: "p"}, func(key task.FileKey) (task.Bytes, bool) { _, held := cache[key]; return 0, held }, NewCompiler(4))
		m := NewMatrix(testTerm)
		m.AddClass(class)
		evaluator.Reset(ListSnapshot{Version: ListVersion{Term: testTerm}, Classes: []ListClass{class}})
		m.SetRow(evaluator.Row())
		take := func(update RowUpdate) {
			if err := m.UpdateRow(update); err != nil {
				t.Fatal(err)
			}
		}
		rank, err := CompileRank(name)
		if err != nil {
			t.Fatal(err)
		}
		version, next := uint64(0), uint64(1)
		someFiles := func(t *rapid.T) []FileInfo {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 4, func(f FileInfo) task.FileKey { return f.Key }).Draw(t, "files")
		}
		t.Repeat(map[string]func(*rapid.T){
			"list": func(t *rapid.T) {
				version++
				delta := ListDelta{Base: ListVersion{testTerm, version - 1}, Version: ListVersion{testTerm, version}}
				first := next
				for range rapid.IntRange(0, 3).Draw(t, "new") {
					entry := &ListEntry{No: next, Version: version, Class: 1, Task: &task.Task{}, Files: someFiles(t)}
					tasks[next] = entry.Files
					delta.Add = append(delta.Add, entry)
					m.AddTask(MatrixTask{No: next, Class: 1, Version: version, EntryBase: rank.EntryBase(entry.Task, entry.Files, Rates{})})
					next++
				}
				for no := range first {
					if _, listed := tasks[no]; listed && rapid.IntRange(0, 5).Draw(t, "remove") == 0 {
						delta.Remove = append(delta.Remove, no)
						delete(tasks, no)
						m.RemoveTask(no)
					}
				}
				update, err := evaluator.Apply(delta)
				if err != nil {
					t.Fatal(err)
				}
				take(update)
			},
			"evict": func(t *rapid.T) {
				file := rapid.SampledFrom(all).Draw(t, "file")
				delete(cache, file.Key)
				take(evaluator.FilesChanged(file.Key))
			},
			"assign": func(t *rapid.T) {
				files := someFiles(t)
				var keys []task.FileKey
				for _, file := range files {
					cache[file.Key]++
					keys = append(keys, file.Key)
				}
				take(evaluator.Referenced(files))
				take(evaluator.FilesChanged(keys...))
			},
			"whole row": func(*rapid.T) { m.SetRow(evaluator.Row()) },
			"": func(t *rapid.T) {
				weights, totalRest := paperCombined(tasks, cache, form.size, form.printed)
				for no, weight := range weights {
					want := weight * totalRest
					if form.printed && totalRest > 0 {
						want = weight / totalRest
					}
					if math.IsInf(weight, 1) {
						want = NothingMissing
					}
					got, feasible := m.Rank("p", no)
					if !feasible || math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
						t.Fatalf("%s of %d is %g, want %g", name, no, got, want)
					}
				}
			},
		})
	})
}

// TestScoreIs000 (section IV-A): values computed by hand.
func TestScoreIs000(t *testing.T) {
	files := []FileInfo{{Key: "a", Size: 100}, {Key: "b", Size: 300}, {Key: "c", Size: 0}}
	on := func(keys ...task.FileKey) func(FileInfo) bool {
		return func(f FileInfo) bool { return slices.Contains(keys, f.Key) }
	}
	for _, c := range []struct {
		files    []FileInfo
		on       []task.FileKey
		locality float64
	}{
		{files[:2], nil, 1}, {files[:2], []task.FileKey{"a", "b"}, 0},
		{files[:2], []task.FileKey{"a"}, 0.75}, // ((-100 + 300) / 400 + 1) / 2
		{files[:2], []task.FileKey{"b"}, 0.25}, // ((100 - 300) / 400 + 1) / 2
		{files[2:], nil, 1}, {files[2:], []task.FileKey{"c"}, 0}, {nil, nil, 0},
	} {
		if got := FileLocality(c.files, on(c.on...)); got != c.locality {
			t.Errorf("%v on %v: %g, want %g", c.files, c.on, got, c.locality)
		}
	}
	for _, c := range []struct{ locality, load, beta, score float64 }{
		{0.75, 0.5, 0.5, 0.625}, {1, 0.25, 0, 0.25}, {0.25, 1, 1, 0.25}, {0, 7, 0.75, 0.25}, {0, -1, 0.5, 0},
	} {
		if got := Score(c.locality, c.load, c.beta); got != c.score {
			t.Errorf("%+v: %g", c, got)
		}
	}
	for _, text := range []string{"dad(1.5)", "dad(7)"} {
		if _, err := CompileRank(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	for _, text := range []string{"dad", "dad(-1)", "dad()", "dad(x)"} {
		if _, err := CompileRank(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
