package bench

import (
	"math"
	"slices"
	"time"
)

// Distribution sums up observations, in seconds.
type Distribution struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

// Distribute sums up durations; of none, everything is 0. The slice is sorted.
func Distribute(observed []time.Duration) Distribution {
	if len(observed) == 0 {
		return Distribution{}
	}
	slices.Sort(observed)
	sum := 0.0
	for _, d := range observed {
		sum += d.Seconds()
	}
	return Distribution{
		P50: quantile(observed, 0.5).Seconds(), P95: quantile(observed, 0.95).Seconds(),
		P99: quantile(observed, 0.99).Seconds(), Mean: sum / float64(len(observed)),
	}
}

// quantile is the smallest of the sorted values that a share q does not exceed
// (the nearest-rank definition).
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(0, rank-1)]
}

// meanAndDeviation returns the mean of values and their standard deviation,
// which is 0 for less than two.
func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(values)-1))
}
