package dispatch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/matcher"
)

// Metric is how CalculateWeight values a task for a site (001, section 3.2).
type Metric uint8

// The metrics. Combined is the form that the text means, CombinedPrinted the
// one that it prints.
const (
	Overlap Metric = iota
	Rest
	Combined
	CombinedPrinted
)

var metricNames = []string{"overlap", "rest", "combined", "combined_printed"}

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
		if name == known {
			policy.Metric = Metric(metric)
			return policy, nil
		}
	}
	return Policy{}, fmt.Errorf("unknown policy %q: give %s, each also with _bytes and .N", text, strings.Join(metricNames, ", "))
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

// totals are the sums over all waiting tasks that the combined metrics need.
type totals struct{ ref, rest float64 }

// weight is CalculateWeight(t). Where the paper is silent: x/0 is 0, and a
// task that misses nothing has a rest without bound, comes first and stays
// out of totalRest.
func (p Policy) weight(overlap, missing, ref float64, sums totals) float64 {
	switch {
	case p.Metric == Overlap:
		return overlap
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
