package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// shower prints a run as `go test` without -v does: the line of each package,
// and the output of tests that failed or were skipped.
type shower struct {
	out  io.Writer
	held map[testName]*strings.Builder // output of tests that have not ended
}

type testName struct{ pkg, test string }

func newShower(out io.Writer) *shower {
	return &shower{out: out, held: map[testName]*strings.Builder{}}
}

func (s *shower) add(e event) {
	name := testName{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		s.print(e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			s.print(e.Output)
		}
	case e.Action == "output":
		if s.held[name] == nil {
			s.held[name] = new(strings.Builder)
		}
		s.held[name].WriteString(e.Output)
	case e.Test == "" && e.Action == "fail":
		s.release(e.Package)
	case e.Action == "fail" || e.Action == "skip":
		s.releaseTest(name)
	case e.Action == "pass":
		delete(s.held, name)
	}
}

// release prints what tests of a package had said that never ended: the
// package panicked or ran into its time limit.
func (s *shower) release(pkg string) {
	names := slices.SortedFunc(maps.Keys(s.held), func(a, b testName) int {
		return strings.Compare(a.test, b.test)
	})
	for _, name := range names {
		if name.pkg == pkg {
			s.releaseTest(name)
		}
	}
}

func (s *shower) releaseTest(name testName) {
	if text := s.held[name]; text != nil {
		s.print(text.String())
		delete(s.held, name)
	}
}

func (s *shower) print(text string) {
	// A terminal that went away is no reason to fail the tests.
	_, _ = fmt.Fprint(s.out, text)
}

// show copies the events to keep and prints them; it returns what they came to.
func show(events io.Reader, keep, out io.Writer) (*record, error) {
	summary, printer := newRecord(), newShower(out)
	err := readEvents(io.TeeReader(events, keep), func(e event) {
		summary.add(e)
		printer.add(e)
	}, printer.print)
	if err != nil {
		return nil, err
	}
	printer.print("\n")
	for _, name := range summary.SkippedTests {
		printer.print("skipped: " + name + "\n")
	}
	for _, name := range summary.FailedPackages {
		printer.print("failed: " + name + "\n")
	}
	printer.print(summary.Totals() + "\n")
	return summary, nil
}
