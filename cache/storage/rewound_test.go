package storage

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestRewoundCutsOffOldTries: a transport that still reads for a try that was
// given up must not take bytes from the next one.
func TestRewoundCutsOffOldTries(t *testing.T) {
	source := &rewound{content: strings.NewReader("..hello"), start: 2, size: 5}
	old, err := source.open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(old, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	current, err := source.open()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := old.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errGivenUp) {
		t.Errorf("the old try read %d bytes, %v", n, err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if data, err := io.ReadAll(current); string(data) != "hello" || err != nil {
		t.Errorf("the new try read %q, %v", data, err)
	}
	source.stop()
	if _, err := current.Read(make([]byte, 1)); !errors.Is(err, errGivenUp) {
		t.Errorf("after the end of the call: %v", err)
	}
}
