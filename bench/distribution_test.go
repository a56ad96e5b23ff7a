package bench

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDistribution(t *testing.T) {
	var observed []time.Duration
	for i := 100; i > 0; i-- {
		observed = append(observed, time.Duration(i)*time.Second)
	}
	if got, want := Distribute(observed), (Distribution{P50: 50, P95: 95, P99: 99, Mean: 50.5}); got != want {
		t.Errorf("of 1 to 100 s: %+v, want %+v", got, want)
	}
	if got := Distribute(nil); got != (Distribution{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// A quantile is an observation, with at least its share not above it and
// less than its share below it.
func TestQuantileAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 200).Draw(t, "values")
		observed := make([]time.Duration, len(values))
		for i, v := range values {
			observed[i] = time.Duration(v) * time.Second
		}
		got := Distribute(observed)
		for share, at := range map[float64]float64{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
			below, upTo := 0, 0
			for _, v := range values {
				if float64(v) < at {
					below++
				}
				if float64(v) <= at {
					upTo++
				}
			}
			need := int(math.Ceil(share * float64(len(values))))
			if upTo < need || below >= need {
				t.Fatalf("quantile %v is %v: %d below, %d up to it, %d needed", share, at, below, upTo, need)
			}
		}
	})
}
