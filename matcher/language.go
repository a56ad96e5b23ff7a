package matcher

import (
	"errors"
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/pilotage-grid/pilotage/task"
)

// Both languages are built once: they are constant and safe for concurrent
// use.
var (
	matchLanguage  = sync.OnceValues(func() (*cel.Env, error) { return newLanguage(attributes) })
	acceptLanguage = sync.OnceValues(func() (*cel.Env, error) { return newLanguage(acceptAttributes) })
)

// language is the one of a kind of expressions.
func language(kind ExpressionKind) (*cel.Env, error) {
	if kind == AcceptExpression {
		return acceptLanguage()
	}
	return matchLanguage()
}

// newLanguage builds a CEL environment with these names. map() is left out,
// since with it a short expression can build a large value; the others return
// a truth value or part of a list.
func newLanguage(names []attribute) (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("prepare the types of expressions: %w", err)
	}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(provider{registry}),
		cel.EnableHiddenAccumulatorName(true), // users cannot write its name
		cel.ClearMacros(),
		cel.Macros(cel.HasMacro, cel.AllMacro, cel.ExistsMacro, cel.ExistsOneMacro, cel.FilterMacro),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(task.MaxExpression),
		cel.ParserRecursionLimit(depthLimit),
		cel.ParserErrorRecoveryLimit(3),
		cel.ExpressionNodeLimit(nodeLimit),
	}
	for _, a := range names {
		options = append(options, cel.Variable(a.name, a.kind))
	}
	for name, value := range constants {
		options = append(options, cel.Constant(name, cel.IntType, types.Int(value)))
	}
	return cel.NewEnv(options...)
}

// program is a compiled expression.
type program struct {
	text   string
	uses   Uses
	result *cel.Type
	// constant tells that it looks at no task, pilot or file.
	constant bool
	run      cel.Program
}

// compile checks names and types and prepares the evaluation. Errors are
// *ExpressionError.
func compile(kind ExpressionKind, text string) (*program, error) {
	if len(text) > task.MaxExpression {
		return nil, &ExpressionError{
			Kind: kind, Line: 1, Column: 1,
			Message: fmt.Sprintf("it has %d bytes", len(text)),
			Hint:    fmt.Sprintf("at most %d are allowed", task.MaxExpression),
		}
	}
	env, err := language(kind)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, explainIssues(kind, text, issues)
	}
	elements, err := weigh(kind, ast)
	if err != nil {
		return nil, err
	}
	compiled := &program{text: text, result: ast.OutputType(), constant: true}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		if a, found := attributeByName[reference.Name]; found && reference.Value == nil {
			compiled.uses = compiled.uses.and(a.uses)
			compiled.constant = false
		}
	}
	compiled.run, err = env.Program(ast,
		cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(elements))
	if err != nil {
		return nil, &ExpressionError{Kind: kind, Line: 1, Column: 1, Message: err.Error()}
	}
	return compiled, nil
}

var (
	errNoValue   = errors.New("gives no value")
	errExpensive = errors.New("takes too many steps")
)

// evaluate returns the value of the expression as a Go value.
func (p *program) evaluate(facts *Facts) (any, error) {
	value, _, err := p.run.ContextEval(spent, &activation{facts: facts})
	switch {
	case errors.Is(err, interpreter.InterruptError{}):
		return nil, errExpensive
	case err != nil:
		return nil, err
	case value == nil:
		return nil, errNoValue
	}
	return value.Value(), nil
}
