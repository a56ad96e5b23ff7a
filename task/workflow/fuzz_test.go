package workflow

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/errors.txt", "testdata/plans.txt"} {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, one := range strings.Split(string(content), "\n=== ") {
			_, rest, _ := strings.Cut(one, "\n")
			input, _, _ := strings.Cut(rest, "\n---\n")
			f.Add([]byte(input))
		}
	}
	for _, hostile := range []string{
		"a:\n", "a: |", "a: |\n", "- - - -", "{", "[[", "? a", "a: {b", "---\n---", "%YAML 1.2", "\xff", "a\x00b", "a: >\nb", "\ufeffa: 1",
		"a: [1, 2", "'", "\"\\u", "a: !!x", "*a", "&a", "<<: x", "...", "--- |\n x", "a: - b", "a:\n- b\n -c", "\"a\": \"b\" \"c\"",
	} {
		f.Add([]byte(hostile))
	}
	within := limits{tasks: 200, references: 500, text: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("w.yaml", data)
		if err != nil {
			checkErrors(t, err)
			return
		}
		plan, err := file.expandWithin(strictOptions(), within)
		if err != nil {
			checkErrors(t, err)
			return
		}
		if uint64(len(plan.Tasks)) > within.tasks {
			t.Fatalf("%d tasks", len(plan.Tasks))
		}
		for _, one := range plan.Tasks {
			if err := one.Validate(); err != nil {
				t.Fatalf("accepted: %v", err)
			}
		}
	})
}

// checkErrors asks of every error that it says something that can be printed.
func checkErrors(t *testing.T, err error) {
	t.Helper()
	var all *Errors
	if !errors.As(err, &all) || len(all.List) == 0 || len(all.List) > maxErrors {
		t.Fatalf("%#v is not a list of 1 to %d errors", err, maxErrors)
	}
	for _, one := range all.List {
		if one.Message == "" || strings.ContainsRune(one.excerpt, '\n') || one.caret > excerptBefore+3 {
			t.Fatalf("%#v", one)
		}
	}
}

// FuzzSingle is the same for the command line.
func FuzzSingle(f *testing.F) {
	f.Add("true", "in={i}", "{i}=out", "0-3")
	f.Add("../x", "vo:a", "a/../b", "00-01,7")
	f.Add("{", "{{", "}", "-")
	f.Fuzz(func(t *testing.T, program, input, output, array string) {
		if len(array) > 8 {
			return // long ranges are slow and tell nothing new
		}
		plan, err := SingleTask(Single{Argv: []string{program}, Inputs: []string{input}, Outputs: []string{output}, Array: array}, Options{})
		if err != nil {
			checkErrors(t, err)
			return
		}
		for _, one := range plan.Tasks {
			if err := one.Validate(); err != nil {
				t.Fatalf("accepted: %v", err)
			}
		}
	})
}
