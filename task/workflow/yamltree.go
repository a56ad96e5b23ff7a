package workflow

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits on what a file may hold before it is understood.
const (
	MaxBytes = 64 << 20  // of YAML
	maxSigns = 3_000_000 // line ends and : , [ { together; bounds memory at some 1 GB
	maxDepth = 32        // of maps and lists within each other; the format needs 4
)

type nodeKind uint8

const (
	emptyNode nodeKind = iota // null, or nothing written
	textNode                  // any scalar, as it was written
	mapNode
	listNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a map", "a list"}[k]
}

// kindOf is what a piece of YAML is, for people.
func kindOf(n *yaml.Node) nodeKind {
	switch {
	case n.Kind == yaml.MappingNode:
		return mapNode
	case n.Kind == yaml.SequenceNode:
		return listNode
	case n.Tag == "!!null":
		return emptyNode
	}
	return textNode
}

func placeOf(n *yaml.Node) Position { return Position{Line: n.Line, Column: n.Column} }

// inBraces tells whether a map or list is written in braces or brackets.
func inBraces(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// entries are the keys and values of a map.
func entries(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content) && yield(n.Content[i], n.Content[i+1]); i += 2 {
		}
	}
}

// syntaxError is the first thing that is not YAML; nothing after it can be trusted.
type syntaxError struct {
	at            Position
	message, hint string
}

func (e *syntaxError) Error() string { return e.message }

func syntaxAt(at Position, hint, format string, args ...any) *syntaxError {
	return &syntaxError{at: at, message: fmt.Sprintf(format, args...), hint: hint}
}

// readTree reads the one document of a file. The library makes the tree; what of
// YAML a workflow does not need is refused.
func readTree(text string, most int) (*yaml.Node, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	if err := checkCharacters(text, most); err != nil {
		return nil, err
	}
	loader, err := yaml.NewLoader(strings.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, err
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}, nil
	} else if err != nil {
		return nil, notYAML(text, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, syntaxAt(placeOf(&second), "put each workflow into a file of its own", "a second document in the file")
	} else if !errors.Is(err, io.EOF) {
		return nil, notYAML(text, err)
	}
	return document.Content[0], check(document.Content[0])
}

// check refuses what a workflow does not need, and keys that occur twice.
func check(n *yaml.Node) error {
	if err := refused(n); err != nil {
		return err
	}
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]Position)
		for key := range entries(n) {
			switch first, double := seen[key.Value]; {
			case key.Kind == yaml.MappingNode || key.Kind == yaml.SequenceNode:
				return syntaxAt(placeOf(key), "write a text before the colon, and quote names with braces", "a key must be a text, here is %s", kindOf(key))
			case double:
				return syntaxAt(placeOf(key), "remove or rename one of the two", "key %q is already given at line %d", shorten(key.Value), first.Line)
			}
			seen[key.Value] = placeOf(key)
		}
	}
	for _, content := range n.Content {
		if err := check(content); err != nil {
			return err
		}
	}
	return nil
}

// refused are parts of YAML that a workflow does not need. Anchors and aliases
// are the ones that let a small file unfold into a huge one.
func refused(n *yaml.Node) error {
	what := ""
	switch {
	case n.Kind == yaml.AliasNode:
		what = "aliases (*name) are not allowed"
	case n.Anchor != "":
		what = "anchors (&name) are not allowed"
	case n.Style&yaml.TaggedStyle != 0:
		what = "tags (!name) are not allowed"
	case n.Kind == yaml.ScalarNode && n.Value == "<<" && n.Style == 0:
		what = "merge keys (<<) are not allowed"
	default:
		return nil
	}
	return syntaxAt(placeOf(n), "write the value out, or quote it if it is meant as text", "%s", what)
}

// mistakes are what the library finds, by its words, and what to do. Those that are
// unfinished are found behind their place: they are shown where they begin.
var mistakes = []struct {
	found, message, hint string
	unfinished           bool
}{
	{"mapping values are not allowed", "a second colon in one line", "quote the text, or begin a map on the next line", false},
	{"expected ':'", "a key without a colon", `write "key: value"`, true},
	{"expected ',' or", "brackets or braces that are broken here, or never closed", `close them, and quote names with braces: "part.{00..19}.fa"`, true},
	{"expected key", "a key is expected here", "check the indentation, and quote text that holds : # { } [ ] or ,", false},
	{"cannot start any token", "no value can begin so", "quote text that begins with a sign", false},
	{"sequence entries are not allowed", "a list cannot begin behind a colon", "begin the list on the next line, or write [a, b]", false},
	{"end of stream", "this is never closed", "close the quotes, and quote text that holds special characters", true},
	{"max depth", fmt.Sprintf("more than %d maps and lists within each other", maxDepth), "a workflow needs 4 levels", false},
	{"incompatible YAML", "YAML directives (%) are not allowed", "remove the line", false},
}

// notYAML puts an error of the library into words for people.
func notYAML(text string, err error) error {
	var found *yaml.LoadError
	if !errors.As(err, &found) {
		return fmt.Errorf("read YAML: %w", err)
	}
	at := Position{Line: found.Mark.Line, Column: max(1, found.Mark.Column)}
	if here := []rune(line(text, at.Line)); at.Column <= len(here) && here[at.Column-1] == '\t' {
		return syntaxAt(at, "indent with spaces", "a tab cannot indent YAML")
	}
	for _, mistake := range mistakes {
		if strings.Contains(found.Message, mistake.found) {
			if begun := found.ContextMark; mistake.unfinished && begun.Line > 0 && begun.Line < at.Line {
				at = Position{Line: begun.Line, Column: begun.Column}
			}
			return syntaxAt(at, mistake.hint, "%s", mistake.message)
		}
	}
	return syntaxAt(at, "check the indentation, and quote text that holds : # { } [ ] or ,", "not YAML: %s", found.Message)
}

// checkCharacters refuses what no text file holds, and more signs than so many.
func checkCharacters(text string, most int) error {
	at, signs := Position{Line: 1, Column: 1}, 0
	for offset, r := range text {
		switch {
		case r == '\n':
			at.Line, at.Column = at.Line+1, 0
			signs++
		case r == ':' || r == ',' || r == '[' || r == '{' || r == '-' && strings.HasPrefix(text[offset:], "- "):
			signs++
		case r == '\t' || r == '\r':
		case r < ' ' || r == 0x7f:
			return syntaxAt(at, "remove it: workflow files are plain UTF-8 text", "control character %U", r)
		case r == utf8.RuneError && strings.HasPrefix(text[offset:], "\ufffd"):
		case r == utf8.RuneError:
			return syntaxAt(at, "save the file as UTF-8", "not UTF-8: byte 0x%02x", text[offset])
		}
		if at.Column++; signs > most {
			return syntaxAt(at, "describe tasks that look alike once, with foreach", "more than %d lines, colons, commas and brackets", most)
		}
	}
	return nil
}

// shorten cuts a text for use in a message.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%.*s...", most, text)
}
