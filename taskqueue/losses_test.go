package taskqueue

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Where no other attempt is lost three are too many; the more are lost anyway,
// the more it takes, up to a bound.
func TestLossesTooMany(t *testing.T) {
	retry := DefaultConfig().Retry
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		share    float64
		attempts int
		from, to int
	}{
		{0, 0, 3, 3}, {0, 10_000, 3, 3}, {.001, 10_000, 3, 3}, {.1, 10_000, 5, 7}, {.5, 10_000, 18, 20}, {1, 10_000, 20, 20}, {1, 4, 3, 8},
	} {
		var f Fates
		own := 3
		for range own {
			f.add(true)
		}
		for range c.attempts {
			f.add(random.Float64() < c.share)
		}
		if got := retry.lossesTooMany(&f, own); got < c.from || got > c.to {
			t.Errorf("%d attempts, %v of them lost: %d losses are too many, want %d to %d", c.attempts, c.share, got, c.from, c.to)
		}
	}
}

// What was long ago does not count.
func TestFatesAreForgotten(t *testing.T) {
	var f Fates
	for range 5 * fateMemory {
		f.add(true)
	}
	if share := float64(f.Lost) / float64(f.Ended); math.Abs(share-1) > .01 {
		t.Errorf("all are lost, and the share is %v", share)
	}
	for range 10 * fateMemory {
		f.add(false)
	}
	if share := float64(f.Lost) / float64(f.Ended); share > .001 {
		t.Errorf("ten memories later the share is %v", share)
	}
}
