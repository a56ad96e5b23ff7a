package matcher

import "math"

// builtin is a ranking policy by name: the rank of a task for a pilot whose
// cache holds the inputs that has() accepts. It must depend on nothing else,
// so that all pilots without any of the inputs share one value.
type builtin func(files []FileInfo, has func(FileInfo) bool, rates Rates) float64

// NothingMissing is the rank that rest gives to a task whose inputs are all
// in the cache, where the paper divides by zero: such tasks come first.
const NothingMissing = math.MaxFloat64

// DefaultRank is what an empty rank means.
const DefaultRank = "locality"

// builtins are the policies that a task may name instead of an expression.
// None of the names is a valid expression, so they never collide.
var builtins = map[string]builtin{
	DefaultRank:     locality,
	"overlap":       overlap,
	"overlap_bytes": overlapBytes,
	"rest":          rest,
	"rest_bytes":    restBytes,
}

// MissingWeight is what a second of copying counts against a second saved in
// locality: enough to prefer, of tasks of which a pilot has as much, the one that
// lacks less.
const MissingWeight = 0.1

// locality is the seconds that what is there would take to stage in, less a
// little of the seconds that the rest takes. Every task is run somewhere in the
// end, so the least is copied in all if each runs where most of it is; what a
// task has to copy anywhere does not count against it.
func locality(files []FileInfo, has func(FileInfo) bool, rates Rates) float64 {
	missing, saved := 0.0, 0.0
	for _, file := range files {
		if has(file) {
			saved += rates.Seconds(file)
		} else {
			missing += rates.Seconds(file)
		}
	}
	return saved - MissingWeight*missing
}

// overlap is the number of inputs in the cache (001, section 3.2).
func overlap(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
	count := 0
	for _, file := range files {
		if has(file) {
			count++
		}
	}
	return float64(count)
}

// overlapBytes is overlap in bytes.
func overlapBytes(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
	sum := 0.0
	for _, file := range files {
		if file.Size > 0 && has(file) {
			sum += float64(file.Size)
		}
	}
	return sum
}

// rest is the inverse of the number of missing inputs (001, section 3.2).
func rest(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
	missing := 0
	for _, file := range files {
		if !has(file) {
			missing++
		}
	}
	return inverse(float64(missing))
}

// restBytes is rest in bytes; an empty or unmeasured file counts as one byte.
func restBytes(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
	missing := 0.0
	for _, file := range files {
		if !has(file) {
			missing += max(1, float64(file.Size))
		}
	}
	return inverse(missing)
}

func inverse(missing float64) float64 {
	if missing == 0 {
		return NothingMissing
	}
	return 1 / missing
}
