package master

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// solving is how the rank matrix is solved. It belongs to one matrix: solvers
// may remember what they have chosen from it.
type solving struct {
	choice   matcher.SolverChoice // by the settings, once the solver is made
	solver   matcher.Solver       // nil: not made yet
	next     time.Time            // when a solution is measured again
	measured uint64
	ratios   float64 // their sum
	least    float64
}

// SolveWith has a solver decide who gets which task whatever the site's settings
// say, for a bench or a replay. It is not measured.
func (m *Master) SolveWith(solver matcher.Solver) { m.site.placing.given = solver }

// solver is what the matrix is solved with now: the site's solver, which tells
// from time to time how near to the best solution it comes. One free slot
// alone would always be served best, so it is not measured.
func (placing *placing) solver(at *step, roster *roster) matcher.Solver {
	if placing.given != nil {
		return placing.given
	}
	s := &placing.solving
	placing.choose(at)
	if at.own.on || roster.size.free < 2 || roster.size.free > at.config.Placing.MeasureSlots || placing.matrix.Ready() < 2 || at.now.Before(s.next) {
		return s.solver
	}
	return matcher.Measured(s.solver, func(o matcher.Optimality) {
		s.next = at.now.Add(at.config.Placing.MeasureEvery)
		ratio := o.Ratio()
		if s.measured == 0 || ratio < s.least {
			s.least = ratio
		}
		s.measured++
		s.ratios += ratio
	})
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

// leavesTasks tells whether the solver in force leaves tasks to pilots that have
// their inputs.
func (placing *placing) leavesTasks(at *step) bool {
	placing.choose(at)
	return placing.given != nil || placing.solving.choice.Patient()
}

func (s *solving) optimality() task.Optimality {
	if s.measured == 0 {
		return task.Optimality{}
	}
	millionths := func(ratio float64) int { return int(math.Round(ratio * task.Best)) }
	return task.Optimality{Measured: s.measured, Mean: millionths(s.ratios / float64(s.measured)), Least: millionths(s.least)}
}
