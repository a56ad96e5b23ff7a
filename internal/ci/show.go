package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shower prints a run as `go test` without -v does: the line of each package,
// and the output of tests that failed or were skipped.
type shower struct {
	out        io.Writer
	held       map[testName]*strings.Builder // output of tests that have not ended
	complaints []string                      // of tests that failed, a few of each
}

// mostComplaints bounds those of one test that are repeated at the end of a run.
const mostComplaints = 8

// complaint is a line by which a test says something from a line of its source.
var complaint = regexp.MustCompile(`(?m)^ +(\w+\.go:\d+: .*)$`)

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
	case e.Action == "fail":
		s.complain(name)
		s.releaseTest(name)
	case e.Action == "skip":
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

// complain notes what a failed test has said: its output may be long, and the first lines
// tell most.
func (s *shower) complain(name testName) {
	text := s.held[name]
	if text == nil {
		return
	}
	for _, line := range complaint.FindAllStringSubmatch(text.String(), mostComplaints) {
		s.complaints = append(s.complaints, name.test+": "+line[1])
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
	for _, line := range printer.complaints {
		printer.print(line + "\n")
	}
	for _, name := range summary.SkippedTests {
		printer.print("skipped: " + name + "\n")
	}
	for _, name := range summary.FailedPackages {
		printer.print("failed: " + name + "\n")
	}
	printer.print(summary.Totals() + "\n")
	return summary, nil
}
