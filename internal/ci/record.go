package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json` (see `go doc cmd/test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string // empty for events of the package as a whole
	Output     string
}

// record is what a run of the tests came to.
type record struct {
	Passed, Failed, Skipped int
	SkippedTests            []string       // "package.Test", sorted
	TestsOf                 map[string]int // by package; zero where none ran
	FailedPackages          []string       // also those that did not build, sorted
}

// Tests is the number of tests and subtests that ended.
func (r *record) Tests() int { return r.Passed + r.Failed + r.Skipped }

// Totals is the last line of a run.
func (r *record) Totals() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
}

// OK tells whether everything built and no test failed.
func (r *record) OK() bool { return r.Failed == 0 && len(r.FailedPackages) == 0 }

func newRecord() *record { return &record{TestsOf: map[string]int{}} }

func (r *record) add(e event) {
	ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	switch {
	case e.Action == "build-fail":
		r.fail(e.ImportPath)
	case !ended:
	case e.Test == "":
		r.TestsOf[e.Package] += 0
		if e.Action == "fail" {
			r.fail(e.Package)
		}
	default:
		r.TestsOf[e.Package]++
		switch e.Action {
		case "pass":
			r.Passed++
		case "fail":
			r.Failed++
		case "skip":
			r.Skipped++
			r.SkippedTests = insert(r.SkippedTests, e.Package+"."+e.Test)
		}
	}
}

func (r *record) fail(importPath string) {
	// A test variant is written "path [path.test]".
	path, _, _ := strings.Cut(importPath, " ")
	r.FailedPackages = insert(r.FailedPackages, path)
}

// insert keeps a list sorted and without repetition.
func insert(list []string, entry string) []string {
	at, found := slices.BinarySearch(list, entry)
	if found {
		return list
	}
	return slices.Insert(list, at, entry)
}

// readEvents calls use for every event of the stream, and other for every
// line that is not one (the go command prints some errors as plain text).
func readEvents(stream io.Reader, use func(event), other func(line string)) error {
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				use(e)
			} else {
				other(line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the test events: %w", err)
		}
	}
}
