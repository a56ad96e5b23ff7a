package matcher

import (
	"fmt"
	"math"

	"cel.dev/cel-go/cel"

	"github.com/pilotage-grid/pilotage/task"
)

// Rank is a compiled preference: the larger its value, the better task and
// pilot fit. It is immutable and safe for concurrent use.
type Rank struct {
	policy  builtin  // nil for an expression
	formula *program // nil for a policy
	uses    Uses
	// combined is set for the policies that also depend on the other tasks
	// of the list; the Evaluator adds what they contribute.
	combined *combined
	// ofPilot is added to a policy; it needs nothing but the pilot.
	ofPilot func(*Pilot) float64
}

// maxRank bounds what an expression may give, so that sums stay finite.
const maxRank = 1e300

// CompileRank takes the name of a built-in policy (locality, overlap, rest,
// combined, combined_printed, each of the last four also with _bytes;
// dad(BETA); "" is locality) or a CEL expression whose
// value is a number, or a truth value for 1 and 0. Errors are
// *ExpressionError.
func CompileRank(text string) (*Rank, error) {
	if text == "" {
		text = DefaultRank
	}
	if policy, found := builtins[text]; found {
		return &Rank{policy: policy, uses: Uses{Task: true, Files: true}}, nil
	}
	if form, found := combinedForms[text]; found {
		policy := func(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
			return form.ofRest(form.missing(files, has))
		}
		return &Rank{policy: policy, uses: Uses{Task: true, Files: true}, combined: &form}, nil
	}
	if rank, found, err := dadRank(text); found {
		return rank, err
	}
	formula, err := compile(RankExpression, text)
	if err != nil {
		return nil, err
	}
	for _, kind := range []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DynType} {
		if formula.result.IsExactType(kind) {
			return &Rank{formula: formula, uses: formula.uses}, nil
		}
	}
	return nil, &ExpressionError{
		Kind: RankExpression, Line: 1, Column: 1,
		Message: fmt.Sprintf("its value is of type %s", formula.result),
		Hint:    "a rank must be a number",
	}
}

// checkConstant refuses a constant that is no finite number: whoever writes it
// means something else. A number prefers nothing, which is a choice.
func (r *Rank) checkConstant() error {
	if r.formula == nil || !r.formula.constant {
		return nil
	}
	e := &ExpressionError{Kind: RankExpression, Line: 1, Column: 1, Hint: "a rank must be a finite number, the larger the better"}
	value, err := r.formula.evaluate(&Facts{Pilot: &Pilot{}, Task: &task.Task{}})
	switch v := value.(type) {
	case int64, uint64:
		return nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return nil
		}
		e.Message = fmt.Sprintf("its value is %v", v)
	default:
		e.Message = fmt.Sprintf("its value is %v for every task and pilot", v)
		if err != nil {
			e.Message = "it cannot be computed: " + err.Error()
		}
	}
	return e
}

// Of is the rank of the task for the pilot. A preference that cannot be
// computed, and one that is no number, counts as 0: it must not keep a task
// from running.
func (r *Rank) Of(facts Facts, rates Rates) float64 {
	if r.policy != nil {
		rank := r.policy(facts.Files, facts.has, rates)
		if r.ofPilot != nil {
			rank += r.ofPilot(facts.Pilot)
		}
		return rank
	}
	value, err := r.formula.evaluate(&facts)
	if err != nil {
		return 0
	}
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) {
			return 0
		}
		return max(-maxRank, min(v, maxRank))
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// A rank is split so that rows stay sparse:
//
//	no pilot attribute used   every pilot without any of the inputs agrees: EntryBase
//	only the pilot used       every task of the class is alike: classBase
//	a sum of both (dad)       EntryBase and classBase
//	both used                 each pair is evaluated: perTask

// EntryBase is the part of a task's rank that is the same for every pilot;
// the master computes it once, with the rates that the list carries.
func (r *Rank) EntryBase(t *task.Task, files []FileInfo, rates Rates) float64 {
	if r.uses.Pilot {
		return 0
	}
	return r.Of(Facts{Pilot: &Pilot{}, Task: t, Files: files}, rates)
}

// classBase is the pilot's part; facts.Task needs only resources.
func (r *Rank) classBase(facts *Facts, rates Rates) float64 {
	if r.ofPilot != nil {
		return r.ofPilot(facts.Pilot)
	}
	if r.uses.Pilot && !r.perTask() {
		return r.Of(*facts, rates)
	}
	return 0
}

// Files tells whether the rank looks at a task's input files.
func (r *Rank) Files() bool { return r.uses.Files }

// Live tells whether the rank looks at what runs at a pilot, so that it differs
// after each task that the pilot is given.
func (r *Rank) Live() bool { return r.uses.Live }

// perTask tells that no base exists: the pilot names the rank of every task.
func (r *Rank) perTask() bool { return r.uses.Pilot && r.uses.perTask() }
