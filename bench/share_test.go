package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that would keep a processor busy uses the share that it was given.
func TestLimitGivesAShareOfAProcessor(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nwhile :; do :; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := startProcess("daemon", filepath.Join(t.TempDir(), "log"), program)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	end := p.limit(t.Context(), 0.1)
	before, err := p.processorTime()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pause(t.Context(), 500*time.Millisecond)
	after, _ := p.processorTime()
	if most := time.Duration(0.1*float64(time.Since(began))) + 5*shareAhead; after-before > most {
		t.Errorf("it used %s in %s", after-before, time.Since(began))
	}
	end()
	for again := after; again <= after; { // it goes on
		pause(t.Context(), time.Millisecond)
		if again, err = p.processorTime(); err != nil {
			t.Fatal(err)
		}
	}
}
