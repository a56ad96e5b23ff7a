package master

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/pilotage-grid/pilotage/matcher"
)

// solving is how the rank matrix is solved. It belongs to one matrix: solvers
// may remember what they have chosen from it.
type solving struct {
	choice matcher.SolverChoice // by the settings, once the solver is made
	solver matcher.Solver       // nil: not made yet
}

// choose makes the solver of the settings; greedy, where a later queue names one
// that this pilot does not know. What it draws depends on the term alone, so
// that a journal of the master's events gives the same assignments again.
func (placing *placing) choose(at *step) {
	s := &placing.solving
	if s.solver != nil {
		return
	}
	choice, err := matcher.ParseSolver(at.settings.Solver)
	if err != nil {
		choice = matcher.SolverChoice{}
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(at.term.String()))
	s.choice, s.solver = choice, choice.Solver(rand.New(rand.NewPCG(seed.Sum64(), 0)))
}

// solver is what the matrix is solved with now.
func (placing *placing) solver(at *step) matcher.Solver {
	placing.choose(at)
	return placing.solving.solver
}
