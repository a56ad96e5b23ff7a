package matcher

import (
	"fmt"

	"cel.dev/cel-go/cel"

	"github.com/pilotage-grid/pilotage/task"
)

// Requirement is a compiled hard requirement, split into the clauses that its
// top-level && joins, so that the failing one can be named. It is immutable
// and safe for concurrent use.
type Requirement struct {
	clauses []*program
	uses    Uses
}

// Verdict tells whether a pilot may run a task, and if not, which clause is
// the first that fails.
type Verdict struct {
	Feasible     bool
	FailedClause string // "" when feasible
}

// maxClauseText bounds the text of a clause in answers, which travel.
const maxClauseText = 200

// CompileRequirement compiles a CEL expression whose value is true or false;
// "" accepts every pilot. Errors are *ExpressionError.
func CompileRequirement(text string) (*Requirement, error) {
	if text == "" {
		return &Requirement{}, nil
	}
	whole, err := compileClause(text)
	if err != nil {
		return nil, err
	}
	requirement := &Requirement{uses: whole.uses}
	for _, part := range splitClauses(text) {
		clause, err := compileClause(part)
		if err != nil {
			requirement.clauses = []*program{whole}
			return requirement, nil
		}
		requirement.clauses = append(requirement.clauses, clause)
	}
	return requirement, nil
}

func compileClause(text string) (*program, error) {
	clause, err := compile(RequirementExpression, text)
	if err != nil {
		return nil, err
	}
	if !clause.result.IsExactType(cel.BoolType) && !clause.result.IsExactType(cel.DynType) {
		return nil, &ExpressionError{
			Kind: RequirementExpression, Line: 1, Column: 1,
			Message: fmt.Sprintf("its value is of type %s", clause.result),
			Hint:    "a requirement must be true or false; a preference belongs into rank",
		}
	}
	return clause, nil
}

// Clauses returns the text of each clause as written.
func (r *Requirement) Clauses() []string {
	texts := make([]string, len(r.clauses))
	for i, clause := range r.clauses {
		texts[i] = clause.text
	}
	return texts
}

// perTask tells whether some clause must be evaluated for each task.
func (r *Requirement) perTask() bool { return r.uses.perTask() }

// Check decides whether the pilot may run the task: first the resources in
// total, then the clauses from left to right. A clause that cannot be
// evaluated fails.
func (r *Requirement) Check(facts Facts) Verdict {
	if clause := facts.Pilot.lacking(facts.Task.Resources); clause != "" {
		return Verdict{FailedClause: clause}
	}
	return r.check(&facts, func(Uses) bool { return true })
}

// MayRun tells whether a pilot that is not there yet may run tasks of a class. What only
// its node tells counts as met, until the site's pilots have refused the class.
func (c *Compiler) MayRun(pilot *Pilot, class task.Class, refused bool) bool {
	requirement, err := c.Requirement(class.Require)
	if err != nil || refused && requirement.uses.Node {
		return false
	}
	return requirement.foresee(Facts{Pilot: pilot, Task: &task.Task{Resources: class.Resources}}).Feasible
}

// foresee decides as Check does for a pilot that is not there yet: clauses about what
// only its node tells, such as its walls, or about single tasks and files, count as met.
func (r *Requirement) foresee(facts Facts) Verdict {
	if clause := facts.Pilot.lacking(facts.Task.Resources); clause != "" {
		return Verdict{FailedClause: clause}
	}
	return r.check(&facts, func(u Uses) bool { return !u.perTask() && !u.Node })
}

// checkClass looks at the resources and at what is the same for all tasks of
// the class; facts.Task needs only resources.
func (r *Requirement) checkClass(facts *Facts) Verdict {
	if clause := facts.Pilot.lacking(facts.Task.Resources); clause != "" {
		return Verdict{FailedClause: clause}
	}
	return r.check(facts, func(u Uses) bool { return !u.perTask() })
}

// checkTask looks at what checkClass has left open.
func (r *Requirement) checkTask(facts *Facts) Verdict { return r.check(facts, Uses.perTask) }

func (r *Requirement) check(facts *Facts, wanted func(Uses) bool) Verdict {
	for _, clause := range r.clauses {
		if !wanted(clause.uses) {
			continue
		}
		value, err := clause.evaluate(facts)
		accepted, isBool := value.(bool)
		switch {
		case err != nil:
			return Verdict{FailedClause: shorten(clause.text + " (" + err.Error() + ")")}
		case !isBool:
			return Verdict{FailedClause: shorten(clause.text + " (neither true nor false)")}
		case !accepted:
			return Verdict{FailedClause: shorten(clause.text)}
		}
	}
	return Verdict{Feasible: true}
}

// shorten bounds a text without cutting a character in half.
func shorten(text string) string {
	if len(text) <= maxClauseText {
		return text
	}
	end := maxClauseText
	for end > 0 && text[end]&0xC0 == 0x80 {
		end--
	}
	return text[:end] + "..."
}
