package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A run as `go test -json` reports it: two packages with tests, one without,
// one that does not build.
const someRun = `{"Action":"start","Package":"m/good"}
{"Action":"run","Package":"m/good","Test":"TestA"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"    a.go:1: chatter\n"}
{"Action":"pass","Package":"m/good","Test":"TestA"}
{"Action":"run","Package":"m/good","Test":"TestB"}
{"Action":"output","Package":"m/good","Test":"TestB","Output":"    b.go:1: no such machine\n"}
{"Action":"skip","Package":"m/good","Test":"TestB"}
{"Action":"output","Package":"m/good","Output":"PASS\n"}
{"Action":"output","Package":"m/good","Output":"ok  \tm/good\t0.010s\n"}
{"Action":"pass","Package":"m/good"}
{"Action":"run","Package":"m/bad","Test":"TestC"}
{"Action":"run","Package":"m/bad","Test":"TestC/one"}
{"Action":"output","Package":"m/bad","Test":"TestC/one","Output":"    c.go:7: got 1, want 2\n"}
{"Action":"fail","Package":"m/bad","Test":"TestC/one"}
{"Action":"fail","Package":"m/bad","Test":"TestC"}
{"Action":"run","Package":"m/bad","Test":"TestHangs"}
{"Action":"output","Package":"m/bad","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"m/bad","Output":"FAIL\tm/bad\t9.000s\n"}
{"Action":"fail","Package":"m/bad"}
{"Action":"output","Package":"m/bare","Output":"?   \tm/bare\t[no test files]\n"}
{"Action":"skip","Package":"m/bare"}
{"ImportPath":"m/broken [m/broken.test]","Action":"build-output","Output":"x.go:3:1: syntax error\n"}
{"ImportPath":"m/broken [m/broken.test]","Action":"build-fail"}
{"Action":"output","Package":"m/broken","Output":"FAIL\tm/broken [build failed]\n"}
{"Action":"fail","Package":"m/broken","FailedBuild":"m/broken [m/broken.test]"}
go: a line that is not an event
`

func showSome(t *testing.T, run string) (*record, string, string) {
	t.Helper()
	var keep, out bytes.Buffer
	r, err := show(strings.NewReader(run), &keep, &out)
	if err != nil {
		t.Fatal(err)
	}
	return r, keep.String(), out.String()
}

func TestShowPrintsWhatMatters(t *testing.T) {
	_, kept, out := showSome(t, someRun)
	if kept != someRun {
		t.Error("the record differs from the events")
	}
	for _, want := range []string{
		"ok  \tm/good\t0.010s\n", "FAIL\tm/bad\t9.000s\n", "?   \tm/bare\t[no test files]\n",
		"c.go:7: got 1, want 2", "panic: test timed out", "b.go:1: no such machine",
		"x.go:3:1: syntax error", "FAIL\tm/broken [build failed]\n", "go: a line that is not an event\n",
		"\n\nTestC/one: c.go:7: got 1, want 2\n", "skipped: m/good.TestB\n", "failed: m/bad\n", "failed: m/broken\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "chatter") {
		t.Error("the output has what a passed test said")
	}
	if !strings.HasSuffix(out, "\n1 passed, 2 failed, 1 skipped\n") {
		t.Errorf("the totals are not last:\n%s", out)
	}
}

func TestRecordCountsTestsAndPackages(t *testing.T) {
	r, _, _ := showSome(t, someRun)
	if r.OK() || r.Tests() != 4 {
		t.Errorf("OK %v, %d tests; want false, 4", r.OK(), r.Tests())
	}
	if !slices.Equal(r.FailedPackages, []string{"m/bad", "m/broken"}) {
		t.Errorf("failed packages: %q", r.FailedPackages)
	}
	if r.TestsOf["m/good"] != 2 || r.TestsOf["m/bad"] != 2 || r.TestsOf["m/bare"] != 0 {
		t.Errorf("tests by package: %v", r.TestsOf)
	}
}

func TestRecordOfNothingIsNoFailure(t *testing.T) {
	r, _, out := showSome(t, "")
	if !r.OK() || !strings.Contains(out, "0 passed, 0 failed, 0 skipped") {
		t.Errorf("OK %v: %q", r.OK(), out)
	}
}
