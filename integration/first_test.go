package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneQueueOnePilotOneCommand(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilot("siteA")
	out := g.must("submit", "--wait", "--", "/bin/true")
	if !strings.Contains(out, "DONE") {
		t.Errorf("output of submit --wait: %s", out)
	}
}

func TestOutputsComeBack(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilot("siteA")
	input := filepath.Join(g.dir, "in.txt")
	if err := os.WriteFile(input, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := g.workflow("count", `
files:
  in.txt: {source: ./in.txt}
tasks:
  sort: {inputs: [in.txt], shell: "sort in.txt > sorted.txt", outputs: [sorted.txt]}
  count: {inputs: [sorted.txt], shell: "wc -l < sorted.txt | tr -d ' ' > count.txt", outputs: [count.txt]}
outputs: [count.txt, sorted.txt]
`)
	g.must("submit", "-f", path, "--upload", "--wait")
	g.must("workflow", "outputs", "count", "--to", filepath.Join(g.dir, "out"))
	for name, want := range map[string]string{"count.txt": "3\n", "sorted.txt": "one\nthree\ntwo\n"} {
		got, err := os.ReadFile(filepath.Join(g.dir, "out", name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestChainOverFourPilots(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilots("siteA", "siteA", "siteA", "siteA")
	path := g.workflow("fan", `
tasks:
  make:
    shell: "seq 1 20 > numbers.txt"
    outputs: [numbers.txt]
  square:
    foreach: {i: "{01..20}"}
    inputs: [numbers.txt]
    shell: "sed -n '{i}p' numbers.txt | awk '{print $1*$1}' > sq.{i}"
    outputs: ["sq.{i}"]
  sum:
    inputs: ["sq.{01..20}"]
    shell: "cat sq.* | awk '{s+=$1} END {print s}' > sum.txt"
    outputs: [sum.txt]
outputs: [sum.txt]
`)
	g.must("submit", "-f", path, "--wait")
	g.must("workflow", "outputs", "fan", "--to", filepath.Join(g.dir, "out"))
	if got, err := os.ReadFile(filepath.Join(g.dir, "out", "sum.txt")); err != nil || string(got) != "2870\n" {
		t.Errorf("sum is %q, %v; want 2870", got, err)
	}
}
