package experiment

import "math"

// Verdict says whether a sentence of a paper came out here. The functions that
// follow are all of its bounds, one for each kind of sentence, the same for all
// papers.
type Verdict string

// The verdicts.
const (
	Yes    Verdict = "yes"
	No     Verdict = "no"
	Fitted Verdict = "fitted" // within the bounds, because a number was chosen for that
)

// If is Yes or No.
func If(same bool) Verdict {
	if same {
		return Yes
	}
	return No
}

// And is No where one of both is.
func (v Verdict) And(other Verdict) Verdict {
	switch {
	case v == No || other == No:
		return No
	case other == Fitted:
		return Fitted
	}
	return v
}

// ByChoice is Fitted where the verdict is Yes.
func (v Verdict) ByChoice() Verdict {
	if v == Yes {
		return Fitted
	}
	return v
}

// Number holds a number of a paper ("5", "around 5", "about 20 s"): at most 20 %
// less or more.
func Number(here, paper float64) Verdict { return If(math.Abs(here-paper) <= 0.2*math.Abs(paper)) }

// Ratio holds a number of a paper that sets one thing in relation to another, such
// as a makespan to FIFO's: the number is met, and so is what is gained or lost by
// it, its distance to 1.
func Ratio(here, paper float64) Verdict { return Number(here, paper).And(Number(here-1, paper-1)) }

// Alike holds "similar", "comparable", "constant" and "almost": at most 10 % less
// or more.
func Alike(here, other float64) Verdict { return If(math.Abs(here-other) <= 0.1*math.Abs(other)) }

// More holds "higher", "longer", "falls" and the like, where the paper gives no
// number: by more than 1 %.
func More(here, than float64) Verdict { return If(here > than+0.01*math.Abs(than)) }

// Much holds "much higher", "considerably lower" and the like: at least half as
// much again.
func Much(here, than float64) Verdict { return If(here >= 1.5*than && here > 0) }
