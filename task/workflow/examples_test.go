package workflow_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// TestExamples runs the shipped workflows with nothing but a shell: in the
// order of their files, each task in an empty folder with its inputs only.
func TestExamples(t *testing.T) {
	folder := filepath.Join("..", "..", "examples", "workflows")
	for name, check := range map[string]struct {
		output, line string
		lines        int
	}{
		"chain.yaml":     {"counts.tsv", "pilot\t7", 58},
		"splitting.yaml": {"longest.03.txt", "03 44 When the last task is done the pilot leaves,", 1},
		"merging.yaml":   {"primes.txt", "199", 46},
	} {
		t.Run(name, func(t *testing.T) {
			plan := expandExample(t, filepath.Join(folder, name))
			files := runLocally(t, plan)
			if !slices.Contains(plan.Outputs, check.output) {
				t.Fatalf("final outputs are %v", plan.Outputs)
			}
			lines := strings.Split(strings.TrimSpace(files[check.output]), "\n")
			if !slices.Contains(lines, check.line) || len(lines) != check.lines {
				t.Errorf("%s has %d lines, want %d with %q:\n%s", check.output, len(lines), check.lines, check.line, files[check.output])
			}
		})
	}
}

func expandExample(t *testing.T, path string) *workflow.Plan {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := workflow.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := file.Expand(workflow.Options{Dir: filepath.Dir(path)})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// runLocally runs every task as soon as its inputs exist and returns the
// content of all files by name.
func runLocally(t *testing.T, plan *workflow.Plan) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, external := range plan.Files {
		data, err := os.ReadFile(external.Source)
		if err != nil {
			t.Fatal(err)
		}
		files[external.Name] = string(data)
	}
	waiting := slices.Clone(plan.Tasks)
	for len(waiting) > 0 {
		before := len(waiting)
		waiting = slices.DeleteFunc(waiting, func(one task.Task) bool {
			for _, in := range one.Inputs {
				if _, exists := files[string(in.LFN)]; !exists {
					return false
				}
			}
			runTask(t, one, files)
			return true
		})
		if len(waiting) == before {
			t.Fatalf("%d tasks can never run", before)
		}
	}
	return files
}

func runTask(t *testing.T, one task.Task, files map[string]string) {
	t.Helper()
	folder := t.TempDir()
	for _, in := range one.Inputs {
		if err := os.WriteFile(filepath.Join(folder, in.Name), []byte(files[string(in.LFN)]), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	argv := one.Argv
	if one.Shell != "" {
		argv = []string{"/bin/sh", "-c", one.Shell}
	}
	command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	command.Dir = folder
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range one.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("task %s: %v\n%s", one.ID, err, output)
	}
	for _, out := range one.Outputs {
		data, err := os.ReadFile(filepath.Join(folder, out.Name))
		if err != nil {
			t.Fatalf("task %s: %v", one.ID, err)
		}
		files[string(out.LFN)] = string(data)
	}
}
