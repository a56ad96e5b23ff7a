package workflow

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// describe writes a plan down for people to check.
func describe(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow %s\n", p.Name)
	for _, f := range p.Files {
		fmt.Fprintf(&b, "file %s source=%q at=%v size=%d adler32=%q digest=%s exec=%v\n", f.Name, f.Source, f.At, f.Size, f.Adler32, f.Digest, f.Exec)
	}
	for _, t := range p.Tasks {
		fmt.Fprintf(&b, "task %s\n", t.ID)
		if t.Shell != "" {
			fmt.Fprintf(&b, "  shell %q\n", t.Shell)
		} else {
			fmt.Fprintf(&b, "  argv %q\n", t.Argv)
		}
		for _, in := range t.Inputs {
			fmt.Fprintf(&b, "  in %s as %s\n", in.LFN, in.Name)
		}
		for _, out := range t.Outputs {
			fmt.Fprintf(&b, "  out %s from %s\n", out.LFN, out.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(t.Env)) {
			fmt.Fprintf(&b, "  env %s=%q\n", name, t.Env[name])
		}
		fmt.Fprintf(&b, "  %s, %s, %d retries, priority %d, require %q, rank %q\n",
			t.Resources, t.Walltime, t.Retries, t.Priority, t.Require, t.Rank)
	}
	fmt.Fprintf(&b, "outputs %v\n", p.Outputs)
	return b.String()
}

func TestPlans(t *testing.T) {
	golden(t, "testdata/plans.txt", func(input string) string {
		file, err := Parse("w.yaml", []byte(input))
		if err != nil {
			return err.Error()
		}
		plan, err := file.Expand(Options{Dir: "here"})
		if err != nil {
			return err.Error()
		}
		return describe(plan)
	})
}

func mustPlan(t *testing.T, text string, opts Options) *Plan {
	t.Helper()
	file, err := Parse("w.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := file.Expand(opts)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

const header = "apiVersion: pilotage/v1\nkind: Workflow\nname: w\n"

func TestBindQualifiesOnceAndAgain(t *testing.T) {
	plan := mustPlan(t, header+`
tasks:
  a: {shell: "true", inputs: ["vo:ref"], outputs: [x]}
  b: {shell: "true", inputs: [x]}
`, Options{})
	for _, id := range []task.WorkflowID{"w-abcdefghij", "w-abcdefghij", "w-zzzzzzzzzz"} {
		plan.Bind(id)
		want := []task.ID{task.NewID(id, "a"), task.NewID(id, "b")}
		if got := []task.ID{plan.Tasks[0].ID, plan.Tasks[1].ID}; !slices.Equal(got, want) {
			t.Errorf("ids are %v, want %v", got, want)
		}
		if got := plan.Tasks[0].Inputs[0].LFN; got != "vo:ref" {
			t.Errorf("the shared file became %s", got)
		}
		if got := plan.Tasks[1].Inputs[0].LFN; got != Qualify(id, "x") || got != plan.Tasks[0].Outputs[0].LFN {
			t.Errorf("x became %s for the reader and %s for the producer", got, plan.Tasks[0].Outputs[0].LFN)
		}
		for _, one := range plan.Tasks {
			if err := one.Validate(); err != nil {
				t.Error(err)
			}
			if _, err := task.ParseID(string(one.ID)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAllowMissing(t *testing.T) {
	file, err := Parse("w.yaml", []byte(header+`tasks: {a: {shell: "true", inputs: [later, "vo:other"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	unknown := func(string) bool { return false }
	if _, err := file.Expand(Options{Registered: unknown}); err == nil {
		t.Error("missing inputs were accepted")
	}
	if _, err := file.Expand(Options{Registered: unknown, AllowMissing: true}); err != nil {
		t.Errorf("missing inputs were refused: %v", err)
	}
}

func TestManyTasks(t *testing.T) {
	plan := mustPlan(t, header+`
tasks:
  make: {foreach: {p: "{00000..19999}"}, argv: [make, "{p}"], outputs: ["{p}.out"]}
  use:  {foreach: {p: "{00000..19999}"}, argv: [use, "{p}.out"], inputs: ["{p}.out"]}
`, Options{})
	if got := len(plan.Tasks); got != 40_000 {
		t.Fatalf("%d tasks", got)
	}
	if got := plan.Tasks[39_999].Inputs[0].LFN; got != "19999.out" {
		t.Errorf("last input is %s", got)
	}
}

func TestLimits(t *testing.T) {
	within := limits{tasks: 5, references: 12, text: 1000}
	for _, c := range []struct{ name, body, want string }{
		{"fits", `tasks: {a: {foreach: {p: "{1..5}"}, shell: "true", outputs: ["x{p}", "y{p}"]}}`, ""},
		{"tasks", `tasks: {a: {foreach: {p: "{1..6}"}, shell: "true"}}`, "makes 6 tasks: at most 5"},
		{"references", `tasks: {a: {foreach: {p: "{1..5}"}, shell: "true", outputs: ["x{p}", "y{p}", "z{p}"]}}`, "15 inputs and outputs"},
		{"text", `tasks: {a: {foreach: {p: "{1..5}"}, shell: "` + strings.Repeat("long ", 50) + `{p}"}}`, "more than 1000B"},
		{"constant text", `tasks: {a: {foreach: {p: "{1..5}"}, shell: "` + strings.Repeat("long ", 50) + `"}}`, ""},
		{"files", `files: {"x{1..6}": {source: "x{1..6}"}}
tasks: {a: {shell: "true"}}`, "more than 5 files"},
		{"outputs", `tasks: {a: {shell: "true", outputs: ["x{1..6}"]}}
outputs: ["x{1..6}"]`, "more than 5 files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := Parse("w.yaml", []byte(header+c.body))
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.expandWithin(Options{}, within)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

// A long chain must not be walked by recursion.
func TestLongChain(t *testing.T) {
	var b strings.Builder
	b.WriteString(header + "tasks:\n  t0: {shell: \"true\", outputs: [o0]}\n")
	for i := 1; i < 5_000; i++ {
		fmt.Fprintf(&b, "  t%d:\n    shell: echo %d\n    inputs: [o%d]\n    outputs: [o%d]\n", i, i, i-1, i)
	}
	if got := len(mustPlan(t, b.String(), Options{}).Tasks); got != 5_000 {
		t.Errorf("%d tasks", got)
	}
}

// BenchmarkMillionTasks is the size that the format promises.
func BenchmarkMillionTasks(b *testing.B) {
	text := []byte(header + `tasks: {t: {foreach: {p: "{1..1000000}"}, argv: [run, "{p}"], outputs: ["{p}.out"]}}`)
	for b.Loop() {
		file, err := Parse("w.yaml", text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := file.Expand(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The tags say what users read; these tests keep them true.
func TestTagsTellTheDefaults(t *testing.T) {
	var written strings.Builder
	for _, f := range fieldsOf(reflect.ValueOf(&Settings{}).Elem()) {
		if value := f.tag.Get("default"); value != "" && f.tag.Get("min") != "" {
			fmt.Fprintf(&written, "%s: %s, ", f.tag.Get("key"), value)
		}
	}
	tasks := "\ntasks: {a: {shell: \"true\"}}\n"
	silent := describe(mustPlan(t, header+tasks, Options{}))
	explicit := describe(mustPlan(t, header+"defaults: {"+strings.TrimSuffix(written.String(), ", ")+"}"+tasks, Options{}))
	if silent != explicit {
		t.Errorf("without defaults\n%swith those of the tags\n%s", silent, explicit)
	}
}

func TestTagsTellTheLimits(t *testing.T) {
	for key, want := range map[string]string{
		"retries":  fmt.Sprint(task.MaxRetries),
		"cores":    fmt.Sprint(task.MaxCores),
		"priority": fmt.Sprint(task.MaxPriority),
		"require":  task.Bytes(task.MaxExpression).String(),
		"rank":     task.Bytes(task.MaxExpression).String(),
		"shell":    task.Bytes(task.MaxArgvBytes).String(),
		"argv":     thousands(task.MaxArgv) + " words",
		"inputs":   thousands(task.MaxInputs) + " files",
		"outputs":  thousands(task.MaxOutputs) + " files",
		"env":      fmt.Sprint(task.MaxEnv, " variables"),
		"foreach":  fmt.Sprint(maxVariables, " variables"),
	} {
		found := false
		for _, f := range fieldsOf(reflect.ValueOf(&TaskTemplate{}).Elem()) {
			if f.tag.Get("key") == key {
				found = true
				if got := f.tag.Get("max"); got != want {
					t.Errorf("the tag of %s says at most %s, the limit is %s", key, got, want)
				}
			}
		}
		if !found {
			t.Errorf("no key %s", key)
		}
	}
}

func thousands(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
