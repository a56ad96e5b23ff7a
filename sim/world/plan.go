package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is what a run is made of. All of it follows from the seed, so a run is named by
// its seed, and by the faults that are left of it if it was cut down.
type Plan struct {
	Seed   uint64
	Large  bool
	Faults []Fault
}

// Fault is one thing that goes wrong. What it draws, it draws from a seed of its own:
// whether other faults happen changes nothing of it.
type Fault struct {
	Number int
	Kind   string
	At     time.Duration // since all pilots are there
	seed   uint64
}

// DrawPlan draws what goes wrong in a run. Each seed has a mix of its own: some kinds
// of faults are left out, so that others come often.
func DrawPlan(seed uint64, large bool) Plan {
	if p, has := quiet(seed); has && !large {
		return p
	}
	random := rand.New(rand.NewPCG(seed, 2))
	var mix []string
	for len(mix) < 3 {
		mix = mix[:0]
		for _, k := range kinds {
			if random.IntN(k.rare) == 0 && random.IntN(2) == 0 {
				mix = append(mix, k.name)
			}
		}
	}
	count := 3 + random.IntN(12)
	pause := []time.Duration{3 * time.Second, 20 * time.Second, time.Minute}[random.IntN(3)]
	if large {
		count, pause = 140, 10*time.Minute // about 24 hours
	}
	plan := Plan{Seed: seed, Large: large}
	at := time.Duration(0)
	for i := range count {
		at += time.Duration(random.Int64N(int64(2 * pause)))
		plan.Faults = append(plan.Faults, Fault{Number: i + 1, Kind: mix[random.IntN(len(mix))], At: at, seed: random.Uint64()})
	}
	return plan.cutOffNodes(at).nextRelease(at)
}

// quietStream is what the plans of quiet seeds are drawn from: one that leaves those of
// TestSeedsThatFailed as they are.
const quietStream = 83

// lateStream is what those that have one of the lateSituations are drawn from
const lateStream = 94

// cutOffNodes adds, to the plans of some seeds, faults that are drawn apart: the plans of
// all others, those of TestSeedsThatFailed among them, are as they were without.
func (p Plan) cutOffNodes(within time.Duration) Plan {
	random := rand.New(rand.NewPCG(p.Seed, 9))
	if random.IntN(4) > 0 {
		return p
	}
	for range 1 + random.IntN(3) {
		p = p.with(nodeKinds[random.IntN(len(nodeKinds))].name, within, random)
	}
	return p
}

// with is a plan with one more fault, at some time.
func (p Plan) with(kind string, within time.Duration, random *rand.Rand) Plan {
	p.Faults = append(p.Faults, Fault{
		Number: len(p.Faults) + 1, Kind: kind, At: time.Duration(random.Int64N(int64(within) + 1)), seed: random.Uint64(),
	})
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// releaseStream is what pilots of another release are drawn from: one that leaves the plans
// of the seeds that had failed before as they are.
const releaseStream = 102

// nextRelease has pilots of the next release come to a site in some runs.
func (p Plan) nextRelease(within time.Duration) Plan {
	random := rand.New(rand.NewPCG(p.Seed, releaseStream))
	if random.IntN(8) > 0 {
		return p
	}
	return p.with(releases[0].name, within, random)
}

// First is a plan with its first faults only.
func (p Plan) First(n int) Plan {
	p.Faults = p.Faults[:n]
	return p
}

// Without is a plan that lacks one of its faults.
func (p Plan) Without(i int) Plan {
	p.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
	return p
}

// Keep is a plan with the faults of these numbers only.
func (p Plan) Keep(numbers []int) Plan {
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return !slices.Contains(numbers, f.Number) })
	return p
}

// Command is how the plan is run again.
func (p Plan) Command() string {
	numbers := make([]string, len(p.Faults))
	for i, f := range p.Faults {
		numbers[i] = fmt.Sprint(f.Number)
	}
	command := fmt.Sprintf("go run ./sim/soak -seed %d", p.Seed)
	if p.Large {
		command += " -large"
	}
	return command + " -faults " + strings.Join(append(numbers, "0"), ",")
}

// Shrink looks for the shortest plan that still fails: first the shortest beginning,
// then with one fault after the other left out. fails runs a plan, which costs as much
// as a run.
func (p Plan) Shrink(fails func(Plan) bool) Plan {
	for n := range len(p.Faults) {
		if fails(p.First(n)) {
			p = p.First(n)
			break
		}
	}
	for i := 0; i < len(p.Faults); {
		if shorter := p.Without(i); fails(shorter) {
			p = shorter
		} else {
			i++
		}
	}
	return p
}
