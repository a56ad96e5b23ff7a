package task_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

func TestParseStorageURL(t *testing.T) {
	for _, text := range []string{"file:///se", "file://localhost/se/a%20b", "http://se:8080", "https://se.example/vo/f?x=1"} {
		if _, err := task.ParseStorageURL(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "/se", "file:se", "file://se.example/f", "file:///f?x", "http:///f", "https://:443/f", "davs://se/f", "ftp://se/f",
		"https://me:secret@se/f", "https://se/f#part", "https://se/\nf", "https://se/%zz", "file:///a%00b", "HTTP//se",
	} {
		if _, err := task.ParseStorageURL(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
