package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell reads the words that were written.
func TestAShellReadsTheWords(t *testing.T) {
	words := []string{"plain", "", "two words", "it's", `a"b`, "$HOME", "*", "a;b", "new\nline", "-n", "é", "a%b"}
	out, err := exec.Command("/bin/sh", "-c", `printf '%s\000' `+Join(words)).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
		t.Errorf("%q, %v; want %q", got, err, words)
	}
	if got := Quote("/usr/bin/env"); got != "/usr/bin/env" {
		t.Errorf("%s is in quotes without need", got)
	}
}
