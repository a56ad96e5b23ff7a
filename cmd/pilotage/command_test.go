package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/cache/storage"
)

// call runs a command line as main does.
func call(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	root := newRoot(&app{out: &console{stdout: &out, stderr: &said}, getenv: func(string) string { return "" }})
	root.SetArgs(append([]string{}, args...)) // none, too: cobra would take the test binary's
	err = execute(t.Context(), root)
	return out.String(), err
}

func TestUsageErrorsHaveTheirCode(t *testing.T) {
	dir := t.TempDir()
	broken, open := filepath.Join(dir, "broken.json"), filepath.Join(dir, "open.json")
	for path, mode := range map[string]os.FileMode{broken: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte("{"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, example := range []struct {
		line, text string
	}{
		{"bogus", "unknown command"},
		{"task lst", "did you mean list?"},
		{"pilot bogus", "unknown command"},
		{"site trace", "--time is missing: say when"},
		{"site trace --time yesterday", "is no time"},
		{"--output xml version", "table, json or jsonl"},
		{"version --bogus", "unknown flag: --bogus\nSee: pilotage version --help"},
		{"sim run --polcy fifo", "did you mean --policy?"},
		{"bench overlay --oputput json", "did you mean --output?"},
		{"--oputput json version", "did you mean --output?"},
		{"--log", "flag needs an argument: --log\nSee: pilotage --help"},
		{"version --log", "flag needs an argument: --log\nSee: pilotage version --help"},
		{"submit", "nothing to submit"},
		{"submit --output json -- true", "PILOTAGE_OUTPUT=json"},
		{"task show", "TASK is missing: pilotage task show TASK"},
		{"task show a b", `"b" is one argument too many`},
		{"site list siteA", `"siteA": pilotage site list takes none`},
		{"file put", "PATH is missing: pilotage file put PATH [PATH ...]"},
		{"site add --se file:///x", "NAME is missing: pilotage site add NAME"},
		{"site add a --se=", "--se is empty"},
		{"site add a --locality-wait -5s", "--locality-wait is -5s: give a time up to 1h"},
		{"site add a --locality-wait 30", `--locality-wait is "30": give a time with its unit`},
		{"workflow wait w --timeout soon", "for example 30s"},
		{"submit --timeout 5m -- true", "give --wait, too"},
		{"bench overlay --round-period soon", "give seconds, for example 20"},
		{"bench overlay --plot " + filepath.Join(broken, "x"), "--plot: "},
		{"submit --rank localty -- true", "did you mean locality? Ranks by name are"},
		{"submit --rank 1+ -- true", "breaks off here"},
		{"submit -f w.yaml --memory 4GiB --dry-run", "--memory is of a single command or script"},
		{"site list --access " + filepath.Join(dir, "none.json"), "--access FILE"},
		{"site list --access " + broken, "not an access file"},
		{"pilot --access " + open, "chmod 600"},
		{"sim run x.json --task-time 5m", "would change nothing of x.json"},
	} {
		_, err := call(t, strings.Fields(example.line)...)
		if err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), example.text) {
			t.Errorf("%s: %v, want %q with code %d", example.line, err, example.text, exitUsage)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		args := strings.Fields(command.CommandPath())[1:]
		out, err := call(t, append(args, "--help")...)
		if err != nil || !strings.Contains(out, "Usage:") || command.Short == "" {
			t.Errorf("%s --help: %v\n%s", command.CommandPath(), err, out)
		}
		for _, child := range command.Commands() {
			visit(child)
		}
	}
	visit(newRoot(testApp()))
	if out, err := call(t); err != nil || !strings.Contains(out, "completion") {
		t.Errorf("help does not list completion: %v\n%s", err, out)
	}
	if out, err := call(t, "completion", "bash"); err != nil || !strings.Contains(out, "pilotage") {
		t.Errorf("completion bash: %v", err)
	}
}

// The program's --output goes before the name of submit, whose own is a file.
func TestSubmitKnowsTheProgramsOutput(t *testing.T) {
	out, err := call(t, "--output", "json", "submit", "--dry-run", "--output", "made", "--", "touch", "made")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []struct {
		Outputs []struct{ LFN string }
	}
	if err := json.Unmarshal([]byte(out), &tasks); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(tasks) != 1 || len(tasks[0].Outputs) != 1 || !strings.HasSuffix(tasks[0].Outputs[0].LFN, "made") {
		t.Errorf("planned %s", out)
	}
}

func TestInterruptedHasItsOwnCode(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := coded(exitUnreachable, "upload: %w", &storage.Error{Op: "put", Kind: storage.ErrUnreachable, Err: context.Canceled})
	if code := exitCode(ctx, err); code != exitInterrupted {
		t.Errorf("an upload that Ctrl-C ends: %d", code)
	}
	if code := exitCode(t.Context(), err); code != exitUnreachable {
		t.Errorf("an upload that fails: %d", code)
	}
	if code := exitCode(t.Context(), fmt.Errorf("wrapped: %w", errors.New("cause"))); code != exitInternal {
		t.Errorf("anything else: %d", code)
	}
}

func TestChangesPrintADocument(t *testing.T) {
	for output, want := range map[string]string{
		"table": "3 tasks\n", "json": "{\n  \"cancelled\": 3\n}\n", "jsonl": "{\"cancelled\":3}\n",
	} {
		a := testApp()
		a.out.output = output
		if err := a.out.done(nil, map[string]int{"cancelled": 3}, "%d tasks", 3); err != nil {
			t.Fatal(err)
		}
		if got := a.out.stdout.(*bytes.Buffer).String(); got != want {
			t.Errorf("%s: %q, want %q", output, got, want)
		}
	}
}
