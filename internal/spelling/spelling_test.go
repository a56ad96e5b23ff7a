package spelling_test

import (
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/internal/spelling"
)

func TestNearest(t *testing.T) {
	known := []string{"inputs", "outputs", "shell", "require"}
	for word, want := range map[string]string{
		"input": "inputs", "Inputs": "inputs", "requires": "require", "shlel": "shell", "x": "", "argv": "", "": "",
		strings.Repeat("shell", 100): "",
	} {
		if got := spelling.Nearest(word, known, len(word)/3); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
	for edits, want := range []string{"", "", "inputs", "inputs"} {
		if got := spelling.Nearest("unputz", known, edits); got != want {
			t.Errorf("within %d edits %q, want %q", edits, got, want)
		}
	}
}
