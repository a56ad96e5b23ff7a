package integration

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// Inputs made at two sites can meet: files pinned to siteA and siteB are
// merged anywhere, and what is read from the other site's storage element is
// counted apart. The same grid then splits and merges over all pilots.
func TestTwoSites(t *testing.T) {
	t.Parallel()
	g := twoSites(t)
	t.Run("files made at A and at B are merged", func(t *testing.T) { mergesAcrossSites(g.in(t)) })
	t.Run("split and merge", func(t *testing.T) { splitsAndMerges(g.in(t)) })
	t.Run("the examples of the documents", func(t *testing.T) { examples(g.in(t)) })
}

func mergesAcrossSites(g *grid) {
	id := g.submitted("meeting", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  left:  {shell: 'echo "made at $PILOTAGE_SITE" > left',  outputs: [left],  require: 'pilot.site == "siteA"'}
  right: {shell: 'echo "made at $PILOTAGE_SITE" > right', outputs: [right], require: 'pilot.site == "siteB"'}
  merge: {shell: 'cat left right > both', inputs: [left, right], outputs: [both]}
outputs: [both]
`)
	g.done(id)
	if got, want := g.output(id, "both"), "made at siteA\nmade at siteB\n"; got != want {
		g.t.Errorf("merged %q, want %q", got, want)
	}
	remote := uint64(0)
	for _, site := range []string{"siteA", "siteB"} {
		var shown struct {
			Intermediate struct {
				RemoteReads uint64 `json:"remote_reads"`
				RemoteBytes uint64 `json:"remote_bytes"`
			} `json:"intermediate"`
		}
		g.read(&shown, "site", "show", site)
		remote += shown.Intermediate.RemoteReads
		if shown.Intermediate.RemoteReads > 0 && shown.Intermediate.RemoteBytes != 14 {
			g.t.Errorf("%s read %d bytes from afar, want 14", site, shown.Intermediate.RemoteBytes)
		}
	}
	if remote != 1 {
		g.t.Errorf("%d remote reads, want 1", remote)
	}
	for task, site := range map[string]string{"left": "siteA", "right": "siteB"} {
		if got := g.task(id + "/" + task).GetSite(); got != site {
			g.t.Errorf("%s ran at %s, want %s", task, got, site)
		}
	}
}

// splitsAndMerges pins a quarter of the parts to each site, so that both work
// whatever the machine does, and leaves the others to the queue.
func splitsAndMerges(g *grid) {
	work := func(name, parts, site string) string {
		return fmt.Sprintf(`
  %s:
    foreach: {p: "%s"}
    require: 'pilot.site.startsWith("%s")'
    inputs: {"part.{p}": in}
    shell: "awk '{s += $1} END {print s}' in > out"
    outputs: {"sum.{p}": out}`, name, parts, site)
	}
	id := g.submitted("spread", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  split:
    shell: |
      seq 1 400 | awk '{print > sprintf("part.%02d", NR % 16)}'
    outputs: ["part.{00..15}"]`+work("left", "{00..03}", "siteA")+work("right", "{04..07}", "siteB")+work("free", "{08..15}", "site")+`
  half:
    foreach: {h: "{0..1}"}
    inputs: ["sum.{h}{0..5}"]
    shell: "cat sum.{h}* | awk '{s += $1} END {print s}' > half.{h}"
    outputs: ["half.{h}"]
  rest:
    inputs: ["sum.{06..09}"]
    shell: "cat sum.0[6-9] | awk '{s += $1} END {print s}' > rest"
    outputs: [rest]
  total:
    inputs: ["half.{0..1}", rest]
    shell: "cat half.* rest | awk '{s += $1} END {print s}' > total"
    outputs: [total]
outputs: [total]
`)
	g.done(id)
	if got := g.output(id, "total"); got != "80200\n" {
		g.t.Errorf("the sum of 1 to 400 is %q", got)
	}
	for task, site := range map[string]string{"left[00]": "siteA", "left[03]": "siteA", "right[04]": "siteB", "right[07]": "siteB"} {
		if got := g.task(id + "/" + task).GetSite(); got != site {
			g.t.Errorf("%s ran at %s, want %s", task, got, site)
		}
	}
}

// examples runs examples/workflows as their first lines say.
func examples(g *grid) {
	t := g.t
	for name, command := range map[string][]string{
		"chain": {"--upload"}, "splitting": {"--upload"}, "merging": nil,
	} {
		file := filepath.Join("..", "examples", "workflows", name+".yaml")
		g.must(append([]string{"submit", "-f", file, "--dry-run"}, command...)...)
		g.must(append([]string{"submit", "-f", file, "--wait"}, command...)...)
	}
	primes := strings.Fields(g.output("primes", "primes.txt"))
	if len(primes) != 46 || primes[0] != "2" || primes[45] != "199" {
		t.Errorf("the primes below 200 are %v", primes)
	}
	words := 0
	for line := range strings.Lines(g.output("word-count", "counts.tsv")) {
		_, count, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		words += n
	}
	text := readFile(t, filepath.Join("..", "examples", "workflows", "data", "lines.txt"))
	if want := len(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })); words != want {
		t.Errorf("%d words counted, want %d", words, want)
	}
	if got := g.output("longest-lines", "longest.03.txt"); !strings.HasPrefix(got, "03 ") {
		t.Errorf("the longest line of part 03 is %q", got)
	}
}
