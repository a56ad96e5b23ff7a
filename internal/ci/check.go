package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// exemptions maps a package, relative to the module, to the reason why it has
// no tests of its own.
type exemptions map[string]string

// String and Set make exemptions a repeatable flag of the form "PACKAGE: REASON".
func (e exemptions) String() string { return fmt.Sprint(len(e)) }

// Set adds one exemption.
func (e exemptions) Set(text string) error {
	pkg, reason, found := strings.Cut(text, ":")
	if reason = strings.TrimSpace(reason); !found || reason == "" {
		return fmt.Errorf("%q has no reason: write PACKAGE: REASON", text)
	}
	e[strings.TrimSpace(pkg)] = reason
	return nil
}

// check returns one sentence per broken rule: a failed or skipped test, a
// package without tests, an exemption that is no longer needed, fewer tests
// than recorded.
func check(r *record, recorded int, untested exemptions) []string {
	var broken []string
	if r.Tests() == 0 {
		broken = append(broken, "no test ran")
	}
	for _, name := range r.FailedPackages {
		broken = append(broken, name+" failed")
	}
	for _, name := range r.SkippedTests {
		broken = append(broken, name+" was skipped: a test that does not run proves nothing")
	}
	for _, pkg := range slices.Sorted(maps.Keys(r.TestsOf)) {
		_, exempt := untested[relative(pkg)]
		switch tests := r.TestsOf[pkg]; {
		case tests == 0 && !exempt:
			broken = append(broken, pkg+" has no tests: write some, or give the reason in .ci/run")
		case tests > 0 && exempt:
			broken = append(broken, pkg+" has tests now: take it off the list in .ci/run")
		}
	}
	if r.Tests() < recorded {
		broken = append(broken, fmt.Sprintf("%d tests ran, %d are recorded in .ci/test-count: "+
			"bring them back, or run make test-count and say in CHANGELOG.md why there are fewer", r.Tests(), recorded))
	}
	return broken
}

const module = "github.com/pilotage-grid/pilotage"

// relative strips the module from a package path.
func relative(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
}

// parseCount reads the content of .ci/test-count.
func parseCount(text string) (int, error) {
	count, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || count < 0 {
		return 0, fmt.Errorf("%q is not a number of tests", text)
	}
	return count, nil
}
