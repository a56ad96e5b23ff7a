package workflow

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// Limits on what a file may hold before it is understood.
const (
	MaxBytes  = 64 << 20  // of YAML
	maxTokens = 4_000_000 // YAML words and signs; bounds memory at some 300 MB
	maxDepth  = 32        // of maps and lists within each other; the format needs 4
)

// word is a YAML token without the library's links and copies of the source,
// which would keep every token of a large file alive.
type word struct {
	kind token.Type
	at   Position
	text string
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

// refused are parts of YAML that a workflow does not need. Anchors and aliases
// are the ones that let a small file unfold into a huge one.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors (&name) are not allowed",
	token.AliasType:      "aliases (*name) are not allowed",
	token.MergeKeyType:   "merge keys (<<) are not allowed",
	token.TagType:        "tags (!name) are not allowed",
	token.MappingKeyType: "complex keys (? key) are not allowed",
	token.DirectiveType:  "YAML directives (%) are not allowed",
}

// scan splits YAML into words, at most so many.
func scan(text string, most int) ([]word, error) {
	if err := checkCharacters(text); err != nil {
		return nil, err
	}
	var s scanner.Scanner
	s.Init(strings.TrimPrefix(text, "\ufeff"))
	var words []word
	for {
		tokens, err := s.Scan()
		for _, t := range tokens {
			at := Position{Line: t.Position.Line, Column: t.Position.Column}
			switch {
			case t.Type == token.CommentType:
				continue
			case t.Type == token.InvalidType && strings.Contains(t.Error, "\t"):
				return nil, syntaxAt(at, "indent with spaces", "a tab cannot indent YAML")
			case t.Type == token.InvalidType:
				return nil, syntaxAt(at, "check that quotes are closed, and quote text that holds special characters", "not YAML: %s", t.Error)
			case refused[t.Type] != "":
				return nil, syntaxAt(at, "write the value out, or quote it if it is meant as text", "%s", refused[t.Type])
			case len(words) == most:
				return nil, syntaxAt(at, "describe tasks that look alike once, with foreach",
					"more than %d YAML words and signs", most)
			}
			words = append(words, word{t.Type, at, t.Value})
		}
		if errors.Is(err, io.EOF) {
			return words, nil
		}
		if err != nil {
			last := Position{Line: 1, Column: 1}
			if len(words) > 0 {
				last = words[len(words)-1].at
			}
			return nil, syntaxAt(last, "", "not YAML: %v", err)
		}
	}
}

// checkCharacters refuses what no text file holds.
func checkCharacters(text string) error {
	at := Position{Line: 1, Column: 1}
	for offset, r := range text {
		switch {
		case r == '\n':
			at.Line, at.Column = at.Line+1, 0
		case r == '\t' || r == '\r':
		case r < ' ' || r == 0x7f:
			return syntaxAt(at, "remove it: workflow files are plain UTF-8 text", "control character %U", r)
		case r == utf8.RuneError && strings.HasPrefix(text[offset:], "\ufffd"):
		case r == utf8.RuneError:
			return syntaxAt(at, "save the file as UTF-8", "not UTF-8: byte 0x%02x", text[offset])
		}
		at.Column++
	}
	return nil
}
