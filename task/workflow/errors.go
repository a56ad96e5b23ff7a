package workflow

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pilotage-grid/pilotage/internal/spelling"
)

// Position is a place in a workflow file. Line and Column count from 1, the
// column in characters; a zero Line means that the place is not known.
type Position struct {
	Line   int
	Column int
}

// Error is one thing that is wrong with a workflow.
type Error struct {
	File    string // as given to Parse; "" for a task from the command line
	At      Position
	Message string // names the task and the thing
	Hint    string // what to do; may be empty
	excerpt string // the line of the file, made printable
	caret   int    // characters before the place in excerpt
}

// Error gives "file:line:column: message", the line with a caret below the
// place, and the hint, each on a line of its own.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
		if e.At.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", e.At.Line, e.At.Column)
		}
		b.WriteByte(' ')
	}
	b.WriteString(e.Message)
	if e.excerpt != "" {
		fmt.Fprintf(&b, "\n%6d | %s\n       | %s^", e.At.Line, e.excerpt, strings.Repeat(" ", e.caret))
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// maxErrors is how many errors one call reports; a person mends a few at a time.
const maxErrors = 20

// Errors are all that is wrong with a workflow, at most 20 of them, in the
// order of the file as far as they were found in one pass.
type Errors struct {
	List []*Error
	More int // further ones that were found and left out
}

// Error joins the errors by line breaks.
func (e *Errors) Error() string {
	texts := make([]string, 0, len(e.List)+1)
	for _, one := range e.List {
		texts = append(texts, one.Error())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("... and %d more", e.More))
	}
	return strings.Join(texts, "\n")
}

// Unwrap lets errors.As find each *Error.
func (e *Errors) Unwrap() []error {
	list := make([]error, len(e.List))
	for i, one := range e.List {
		list[i] = one
	}
	return list
}

// faults collects errors.
type faults struct {
	file   string
	source string
	found  Errors
}

func (f *faults) add(at Position, hint, format string, args ...any) {
	if f.full() {
		f.found.More++
		return
	}
	fault := &Error{File: f.file, At: at, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at.Line > 0 {
		fault.excerpt, fault.caret = excerpt(line(f.source, at.Line), at.Column)
	}
	f.found.List = append(f.found.List, fault)
}

func (f *faults) full() bool { return len(f.found.List) >= maxErrors }

func (f *faults) any() bool { return len(f.found.List) > 0 }

func (f *faults) err() error {
	if !f.any() {
		return nil
	}
	return &f.found
}

// line returns a line of the text by its number from 1.
func line(text string, number int) string {
	for ; number > 1; number-- {
		_, rest, found := strings.Cut(text, "\n")
		if !found {
			return ""
		}
		text = rest
	}
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(text, "\r")
}

const (
	excerptBefore = 70 // characters shown before the place
	excerptAfter  = 50 // and from it on
)

// excerpt cuts the part of a line around a column and makes it printable.
// caret is how many characters of it stand before the place.
func excerpt(text string, column int) (shown string, caret int) {
	first, last := column-excerptBefore, column+excerptAfter // columns to show
	if first < 1 {
		first, last = 1, 1+excerptBefore+excerptAfter
	}
	var b strings.Builder
	caret, position := 0, 0
	for _, r := range text {
		if position++; position < first {
			continue
		}
		if position == last {
			b.WriteString("...")
			break
		}
		if position < column {
			caret++
		}
		b.WriteRune(printable(r))
	}
	shown = strings.TrimRight(b.String(), " ")
	if first > 1 {
		return "..." + shown, caret + len("...")
	}
	return shown, caret
}

func printable(r rune) rune {
	switch {
	case r == utf8.RuneError:
		return '?'
	case unicode.IsPrint(r):
		return r
	default:
		return ' '
	}
}

// didYouMean is the hint for a wrong word; otherwise is used when no known
// word is near: a third of it may differ.
func didYouMean(word string, known []string, otherwise string) string {
	if near := spelling.Nearest(word, known, len(word)/3); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}
