package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Names, reasons and the outputs of payloads come from people and nodes that the
// user of this tool does not know: a terminal must not obey what is in them.

// legible shows what a terminal would obey: control characters as ^X, and those
// that turn the direction of a line by their numbers. Line ends and tabs stay.
func legible(text string) string {
	if strings.IndexFunc(text, obeyed) < 0 && utf8.ValidString(text) {
		return text
	}
	var shown strings.Builder
	for _, r := range text {
		switch {
		case !obeyed(r):
			shown.WriteRune(r) // what is no UTF-8 as U+FFFD
		case r < ' ':
			shown.WriteString("^" + string(r+'@'))
		default:
			fmt.Fprintf(&shown, "<%U>", r)
		}
	}
	return shown.String()
}

func obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// cellText is what a table shows in one cell: it has no line ends and tabs.
func cellText(text string) string {
	return legible(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

// legibleTerminal is a terminal that shows all that is written to it. It is safe
// for use by many goroutines.
type legibleTerminal struct {
	mutex    sync.Mutex
	terminal io.Writer
	begun    []byte // of a character whose other bytes are still to come
}

func (l *legibleTerminal) Write(data []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	text := slices.Concat(l.begun, data)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				whole = start
			}
			break
		}
	}
	l.begun = slices.Clone(text[whole:])
	if _, err := io.WriteString(l.terminal, legible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(data), nil
}

// legibleOn makes what goes to a terminal legible; files and pipes get it as it is.
func legibleOn(file *os.File) io.Writer {
	if isTerminal(file) {
		return &legibleTerminal{terminal: file}
	}
	return file
}

// terminalOf is the stream itself, for progress bars.
func terminalOf(w io.Writer) io.Writer {
	if legible, ok := w.(*legibleTerminal); ok {
		return legible.terminal
	}
	return w
}
