package matcher

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/pilotage-grid/pilotage/internal/spelling"
	"github.com/pilotage-grid/pilotage/task"
)

// ExpressionKind says what an expression is for.
type ExpressionKind string

// Kinds of expressions.
const (
	RequirementExpression ExpressionKind = "requirement"
	RankExpression        ExpressionKind = "rank"
	AcceptExpression      ExpressionKind = "accept policy"
)

// ExpressionError tells where an expression is wrong and what to write.
type ExpressionError struct {
	Kind    ExpressionKind
	Line    int // from 1
	Column  int // from 1, in characters
	Message string
	Hint    string // "" when there is none
}

func (e *ExpressionError) Error() string {
	text := fmt.Sprintf("%s, line %d column %d: %s", e.Kind, e.Line, e.Column, e.Message)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Check tells whether an expression that came from outside is usable, without
// keeping what was compiled. A rank may also be a built-in name, and a constant
// one must be a number. Errors are *ExpressionError.
func Check(kind ExpressionKind, text string) error {
	var err error
	switch kind {
	case RequirementExpression:
		_, err = CompileRequirement(text)
	case RankExpression:
		var rank *Rank
		if rank, err = CompileRank(text); err == nil {
			err = rank.checkConstant()
		}
	case AcceptExpression:
		_, err = CompileAcceptance(text)
	default:
		err = fmt.Errorf("unknown kind of expression %q: use %q, %q or %q", kind, RequirementExpression, RankExpression, AcceptExpression)
	}
	return err
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noField    = regexp.MustCompile(`^undefined field '([^']*)'`)
	nameAt     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*`)
	unexpected = regexp.MustCompile(`^(?:mismatched input|extraneous input|token recognition error at:|no viable alternative at input) '(.*?)'(?: expecting .*)?$`)
	// confinementAsText is a level that somebody compares with a text.
	confinementAsText = regexp.MustCompile(`pilot\.confinement\s*\S{1,2}\s*r?['"]|['"]\s*\S{1,2}\s*pilot\.confinement`)
	lacking           = regexp.MustCompile(`^missing (.+) at '`)
)

// explainIssues turns the compiler's first complaint into ours.
func explainIssues(kind ExpressionKind, text string, issues *cel.Issues) error {
	first := issues.Errors()[0]
	e := &ExpressionError{Kind: kind, Line: first.Location.Line(), Column: first.Location.Column() + 1, Message: first.Message}
	if e.Line < 1 || e.Column < 1 {
		e.Line, e.Column = 1, 1
	}
	e.Message, _, _ = strings.Cut(e.Message, "\n")
	switch {
	case undeclared.MatchString(e.Message):
		name := undeclared.FindStringSubmatch(e.Message)[1]
		if written := nameAt.FindString(textFrom(text, e.Line, e.Column)); written != "" {
			name = written
		}
		e.Message = fmt.Sprintf("unknown name %q", name)
		e.Hint = suggest(kind, name)
	case noField.MatchString(e.Message):
		e.Message = fmt.Sprintf("a file has no field %q", noField.FindStringSubmatch(e.Message)[1])
		e.Hint = "it has name, size and local"
	case strings.HasPrefix(e.Message, "found no matching overload") && confinementAsText.MatchString(text):
		e.Message = "pilot.confinement is compared with a text, and levels have an order"
		e.Hint = "write a level without quotes, for example pilot.confinement >= NAMESPACES; levels are " + strings.Join(task.ConfinementNames[:], " ")
	case strings.HasPrefix(e.Message, "found no matching overload"):
		e.Hint = "both sides must be of one type; sizes are whole numbers, write 1536 * MiB and not 1.5 * GiB"
	case strings.HasPrefix(e.Message, "Syntax error: "):
		e.Message = explainSyntax(strings.TrimPrefix(e.Message, "Syntax error: "))
		e.Hint = "write CEL, for example " + exampleOf[kind]
	}
	return e
}

// exampleOf is an expression of each kind.
var exampleOf = map[ExpressionKind]string{
	RequirementExpression: "pilot.memory >= 500 * MiB && \"avx2\" in pilot.features",
	RankExpression:        "pilot.core_speed - 10.0 * pilot.load",
	AcceptExpression:      "load < 0.5 && free_memory > 2 * GiB",
}

// explainSyntax says what the parser stumbles over, without its grammar.
func explainSyntax(complaint string) string {
	if found := lacking.FindStringSubmatch(complaint); found != nil {
		return found[1] + " is missing here"
	}
	found := unexpected.FindStringSubmatch(complaint)
	switch {
	case found == nil:
		return complaint
	case strings.HasSuffix(found[1], "<EOF>"):
		return "it breaks off here: a value or a bracket is missing"
	}
	return fmt.Sprintf("%q is not expected here", found[1])
}

// textFrom returns the source from a position on.
func textFrom(text string, line, column int) string {
	lines := strings.Split(text, "\n")
	if line > len(lines) {
		return ""
	}
	characters := []rune(lines[line-1])
	if column > len(characters) {
		return ""
	}
	return string(characters[column-1:])
}

// suggest names the nearest word that is known to a kind of expressions.
func suggest(kind ExpressionKind, name string) string {
	known, all := attributes, "pilot.*, task.*, files"
	if kind == RankExpression && !strings.Contains(name, ".") {
		return suggestRank(name)
	}
	if kind == AcceptExpression {
		known, all = acceptAttributes, "load, free_memory, free_disk, hour, minute, weekday, now"
	}
	words := slices.Sorted(maps.Keys(constants))
	for _, a := range known {
		words = append(words, a.name)
	}
	best := spelling.Nearest(name, words, len(name)/2)
	if best == "" {
		return "known are " + all + ", the units KiB MiB GiB TiB MB GB TB, and " + strings.Join(task.ConfinementNames[:], " ")
	}
	return "did you mean " + best + "?"
}

// rankNames are the ranks by name, as messages list them.
const rankNames = "locality, overlap, rest, combined, combined_printed (the last four also with _bytes) and dad(BETA)"

// suggestRank names the nearest rank, and all that there are.
func suggestRank(name string) string {
	names := append(slices.Collect(maps.Keys(builtins)), slices.Collect(maps.Keys(combinedForms))...)
	names = append(names, "dad")
	slices.Sort(names)
	best := spelling.Nearest(name, names, len(name)/2)
	hint := "ranks by name are " + rankNames + "; else write CEL, for example " + exampleOf[RankExpression]
	switch best {
	case "":
		return hint
	case "dad":
		best = "dad(BETA) with a number from 0 to 1"
	}
	return "did you mean " + best + "? " + strings.ToUpper(hint[:1]) + hint[1:]
}
