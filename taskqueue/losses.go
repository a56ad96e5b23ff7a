package taskqueue

import "math"

// Fates are how the newest attempts at a site ended: one in fateMemory of what
// was is forgotten with each further one. They are counted in fateUnits.
type Fates struct {
	Ended uint64 // with an outcome, or lost
	Lost  uint64 // of them, with their pilot
}

const (
	fateUnit   = 1 << 16
	fateMemory = 1 << 10
	// fateKnown is how many attempts, at the least, the share is taken of:
	// before, a loss would be a large part of all that is known.
	fateKnown = 50
)

func (f *Fates) add(lost bool) {
	f.Ended += fateUnit - f.Ended/fateMemory
	f.Lost -= f.Lost / fateMemory
	if lost {
		f.Lost += fateUnit
	}
}

// lossesBeside is the share of attempts that vanished with their pilot,
// leaving out so many that are one task's own.
func (f *Fates) lossesBeside(own int) float64 {
	ended, lost := float64(f.Ended)/fateUnit-float64(own), float64(f.Lost)/fateUnit-float64(own)
	return max(0, lost) / max(fateKnown, ended)
}

// lossesTooMany is how many pilots a task may lose before it is held for the
// cause: as many that, at the rate at which the site loses attempts anyway, it
// is a chance of less than QuarantineChance, and QuarantineLosses at the least.
// Where whole nodes are taken away all the time, three are no evidence; where
// none are, they are.
func (c *RetryConfig) lossesTooMany(f *Fates, own int) int {
	share := f.lossesBeside(own)
	if share <= 0 {
		return c.QuarantineLosses
	}
	if share >= 1 {
		return c.QuarantineMost
	}
	byChance := math.Ceil(math.Log(c.QuarantineChance) / math.Log(share))
	return int(min(max(float64(c.QuarantineLosses), byChance), float64(c.QuarantineMost)))
}
