package workflow

import (
	"strings"
	"testing"
)

// What golden files cannot hold, because editors and git would change it.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"NUL", header + "tasks: {a\x00: {}}", "w.yaml:4:10: control character U+0000"},
		{"escape", "name: \x1b[31m", "w.yaml:1:7: control character U+001B"},
		{"not UTF-8", "name: é\xff", "w.yaml:1:8: not UTF-8: byte 0xff"},
		{"two documents", header + "---\n" + header, "w.yaml:4:1: a second document in the file"},
		{"after the end", header + "...\nname: x", "w.yaml:5:1: a second document in the file"},
		{"directive", "%YAML 1.2\n---\n" + header, "YAML directives (%) are not allowed"},
		{"complex key", "? [a]\n: b", "a key must be a text, here is a list"},
		{"deep lists", strings.Repeat("- ", 2_000), "more than 32 maps and lists within each other"},
		{"deep brackets", strings.Repeat("[", 2_000), "more than 32 maps and lists within each other"},
		{"deep braces", strings.Repeat("{a: ", 2_000), "more than 32 maps and lists within each other"},
		{"too large", strings.Repeat(" ", MaxBytes+1), "the file has 67108865 bytes: at most 67108864 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := Parse("w.yaml", []byte(c.text))
			if err == nil {
				t.Fatalf("accepted as %+v", file)
			}
			checkErrors(t, err)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestScanStopsAtTheLimit(t *testing.T) {
	if _, err := readTree("[a, b]", 2); err != nil {
		t.Error(err)
	}
	if _, err := readTree("[a, b, c]", 2); err == nil || !strings.Contains(err.Error(), "more than 2 lines, colons") {
		t.Errorf("got %v", err)
	}
}

func TestExcerptOfLongLines(t *testing.T) {
	long := strings.Repeat("é", 200) + "X" + strings.Repeat("z", 200)
	shown, caret := excerpt(long, 201)
	if got := []rune(shown)[caret]; got != 'X' || len([]rune(shown)) > 130 {
		t.Errorf("the caret is under %q in %q", got, shown)
	}
	if shown, caret = excerpt("a\x1b\tb", 4); shown != "a  b" || caret != 3 {
		t.Errorf("%q, %d", shown, caret)
	}
}
