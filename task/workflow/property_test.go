package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	tree "go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// piece is a part of a text to expand, and what it stands for.
type piece struct {
	written string
	values  func(variables map[string]string) []string
}

func drawPiece(t *rapid.T, variables []string) piece {
	kinds := []string{"text", "range", "brace"}
	if len(variables) > 0 {
		kinds = append(kinds, "variable")
	}
	constant := func(texts ...string) func(map[string]string) []string {
		return func(map[string]string) []string { return texts }
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "range":
		low := rapid.IntRange(0, 120).Draw(t, "low")
		high := low + rapid.IntRange(0, 12).Draw(t, "length")
		width := rapid.IntRange(1, 4).Draw(t, "width")
		from := fmt.Sprintf("%0*d", width, low)
		to := strconv.Itoa(high)
		pad := 1
		if len(from) > 1 && from[0] == '0' {
			pad = max(len(from), len(to))
		}
		var texts []string
		for n := low; n <= high; n++ {
			texts = append(texts, fmt.Sprintf("%0*d", pad, n))
		}
		return piece{"{" + from + ".." + to + "}", constant(texts...)}
	case "brace":
		brace := rapid.SampledFrom([]string{"{", "}"}).Draw(t, "brace")
		return piece{brace + brace, constant(brace)}
	case "variable":
		name := rapid.SampledFrom(variables).Draw(t, "variable")
		return piece{"{" + name + "}", func(values map[string]string) []string { return []string{values[name]} }}
	}
	text := rapid.StringMatching(`[a-z./-]{0,4}`).Draw(t, "text")
	return piece{text, constant(text)}
}

// naive multiplies lists out one after the other.
func naive(pieces []piece, values map[string]string) []string {
	texts := []string{""}
	for _, p := range pieces {
		var longer []string
		for _, text := range texts {
			for _, value := range p.values(values) {
				longer = append(longer, text+value)
			}
		}
		texts = longer
	}
	return texts
}

func TestExpansionAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		variables := []string{"p", "sample", "q_1"}
		values := []string{"07", "{p}", "x"}
		byName := map[string]string{"p": "07", "sample": "{p}", "q_1": "x"}
		pieces := make([]piece, rapid.IntRange(0, 5).Draw(t, "pieces"))
		written := ""
		for i := range pieces {
			pieces[i] = drawPiece(t, variables)
			written += pieces[i].written
		}
		want := naive(pieces, byName)
		p, err := parsePattern(written, variables, inNames)
		if err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		got := p.expand(values)
		if !slices.Equal(got, want) {
			t.Fatalf("%q gives %q, want %q", written, got, want)
		}
		if p.count() != uint64(len(want)) {
			t.Fatalf("%q: count %d, want %d", written, p.count(), len(want))
		}
		for _, text := range got {
			if limit := p.longest([]int{2, 3, 1}); uint64(len(text)) > limit {
				t.Fatalf("%q: %q is longer than %d", written, text, limit)
			}
		}
	})
}

// Text without a known variable and without a range is what a command gets,
// byte for byte.
func TestCommandsKeepTheirBraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[{}$a-c ."']{0,30}`).Draw(t, "text")
		p, err := parsePattern(text, []string{"other"}, inCommands)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.expand([]string{"!"}); len(got) != 1 || got[0] != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// drawValue makes YAML as people write it, in block and flow style.
func drawValue(t *rapid.T, depth int, flow bool, indent string) string {
	scalars := []string{"x", "a b", "'q: r'", `"d\n{0..3}"`, "007", "1.5", "true", "x#y", "-x", "/p/q", "~", "null", "''"}
	if depth == 0 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	kind := rapid.SampledFrom([]string{"scalar", "map", "list", "flow map", "flow list", "text"}).Draw(t, "kind")
	if flow && (kind == "map" || kind == "list" || kind == "text") {
		kind = "flow " + strings.Replace(kind, "text", "list", 1)
	}
	size := rapid.IntRange(1, 3).Draw(t, "size")
	var b strings.Builder
	switch kind {
	case "map":
		for i := range size {
			fmt.Fprintf(&b, "\n%sk%d: %s", indent, i, drawValue(t, depth-1, false, indent+"  "))
		}
		return b.String()
	case "list":
		for range size {
			fmt.Fprintf(&b, "\n%s- %s", indent, drawValue(t, depth-1, false, indent+"  "))
		}
		return b.String()
	case "flow map":
		for i := range size {
			fmt.Fprintf(&b, "k%d: %s, ", i, drawValue(t, depth-1, true, ""))
		}
		return "{" + strings.TrimSuffix(b.String(), ", ") + "}"
	case "flow list":
		for range size {
			fmt.Fprintf(&b, "%s, ", drawValue(t, depth-1, true, ""))
		}
		return "[" + strings.TrimSuffix(b.String(), ", ") + "]"
	case "text":
		return "|\n" + indent + "line # one\n" + indent + "  two: [\n"
	}
	return rapid.SampledFrom(scalars).Draw(t, "scalar")
}

// plain brings a node and what the library's own decoder makes into one form.
func plain(n *tree.Node) any {
	switch kindOf(n) {
	case mapNode:
		result := make(map[string]any)
		for key, value := range entries(n) {
			result[key.Value] = plain(value)
		}
		return result
	case listNode:
		result := []any{}
		for _, item := range n.Content {
			result = append(result, plain(item))
		}
		return result
	case emptyNode:
		return nil
	}
	var value any
	if yaml.Unmarshal([]byte(n.Value), &value) == nil && value != nil && !strings.ContainsAny(n.Value, ":{}\n") {
		return fmt.Sprint(value) // numbers as the library prints them
	}
	return n.Value
}

func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range maps.Keys(v) {
			v[key] = normal(v[key])
		}
		return v
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
		return v
	case nil:
		return nil
	}
	return fmt.Sprint(value)
}

func TestTreeAgainstLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "top: " + drawValue(t, 3, false, "  ") + "\n"
		root, err := readTree(text, maxSigns)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		var want any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("the library refuses %v in\n%s", err, text)
		}
		got, wanted := fmt.Sprintf("%#v", plain(root)), fmt.Sprintf("%#v", normal(want))
		if got != wanted {
			t.Fatalf("got  %s\nwant %s\nin\n%s", got, wanted, text)
		}
	})
}

// Where the library is wrong, or strict for the sake of other formats, the
// YAML 1.2 specification decides (section 7.3.3 for plain text with colons).
func TestTreeDecidedBySpecification(t *testing.T) {
	for text, want := range map[string]string{
		"top: [a:b, 10:20, https://h/p, c: ]":            `{top: [a:b 10:20 https://h/p {c: -}]}`,
		"top: [a:b, 10:20, https://h:1/p]":               `{top: [a:b 10:20 https://h:1/p]}`,
		"top: {u: https://h/p, a:b: c, d: {e:f: g:h:i}}": `{top: {u: https://h/p a:b: c d: {e:f: g:h:i}}}`,
		`top: {"q":r, 's':"t"}`:                          `{top: {q: r s: t}}`,
		"top: a:b:c":                                     `{top: a:b:c}`,
		"top:\n- a\n-\n- b: c\n  d:\n  - e\nz:":          `{top: [a - {b: c d: [e]}] z: -}`,
		"top: [\n a,\n b\n]\nz: y":                       `{top: [a b] z: y}`,
		"--- \na: b\n...\n":                              `{a: b}`,
		"a: |\nb: c":                                     `{a:  b: c}`,
		"a: b\n--- \na: b":                               "",
		"a:\n  b: c\n d: e":                              "",
		"a: 'b' c":                                       "",
		"- a\n b: c":                                     "",
	} {
		root, err := readTree(text, maxSigns)
		got := ""
		if err == nil {
			got = sketch(root)
		}
		if got != want {
			t.Errorf("%q gives %q (%v), want %q", text, got, err, want)
		}
	}
}

func sketch(n *tree.Node) string {
	var parts []string
	switch kindOf(n) {
	case mapNode:
		for key, value := range entries(n) {
			parts = append(parts, key.Value+": "+sketch(value))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case listNode:
		for _, item := range n.Content {
			parts = append(parts, sketch(item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case emptyNode:
		return "-"
	}
	return n.Value
}

// TestRoundTrip writes a file from a drawn description and reads it back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type drawn struct {
			shell   string
			retries int
			outputs []string
		}
		tasks := make([]drawn, rapid.IntRange(1, 4).Draw(t, "tasks"))
		var b strings.Builder
		b.WriteString(header + "tasks:\n")
		for i := range tasks {
			tasks[i] = drawn{
				shell:   rapid.StringMatching(`[a-z][ -~é]{0,20}`).Draw(t, "shell"),
				retries: rapid.IntRange(0, 100).Draw(t, "retries"),
				outputs: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,5}`), 0, 3, rapid.ID).Draw(t, "outputs"),
			}
			text, err := yaml.Marshal(map[string]any{fmt.Sprintf("t%d", i): map[string]any{
				"shell": tasks[i].shell, "retries": tasks[i].retries, "outputs": tasks[i].outputs,
			}})
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("  " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ") + "\n")
		}
		file, err := Parse("w.yaml", []byte(b.String()))
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		for i, entry := range file.Tasks.Entries {
			var outputs []string
			for _, item := range entry.Value.Outputs.Items {
				outputs = append(outputs, item.Name.Value)
			}
			slices.Sort(outputs)
			slices.Sort(tasks[i].outputs)
			if entry.Value.Shell.Value != tasks[i].shell || entry.Value.Retries.Value != tasks[i].retries || !slices.Equal(outputs, tasks[i].outputs) {
				t.Fatalf("task %d is %+v, want %+v in\n%s", i, entry.Value, tasks[i], b.String())
			}
		}
	})
}
