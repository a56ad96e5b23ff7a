package matcher

import (
	"fmt"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
)

// patternLimit bounds the compiled size of a pattern in matches(), in
// instructions. Matching takes a step per instruction and character, which
// CEL's cost does not see for patterns such as (a{100}){100}.
const patternLimit = 1_000

// checkPatterns accepts matches() with a literal pattern of bounded size.
// CEL's own validator for this panics on counted repetitions.
func checkPatterns(kind ExpressionKind, compiled *cel.Ast) error {
	native := compiled.NativeRep()
	calls := ast.MatchDescendants(ast.NavigateAST(native), ast.FunctionMatcher("matches"))
	for _, call := range calls {
		arguments := call.AsCall().Args()
		complaint := "its pattern is not a literal"
		if pattern := arguments[len(arguments)-1]; pattern.Kind() == ast.LiteralKind {
			complaint = patternComplaint(pattern.AsLiteral())
		}
		if complaint == "" {
			continue
		}
		at := native.SourceInfo().GetStartLocation(call.ID())
		return &ExpressionError{
			Kind: kind, Line: max(1, at.Line()), Column: max(1, at.Column()+1), Message: "matches(): " + complaint,
			Hint: fmt.Sprintf("write an RE2 pattern of at most %d instructions between quotes", patternLimit),
		}
	}
	return nil
}

func patternComplaint(literal ref.Val) string {
	text, ok := literal.Value().(string)
	if !ok {
		return "its pattern is not a text"
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err.Error()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err.Error()
	}
	if size := len(program.Inst); size > patternLimit {
		return fmt.Sprintf("its pattern has %d instructions", size)
	}
	return ""
}
