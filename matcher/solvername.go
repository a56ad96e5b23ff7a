package matcher

import (
	"errors"
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
	rule DelayRule
}

// MaxChoose bounds n in choose(n).
const MaxChoose = 1000

var (
	choosePattern = regexp.MustCompile(`^choose\(\s*([0-9]{1,9})\s*\)$`)
	delayPattern  = regexp.MustCompile(`^dad\(\s*([0-9]+(?:\.[0-9]*)?)\s*,\s*([0-9]{1,9})\s*\)$`)
)

// ParseSolver reads greedy, exact, sequential, choose(N) or dad(LOCAL
// THRESHOLD,WAIT LIMIT), see DelayRule; "" is greedy.
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
	if found := delayPattern.FindStringSubmatch(text); found != nil {
		threshold, err := strconv.ParseFloat(found[1], 64)
		limit, limitErr := strconv.Atoi(found[2])
		if err := errors.Join(err, limitErr); err != nil {
			return SolverChoice{}, fmt.Errorf("solver %q: %w", text, err)
		}
		return SolverChoice{kind: "dad", rule: DelayRule{threshold, limit}}, nil
	}
	return SolverChoice{}, fmt.Errorf("unknown solver %q: give greedy, exact, sequential, choose(N) or dad(THRESHOLD,PASSES)", text)
}

// CheckRank tells whether the solver goes with the rank that a site's tasks
// have: dad needs the rank dad(BETA), and a threshold that separates with it.
func (c SolverChoice) CheckRank(rank string) error {
	if c.kind != "dad" {
		return nil
	}
	beta, found, err := dadBeta(rank)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("solver %s compares scores of 0 to 1: give the rank dad(BETA), not %q", c, rank)
	}
	if err := c.rule.Check(beta); err != nil {
		return fmt.Errorf("solver %s: %w", c, err)
	}
	return nil
}

// String is the name that ParseSolver reads.
func (c SolverChoice) String() string {
	switch c.kind {
	case "":
		return "greedy"
	case "choose":
		return fmt.Sprintf("choose(%d)", c.n)
	case "dad":
		return fmt.Sprintf("dad(%s,%d)", strconv.FormatFloat(c.rule.LocalThreshold, 'f', -1, 64), c.rule.WaitLimit)
	}
	return c.kind
}

// Random tells whether the solver draws from the source that Solver is given.
func (c SolverChoice) Random() bool { return c.kind == "choose" }

// Waits tells whether the solver leaves tasks to pilots where they start sooner, see
// Matrix.SetLocalityWait.
func (c SolverChoice) Waits() bool { return c.kind == "" }

// WholeSite tells whether the solver compares the pilots of a site with each
// other, those without a free place included, so that it cannot serve one that
// is looked at alone.
func (c SolverChoice) WholeSite() bool { return c.kind == "dad" }

// Solver is the one that is named. random may be nil unless Random says that
// it is needed. A solver that remembers (dad) begins anew with each call, so
// one is made for a matrix and kept as long as that.
func (c SolverChoice) Solver(random *rand.Rand) Solver {
	switch c.kind {
	case "exact":
		return Exact
	case "sequential":
		return Sequential
	case "choose":
		return Choose(c.n, random)
	case "dad":
		return NewDAD(c.rule).Solve
	}
	return Greedy
}
