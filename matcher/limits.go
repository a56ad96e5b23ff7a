package matcher

import (
	"context"
	"fmt"
	"regexp/syntax"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// Limits on expressions, which come from users. CEL's own run-time cost limit
// is not used: its bookkeeping searches what it has kept of every step before,
// so that one pass over 10,000 inputs takes most of a second. Instead, what
// could cost more than a step is either refused when compiled or a pass over
// a list, whose steps are counted.
const (
	// stepLimit bounds one evaluation: steps of all passes over lists, each
	// counted as the size of the expression.
	stepLimit = 1_000_000
	// nodeLimit bounds the size of an expression after macro expansion.
	nodeLimit = 500
	// depthLimit bounds nesting; people write far less.
	depthLimit = 50
	// patternLimit bounds the compiled patterns of all matches() together,
	// in instructions. Matching may take a step per instruction and character.
	patternLimit = 500
	// patternWeight is the size of one pattern instruction in nodes.
	patternWeight = 4
)

// spent is a context that is over. CEL looks at it only after as many steps
// as its check frequency says, which makes a step limit of it without a clock.
var spent = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// weigh refuses what an evaluation could not afford and returns the number of
// list elements that it may look at.
func weigh(kind ExpressionKind, compiled *cel.Ast) (elements uint, err error) {
	native := compiled.NativeRep()
	nodes, instructions := 0, 0
	for _, node := range ast.MatchDescendants(ast.NavigateAST(native), ast.AllMatcher()) {
		nodes++
		size, complaint := examine(native, node)
		instructions += size
		if complaint == "" && instructions > patternLimit {
			complaint = fmt.Sprintf("matches(): patterns of more than %d instructions in all", patternLimit)
		}
		if complaint != "" {
			at := native.SourceInfo().GetStartLocation(node.ID())
			return 0, &ExpressionError{
				Kind: kind, Line: max(1, at.Line()), Column: max(1, at.Column()+1), Message: complaint,
			}
		}
	}
	return uint(max(1, stepLimit/(nodes+patternWeight*instructions))), nil
}

// examine looks at one node and returns the size of its pattern, if it has
// one, and what is wrong with it.
func examine(native *ast.AST, node ast.NavigableExpr) (instructions int, complaint string) {
	switch node.Kind() {
	case ast.IdentKind:
		if node.AsIdent() == "files" && !searchesFiles(node) {
			return 0, "files can be searched (exists, all, exists_one, filter), counted (size) and indexed, nothing else"
		}
	case ast.ComprehensionKind:
		list := native.GetType(node.AsComprehension().IterRange().ID())
		if !isPlainList(list) {
			return 0, "only lists of single values can be searched, this is " + list.String()
		}
	case ast.CallKind:
		switch call := node.AsCall(); call.FunctionName() {
		case operators.Add:
			ofFilter := call.Args()[0].Kind() == ast.IdentKind && call.Args()[0].AsIdent() == parser.HiddenAccumulatorName
			if !ofFilter && slices.ContainsFunc(native.GetOverloadIDs(node.ID()), joins) {
				return 0, "+ adds numbers: it does not join texts or lists here"
			}
		case overloads.Matches:
			return patternSize(call.Args()[len(call.Args())-1])
		}
	}
	return 0, ""
}

// searchesFiles tells whether "files" stands where its length cannot multiply
// with itself.
func searchesFiles(node ast.NavigableExpr) bool {
	parent, found := node.Parent()
	if !found {
		return false
	}
	switch parent.Kind() {
	case ast.ComprehensionKind:
		return parent.AsComprehension().IterRange().ID() == node.ID()
	case ast.CallKind:
		function := parent.AsCall().FunctionName()
		return function == operators.Index || function == overloads.Size
	}
	return false
}

func isPlainList(list *types.Type) bool {
	if list.Kind() != types.ListKind {
		return false
	}
	switch list.Parameters()[0].Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind:
		return true
	}
	return list.Parameters()[0].IsExactType(fileType)
}

func joins(overload string) bool {
	return overload == overloads.AddString || overload == overloads.AddBytes || overload == overloads.AddList
}

// patternSize is the number of instructions of a literal pattern.
func patternSize(pattern ast.Expr) (int, string) {
	if pattern.Kind() != ast.LiteralKind {
		return 0, "matches(): the pattern must be a text between quotes"
	}
	text, _ := pattern.AsLiteral().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, "matches(): " + err.Error()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, "matches(): " + err.Error()
	}
	return len(program.Inst), ""
}
