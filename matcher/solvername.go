package matcher

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
)

// SolverChoice is a solver by name, as a site's settings give it. The zero
// value is the default, greedy.
type SolverChoice struct {
	kind string
	n    int
}

// MaxChoose bounds n in choose(n).
const MaxChoose = 1000

var choosePattern = regexp.MustCompile(`^choose\(\s*([0-9]{1,9})\s*\)$`)

// ParseSolver reads greedy, exact, sequential or choose(N); "" is greedy.
func ParseSolver(text string) (SolverChoice, error) {
	switch text {
	case "", "greedy":
		return SolverChoice{}, nil
	case "exact", "sequential":
		return SolverChoice{kind: text}, nil
	}
	if found := choosePattern.FindStringSubmatch(text); found != nil {
		n, err := strconv.Atoi(found[1])
		if err == nil && n >= 1 && n <= MaxChoose {
			return SolverChoice{kind: "choose", n: n}, nil
		}
		return SolverChoice{}, fmt.Errorf("solver %q: give choose(1) to choose(%d)", text, MaxChoose)
	}
	return SolverChoice{}, fmt.Errorf("unknown solver %q: give greedy, exact, sequential or choose(N)", text)
}

// String is the name that ParseSolver reads.
func (c SolverChoice) String() string {
	switch c.kind {
	case "":
		return "greedy"
	case "choose":
		return fmt.Sprintf("choose(%d)", c.n)
	}
	return c.kind
}

// Random tells whether the solver draws from the source that Solver is given.
func (c SolverChoice) Random() bool { return c.kind == "choose" }

// Solver is the one that is named. random may be nil unless Random says that
// it is needed.
func (c SolverChoice) Solver(random *rand.Rand) Solver {
	switch c.kind {
	case "exact":
		return Exact
	case "sequential":
		return Sequential
	case "choose":
		return Choose(c.n, random)
	}
	return Greedy
}
