package sim

import "time"

// Load is the background load of one node: drawn anew in each period, uniformly
// from 0 (idle) to 1 (nothing left). The zero value is no load at all.
type Load struct {
	Period time.Duration // 0: no load
	Seed   uint64        // of this node
}

// At is the load at a moment.
func (l Load) At(now time.Duration) float64 {
	if l.Period <= 0 {
		return 0
	}
	return l.draw(uint64(now / l.Period))
}

// draw mixes seed and number of the period (splitmix64), so that the load at a
// moment is the same whatever has been asked before.
func (l Load) draw(period uint64) float64 {
	z := l.Seed + (period+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return float64((z^z>>31)>>11) / (1 << 53)
}

// Takes is how long work that takes `alone` on the idle node takes from now on.
func (l Load) Takes(now, alone time.Duration) time.Duration {
	if l.Period <= 0 {
		return alone
	}
	left, at := float64(alone), now
	for {
		end := (at/l.Period + 1) * l.Period
		share := 1 - l.At(at)
		if done := float64(end-at) * share; done < left {
			left -= done
			at = end
			continue
		}
		return at + time.Duration(left/share) - now
	}
}
