package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecordingsThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"a.txt": "what is it?", "a.json.gz": "a.json.gz", "a.json": "a.json"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecorded(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecordedTakesFiles(t *testing.T) {
	for _, arguments := range [][]string{{"recorded"}, {"recorded", "no/such/file.json"}, {"recorded", "--seeds", "0", "a.json"}} {
		command := newCommand(io.Discard, io.Discard)
		command.SetArgs(arguments)
		if err := command.Execute(); err == nil {
			t.Errorf("%v is taken", arguments)
		}
	}
}
