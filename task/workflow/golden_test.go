package workflow

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the diff")

// golden walks a file of cases "=== NAME, input, ---, expected" and compares
// what answer makes of each input.
func golden(t *testing.T, path string, answer func(input string) string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cases := strings.Split("\n"+string(content), "\n=== ")[1:]
	if len(cases) == 0 {
		t.Fatalf("%s holds no cases", path)
	}
	for _, one := range cases {
		name, rest, _ := strings.Cut(one, "\n")
		input, want, found := strings.Cut("\n"+rest, "\n---\n")
		if !found {
			input = strings.TrimSuffix("\n"+rest, "\n---")
			want = ""
		}
		input = strings.TrimPrefix(input, "\n")
		got := strings.TrimRight(answer(input), "\n")
		out.WriteString("=== " + name + "\n")
		if input != "" {
			out.WriteString(input + "\n")
		}
		out.WriteString("---\n" + got + "\n")
		if !*rewrite {
			t.Run(name, func(t *testing.T) {
				if want := strings.TrimRight(want, "\n"); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// strictOptions stand for a queue that knows one shared file and a matcher
// that dislikes one word.
func strictOptions() Options {
	return Options{
		Dir:        "here",
		Registered: func(lfn string) bool { return lfn == "vo:known" },
		CheckExpression: func(_, expression string) error {
			if strings.Contains(expression, "bad") {
				return errors.New("no such word: bad")
			}
			return nil
		},
	}
}

func TestErrors(t *testing.T) {
	golden(t, "testdata/errors.txt", func(input string) string {
		file, err := Parse("w.yaml", []byte(input))
		if err == nil {
			_, err = file.Expand(strictOptions())
		}
		if err == nil {
			return "accepted"
		}
		var all *Errors
		if !errors.As(err, &all) {
			t.Errorf("%v is no *Errors", err)
		}
		return err.Error()
	})
}
