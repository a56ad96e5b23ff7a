package dispatch

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Metric is how CalculateWeight values a task for a site (001, section 3.2).
type Metric uint8

// The metrics. Combined is the form that the text means, CombinedPrinted the
// one that it prints. Locality is not the paper's: the product's default rank, in
// the time to fetch.
const (
	Overlap Metric = iota
	Rest
	Combined
	CombinedPrinted
	Locality
)

var metricNames = []string{"overlap", "rest", "combined", "combined_printed", matcher.DefaultRank}

// Policy is a strategy of 001: a metric, counted in files or bytes, and the n
// of ChooseTask(n). Its name is written as in the paper: rest, combined.2,
// overlap_bytes.
type Policy struct {
	Metric Metric
	Bytes  bool
	N      int // 1: the best task
}

// ParsePolicy reads a name.
func ParsePolicy(text string) (Policy, error) {
	name, n, random := strings.Cut(text, ".")
	policy := Policy{N: 1}
	if random {
		var err error
		if policy.N, err = strconv.Atoi(n); err != nil || policy.N < 1 || policy.N > matcher.MaxChoose {
			return Policy{}, fmt.Errorf("policy %q: after the dot give the n of ChooseTask(n), 1 to %d", text, matcher.MaxChoose)
		}
	}
	name, policy.Bytes = strings.CutSuffix(name, "_bytes")
	for metric, known := range metricNames {
		if name == known && !(policy.Bytes && Metric(metric) == Locality) {
			policy.Metric = Metric(metric)
			return policy, nil
		}
	}
	return Policy{}, fmt.Errorf("unknown policy %q: give %s, each also with .N, and all but the last with _bytes", text, strings.Join(metricNames, ", "))
}

// String is the name that ParsePolicy reads.
func (p Policy) String() string {
	name := metricNames[p.Metric]
	if p.Bytes {
		name += "_bytes"
	}
	if p.N > 1 {
		name += "." + strconv.Itoa(p.N)
	}
	return name
}

// sums tells whether the metric needs the totals over all waiting tasks.
func (p Policy) sums() bool { return p.Metric == Combined || p.Metric == CombinedPrinted }

// size is what a file counts.
func (p Policy) size(file File) float64 {
	switch {
	case p.Metric == Locality:
		// Whole nanoseconds: sums come out the same in any order.
		return math.Round(1e9 * matcher.DefaultRates().Seconds(matcher.FileInfo{Size: file.Size, Source: task.SourceSE}))
	case p.Bytes:
		return max(1, float64(file.Size))
	}
	return 1
}

// totals are the sums over all waiting tasks that the combined metrics need.
type totals struct{ ref, rest float64 }

// weight is CalculateWeight(t). Where the paper is silent: x/0 is 0, and a
// task that misses nothing has a rest without bound, comes first and stays
// out of totalRest.
func (p Policy) weight(overlap, missing, ref float64, sums totals) float64 {
	switch {
	case p.Metric == Overlap:
		return overlap
	case p.Metric == Locality:
		return overlap - matcher.MissingWeight*missing
	case missing == 0:
		return matcher.NothingMissing
	case p.Metric == Rest:
		return 1 / missing
	}
	weight := 0.0
	if sums.ref > 0 {
		weight = ref / sums.ref
	}
	switch {
	case p.Metric == CombinedPrinted:
		weight += sums.rest * missing
	case sums.rest > 0:
		weight += 1 / missing / sums.rest
	}
	return weight
}
