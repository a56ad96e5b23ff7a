package matcher

import (
	"maps"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// combined is 001's third metric (section 3.2): ref_t/totalRef plus
// rest_t/totalRest, where ref_t sums the references to the inputs that the
// pilot has and the totals run over all tasks that wait. The paper prints the
// second term upside down, against its own intent; that form can be chosen.
//
// The totals differ between pilots, so as it stands no part of the rank would
// be common to all of them. Therefore the rank is taken times totalRest (by
// it, for the printed form), which leaves each pilot's order and draws as
// they are, makes the ranks of different pilots comparable, and leaves the
// rank of a task without local input to be the same for everybody:
//
//	meant     rest_t + ref_t * totalRest/totalRef
//	printed   1/rest_t + ref_t / (totalRef * totalRest)
//
// Where the paper is silent: x/0 is 0; a task that misses nothing has a rest
// without bound, comes first and stays out of totalRest.
type combined struct {
	printed bool
	bytes   bool
}

var combinedForms = map[string]combined{
	"combined":               {},
	"combined_bytes":         {bytes: true},
	"combined_printed":       {printed: true},
	"combined_printed_bytes": {printed: true, bytes: true},
}

// size is what a file counts: 1, or its bytes, at least 1 as with rest_bytes.
func (c combined) size(file FileInfo) float64 {
	if c.bytes {
		return max(1, float64(file.Size))
	}
	return 1
}

// missing is what the pilot lacks of the inputs.
func (c combined) missing(files []FileInfo, has func(FileInfo) bool) (amount float64) {
	for _, file := range files {
		if !has(file) {
			amount += c.size(file)
		}
	}
	return amount
}

// ofRest is the rank without its references.
func (c combined) ofRest(missing float64) float64 {
	if c.printed && missing > 0 {
		return missing
	}
	return inverse(missing)
}

// combinedTotals are the totals of one form over a pilot's list.
type combinedTotals struct {
	form    combined
	nowhere float64 // sum of rest over the tasks without local input
	near    map[uint64]nearTask
	factor  float64 // of ref_t in the rank
}

// nearTask has some input in the pilot's cache.
type nearTask struct{ missing, ref float64 }

// list adds a task to the totals, or takes it out, in the state that is known.
func (t *combinedTotals) list(no uint64, files []FileInfo, by float64) {
	if _, near := t.near[no]; near {
		delete(t.near, no)
		return
	}
	t.nowhere += by * t.restWithout(files)
}

// restWithout is the finite rest of a task of which nothing is local.
func (t *combinedTotals) restWithout(files []FileInfo) float64 {
	if rest := inverse(t.form.missing(files, func(FileInfo) bool { return false })); rest < NothingMissing {
		return rest
	}
	return 0
}

// look takes in which inputs of a listed task are local now.
func (t *combinedTotals) look(no uint64, files []FileInfo, has func(FileInfo) bool, references map[task.FileKey]uint32) {
	var now nearTask
	near := false
	for _, file := range files {
		if size := t.form.size(file); has(file) {
			near = true
			now.ref += size * max(1, float64(references[file.Key]))
		} else {
			now.missing += size
		}
	}
	if _, before := t.near[no]; before != near {
		if near {
			t.nowhere -= t.restWithout(files)
		} else {
			t.nowhere += t.restWithout(files)
			delete(t.near, no)
		}
	}
	if near {
		t.near[no] = now
	}
}

// sum computes the factor after changes and returns the near tasks by number.
func (t *combinedTotals) sum() []uint64 {
	numbers := slices.Sorted(maps.Keys(t.near))
	totalRest, totalRef := max(0, t.nowhere), 0.0
	for _, no := range numbers {
		near := t.near[no]
		totalRef += near.ref
		if near.missing > 0 {
			totalRest += 1 / near.missing
		}
	}
	switch {
	case totalRef == 0 || t.form.printed && totalRest == 0:
		t.factor = 0
	case t.form.printed:
		t.factor = 1 / totalRef / totalRest
	default:
		t.factor = totalRest / totalRef
	}
	return numbers
}

// rank is that of a near task.
func (t *combinedTotals) rank(no uint64) float64 {
	near := t.near[no]
	return min(t.form.ofRest(near.missing)+near.ref*t.factor, math.MaxFloat64)
}
