package sim

import (
	"hash/fnv"
	"math/rand/v2"
)

// Random makes a source of randomness for one purpose: streams of different
// names are independent, so that one simulation's need for numbers in one place
// changes nothing in another.
func Random(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
