package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// TestTerminalsObeyNoPayload: what others have written is shown, whole or byte by
// byte, and tables keep their lines.
func TestTerminalsObeyNoPayload(t *testing.T) {
	for written, want := range map[string]string{
		"plain ä\tline\n":               "plain ä\tline\n",
		"\x1b]0;title\a\x1b[2Jcleared":  "^[]0;title^G^[[2Jcleared",
		"over\rwritten \x7f\x00":        "over^Mwritten <U+007F>^@",
		"\u009b31m \u202egnp.exe\u2066": "<U+009B>31m <U+202E>gnp.exe<U+2066>",
		"no \xff UTF-8 \xc3(":           "no \uFFFD UTF-8 \uFFFD(",
	} {
		var whole, parts bytes.Buffer
		_, err := io.WriteString(&legibleTerminal{terminal: &whole}, written)
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{&legibleTerminal{terminal: &parts}}, iotest.OneByteReader(strings.NewReader(written)), make([]byte, 1))
		}
		if err != nil || whole.String() != want || parts.String() != want {
			t.Errorf("%q is shown as %q and %q, %v; want %q", written, whole.String(), parts.String(), err, want)
		}
	}
	var table bytes.Buffer
	a := &app{out: &console{stdout: &table, output: "table"}}
	if err := a.out.table([]string{"NAME", "REASON"}, [][]string{{"a\x1b[1A", "two\nlines\tand \u009b2J"}}); err != nil {
		t.Fatal(err)
	}
	if shown := table.String(); strings.Count(shown, "\n") != 2 || strings.ContainsFunc(strings.ReplaceAll(shown, "\n", ""), obeyed) {
		t.Errorf("the table is %q", shown)
	}
}

// TestStreamsOfTheToolAreLegible on a terminal only.
func TestStreamsOfTheToolAreLegible(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if w := legibleOn(terminal); terminalOf(w) != io.Writer(terminal) || w == io.Writer(terminal) || !isTerminal(w) {
		t.Errorf("a terminal is written to by %T", w)
	}
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if w := legibleOn(file); w != io.Writer(file) || isTerminal(w) {
		t.Errorf("a file is written to by %T", w)
	}
}
