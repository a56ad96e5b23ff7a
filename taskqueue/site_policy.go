package taskqueue

import (
	"strings"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/task"
)

// checkPolicy refuses a solver, a rank or replica policies that cannot be used
// at a site.
func checkPolicy(s *SiteRecord) error {
	if len(s.Rank) > task.MaxExpression {
		return invalid("site %s: the rank is longer than %d bytes", s.Name, task.MaxExpression)
	}
	if err := matcher.Check(matcher.RankExpression, s.Rank); err != nil {
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
	return checkReplicas(s)
}

// checkReplicas refuses replica policies that cannot be carried out at a site.
func checkReplicas(s *SiteRecord) error {
	if s.MinConfinement < 0 || int(s.MinConfinement) >= len(task.ConfinementNames) {
		return invalid("site %s: there is no confinement %d: give %s", s.Name, s.MinConfinement, strings.Join(task.ConfinementNames[:], ", "))
	}
	if len(s.Replicate) > task.MaxExpression {
		return invalid("site %s: the replica policies are longer than %d bytes", s.Name, task.MaxExpression)
	}
	chain, err := replica.ParseChain(s.Replicate)
	switch {
	case err != nil:
		return invalid("site %s: %w", s.Name, err)
	case len(chain) > 0 && s.Mode.Central():
		return invalid("site %s: replica policies look at all pilots and their caches, which only a master does: "+
			"give mode %s, or no policy", s.Name, ModeDistributed)
	}
	for _, planner := range chain {
		if planner == (replica.FCFS{}) {
			return invalid("site %s: fcfs is for simulations: here the solver gives out what other replica policies leave", s.Name)
		}
	}
	return nil
}
