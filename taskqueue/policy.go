package taskqueue

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// checkPolicy refuses a solver or a rank that cannot be used at a site.
func checkPolicy(s *SiteRecord) error {
	if len(s.Rank) > task.MaxExpression {
		return invalid("site %s: the rank is longer than %d bytes", s.Name, task.MaxExpression)
	}
	if _, err := matcher.NewCompiler(1).Rank(s.Rank); err != nil {
		return invalid("site %s: %w", s.Name, err)
	}
	choice, err := matcher.ParseSolver(s.Solver)
	if err != nil {
		return invalid("site %s: %w", s.Name, err)
	}
	if choice.WholeSite() && s.Mode.Central() {
		return invalid("site %s: solver %s weighs all pilots against each other, which only a master does: "+
			"give mode %s, or another solver", s.Name, choice, ModeDistributed)
	}
	if err := choice.CheckRank(s.Rank); err != nil {
		return invalid("site %s: %w", s.Name, err)
	}
	return nil
}

// solverOf is how the queue chooses among a site's tasks for the pilot that
// asks. For one pilot, greedy and sequential are the same. Draws depend on the
// site and on what was drawn before.
func solverOf(site *SiteRecord) matcher.Solver {
	choice, err := matcher.ParseSolver(site.Solver)
	if err != nil || choice.WholeSite() {
		return matcher.Sequential
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(site.Name))
	return choice.Solver(rand.New(rand.NewPCG(seed.Sum64(), 0)))
}
