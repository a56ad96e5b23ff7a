package matcher

import "math"

// weight is what a pair is worth to the exact solver, compared part by part:
// first how urgent tasks are, then how many ranks without bound there are,
// then the sum of the others. Sums of such weights never mix the parts, which
// a single number with large factors would. At the same time it is a length
// along a path of pairs.
type weight struct {
	urgent    int32 // level of the task, numbered from 1 on
	unbounded int32 // +1 for NothingMissing, -1 for its opposite
	rank      float64
}

// unfilled is the weight of a place that stays empty: far below every task,
// and still so when a few of them are added.
var unfilled = weight{urgent: -1 << 28}

func newWeight(urgent int32, rank float64) weight {
	switch {
	case rank >= math.MaxFloat64:
		return weight{urgent: urgent, unbounded: 1}
	case rank <= -math.MaxFloat64:
		return weight{urgent: urgent, unbounded: -1}
	}
	return weight{urgent: urgent, rank: rank}
}

func (w weight) add(other weight) weight {
	return weight{w.urgent + other.urgent, w.unbounded + other.unbounded, w.rank + other.rank}
}

func (w weight) sub(other weight) weight {
	return weight{w.urgent - other.urgent, w.unbounded - other.unbounded, w.rank - other.rank}
}

func (w weight) less(other weight) bool {
	if w.urgent != other.urgent {
		return w.urgent < other.urgent
	}
	if w.unbounded != other.unbounded {
		return w.unbounded < other.unbounded
	}
	return w.rank < other.rank
}

func larger(a, b weight) weight {
	if a.less(b) {
		return b
	}
	return a
}

// beyond is the length of a path with one more arc. What rounding has put
// below zero counts as zero.
func (w weight) beyond(arc weight) weight {
	if arc.less(weight{}) {
		return w
	}
	return w.add(arc)
}
