package matcher

import (
	"fmt"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/pilotage-grid/pilotage/task"
)

// Conditions are what a pilot's own policy may look at before it asks for
// work (001, section 2.3: load, free memory, time of day).
type Conditions struct {
	Load       float64 // load average per CPU, 0 when idle
	FreeMemory task.Bytes
	FreeDisk   task.Bytes
	Now        time.Time // in the node's zone
}

// acceptAttributes are the names that such a policy knows beside the units.
var acceptAttributes = []attribute{
	{"load", cel.DoubleType, ofClass, func(f *Facts) any { return f.conditions.Load }},
	{"free_memory", cel.IntType, ofClass, func(f *Facts) any { return int64(f.conditions.FreeMemory) }},
	{"free_disk", cel.IntType, ofClass, func(f *Facts) any { return int64(f.conditions.FreeDisk) }},
	{"hour", cel.IntType, ofClass, func(f *Facts) any { return int64(f.conditions.Now.Hour()) }},
	{"minute", cel.IntType, ofClass, func(f *Facts) any { return int64(f.conditions.Now.Minute()) }},
	{"weekday", cel.IntType, ofClass, func(f *Facts) any { return int64(f.conditions.Now.Weekday()) }},
	{"now", cel.TimestampType, ofClass, func(f *Facts) any { return f.conditions.Now }},
}

// Acceptance is a compiled policy of a pilot. It is immutable and safe for
// concurrent use.
type Acceptance struct {
	policy *program // nil accepts always
}

// CompileAcceptance takes a CEL expression over load, free_memory, free_disk,
// hour (0 to 23), minute, weekday (0 is Sunday) and now, for example
//
//	load < 0.5 && free_memory > 2 * GiB && (hour >= 20 || hour < 6)
//	now < timestamp("2026-12-01T06:00:00Z")
//
// "" accepts always. Errors are *ExpressionError.
func CompileAcceptance(text string) (*Acceptance, error) {
	if text == "" {
		return &Acceptance{}, nil
	}
	policy, err := compile(AcceptExpression, text)
	if err != nil {
		return nil, err
	}
	if !policy.result.IsExactType(cel.BoolType) {
		return nil, &ExpressionError{
			Kind: AcceptExpression, Line: 1, Column: 1,
			Message: fmt.Sprintf("its value is of type %s", policy.result),
			Hint:    "it must be true when the pilot may ask for work, and false when not",
		}
	}
	return &Acceptance{policy}, nil
}

func (a *Acceptance) String() string {
	if a.policy == nil {
		return "always"
	}
	return a.policy.text
}

// Accepts tells whether the pilot may ask for work now, and if not, why. A
// policy that cannot be evaluated does not accept.
func (a *Acceptance) Accepts(now Conditions) (accepts bool, why string) {
	if a.policy == nil {
		return true, ""
	}
	value, err := a.policy.evaluate(&Facts{conditions: &now})
	switch {
	case err != nil:
		return false, shorten(a.policy.text + " (" + err.Error() + ")")
	case value != true:
		return false, shorten(a.policy.text)
	}
	return true, ""
}
