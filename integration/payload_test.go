package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// What payloads get, leave behind and die of, on one site with two pilots.
func TestPayloads(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilot("siteA", "--slots", "3")
	g.addPilot("siteA", "--slots", "3")
	t.Run("a failure is told and retried", func(t *testing.T) { failsAndIsRetried(g.in(t)) })
	t.Run("kills tell reasons with numbers", func(t *testing.T) { killsTellWhy(g.in(t)) })
	t.Run("environment, folders and executables", func(t *testing.T) { environmentAndFiles(g.in(t)) })
	t.Run("cancel of running and waiting work", func(t *testing.T) { cancels(g.in(t)) })
	t.Run("Ctrl-C on a wait", func(t *testing.T) { interruptedWait(g.in(t)) })
	t.Run("a changed workflow runs what is not done", func(t *testing.T) { resubmits(g.in(t)) })
	t.Run("a dry run", func(t *testing.T) { dryRun(g.in(t)) })
	t.Run("an array of one command", func(t *testing.T) { array(g.in(t)) })
}

// The first two attempts fail; what is said of the last one is complete, and
// after the cause is gone a retry finishes the workflow.
func failsAndIsRetried(g *grid) {
	t := g.t
	cause := filepath.Join(g.outside(), "cause")
	writeFile(t, cause, "")
	id := g.submitted("breaks", `
tasks:
  bad:
    retries: 1
    outputs: [fine]
    shell: |
      echo "said by $PILOTAGE_ATTEMPT"
      seq 1 30 | sed 's/^/complaint /' >&2
      test ! -e `+cause+` || exit 3
      echo good > fine
  after: {inputs: [fine], shell: cat fine > copy, outputs: [copy]}
outputs: [copy]
`)
	stdout, stderr, code := g.run("workflow", "wait", id)
	if code != 6 {
		t.Errorf("workflow wait: exit %d, want 6", code)
	}
	pilot := g.task(id + "/bad").GetAttempts()[1].GetOutcome().GetAttempt().GetPilot()
	wantText(t, "workflow wait", stdout+stderr, "FAILED", "task "+id+"/bad", "site siteA", "pilot "+pilot, "exit code 3",
		"complaint 11\n", "complaint 30\n", "pilotage workflow retry "+id+" --failed")
	if strings.Contains(stderr, "complaint 10\n") {
		t.Errorf("more than the last 20 lines of stderr:\n%s", stderr)
	}
	for number, attempt := range []string{"", "a1", "a2"} {
		if attempt == "" {
			continue
		}
		out := g.must("task", "logs", id+"/bad", "--attempt", attempt[1:])
		wantText(t, "task logs", out, "said by "+id+"/bad/"+attempt)
		errors := g.must("task", "logs", id+"/bad", "--attempt", attempt[1:], "--stderr")
		if strings.Count(errors, "complaint") != 30 {
			t.Errorf("stderr of attempt %d: %q", number, errors)
		}
	}
	if state := g.task(id + "/after").GetState(); state != pb.TaskState_TASK_STATE_CANCELLED {
		t.Errorf("what depends on the failed task is %s", state)
	}
	if err := os.Remove(cause); err != nil {
		t.Fatal(err)
	}
	g.must("workflow", "retry", id, "--failed")
	g.done(id)
	if got := g.output(id, "copy"); got != "good\n" {
		t.Errorf("after the retry the output is %q", got)
	}
}

func killsTellWhy(g *grid) {
	id := g.submitted("killed", `
defaults: {retries: 0, memory: 48MiB}
tasks:
  slow: {walltime: 1s, shell: sleep 300}
  big:  {shell: "awk 'BEGIN {for (i = 0; i < 30000000; i++) a[i] = i; while (1) i++}'"}
  lazy: {outputs: [made, sub/promised], shell: touch made}
  gone: {shell: kill -SEGV $$}
  none: {argv: [/does-not-exist]}
`)
	g.expect(6, nil, "workflow", "wait", id)
	for task, pattern := range map[string]string{
		"slow": `walltime.*1s`,
		"big":  `memory.*[0-9.]+ ?MiB.*48 ?MiB`,
		"lazy": `sub/promised`,
		"gone": `(?i)segmentation|SIGSEGV`,
		"none": `does-not-exist`,
	} {
		info := g.task(id + "/" + task)
		if info.GetState() != pb.TaskState_TASK_STATE_FAILED || !regexp.MustCompile(pattern).MatchString(info.GetReason()) {
			g.t.Errorf("%s is %s: %q, want %s", task, info.GetState(), info.GetReason(), pattern)
		}
	}
	if signal := g.task(id + "/gone").GetAttempts()[0].GetOutcome().GetSignal(); signal != "SIGSEGV" && signal != "segmentation fault" {
		g.t.Errorf("signal %q", signal)
	}
}

func environmentAndFiles(g *grid) {
	t := g.t
	tool := filepath.Join(g.dir, "tool.sh")
	writeFile(t, tool, "#!/bin/sh\nmkdir -p deep/er\necho \"run with $1\" > deep/er/out\n")
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	id := g.submitted("given", `
files:
  tool.sh: {source: ./tool.sh, executable: true}
tasks:
  env:  {shell: "env | sort > env", outputs: [env], env: {FLAVOUR: sweet}, cores: 1, memory: 100MiB}
  tool: {inputs: {tool.sh: bin/tool}, argv: [bin/tool, one], outputs: {results/x/out: deep/er/out}}
  read: {inputs: [results/x/out], shell: "cat results/x/out > again", outputs: [again]}
outputs: [env, again, results/x/out]
`, "--upload")
	g.done(id)
	names := []string{}
	for line := range strings.Lines(g.output(id, "env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		names = append(names, name)
		switch name {
		case "FLAVOUR":
			wantText(t, name, value, "sweet")
		case "PILOTAGE_TASK":
			wantText(t, name, value, id+"/env")
		case "PILOTAGE_ATTEMPT":
			wantText(t, name, value, id+"/env/a1")
		case "PILOTAGE_SITE":
			wantText(t, name, value, "siteA")
		case "PILOTAGE_MEMORY_BYTES":
			wantText(t, name, value, "104857600")
		case "HOME", "TMPDIR":
			wantText(t, name, value, "/work/")
		}
	}
	// PWD is the shell's own.
	want := "FLAVOUR HOME LANG PATH PILOTAGE_ATTEMPT PILOTAGE_CORES PILOTAGE_MEMORY_BYTES PILOTAGE_PILOT PILOTAGE_SITE PILOTAGE_TASK PWD TMPDIR"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("a payload's environment has %s, want %s", got, want)
	}
	if got := g.output(id, "again"); got != "run with one\n" {
		t.Errorf("the tool's output is %q", got)
	}
	if got := g.output(id, "results/x/out"); got != "run with one\n" {
		t.Errorf("the output in a folder is %q", got)
	}
}

func cancels(g *grid) {
	t := g.t
	_, mark, _ := strings.Cut(nap(0), ".")
	alive := func(n string) bool { return processWith("sleep\x00" + n + "." + mark + "\x00") }
	id := g.submitted("stopped", `
defaults: {retries: 0}
tasks:
  hold:
    foreach: {n: "{0..9}"}
    shell: "setsid sleep 86300{n}.`+mark+` & sleep 86400{n}.`+mark+`"
    outputs: ["held.{n}"]
  after: {inputs: [held.0], shell: "true"}
`)
	g.runs(id + "/hold[0]")
	observe(g, "both processes of the payload", func() (bool, bool) {
		return true, alive("863000") && alive("864000")
	})
	g.must("workflow", "cancel", id)
	out := g.expect(6, nil, "workflow", "wait", id)
	wantText(t, "workflow wait", out, "CANCELLED", "pilotage workflow retry "+id+"\n")
	for _, task := range []string{"/hold[0]", "/hold[9]", "/after"} {
		if state := g.task(id + task).GetState(); state != pb.TaskState_TASK_STATE_CANCELLED {
			t.Errorf("%s is %s", task, state)
		}
	}
	observe(g, "no process of a cancelled payload", func() (bool, bool) {
		for n := range 10 {
			if alive(fmt.Sprint(863000+n)) || alive(fmt.Sprint(864000+n)) {
				return false, false
			}
		}
		return true, true
	})
}

func interruptedWait(g *grid) {
	t := g.t
	release := filepath.Join(g.outside(), "release")
	wait := g.start("submit --wait", "--access", g.access("admin"), "submit", "--wait", "--name", "patient", "--",
		"sh", "-c", "until test -e "+release+"; do sleep 0.1; done")
	line := wait.await(t, "submitted ")
	id := strings.Fields(line)[1]
	g.runs(id + "/patient")
	wait.interrupt()
	if code := wait.ends(t, 20*time.Second); code != 130 {
		t.Errorf("exit %d after Ctrl-C, want 130", code)
	}
	wantText(t, "submit --wait", wait.log.String(), "goes on", "pilotage workflow wait "+id)
	if state := g.task(id + "/patient").GetState(); state != pb.TaskState_TASK_STATE_LEASED {
		t.Errorf("after Ctrl-C on the wait the task is %s", state)
	}
	g.expect(7, []string{"goes on"}, "workflow", "wait", id, "--timeout", "200ms")
	g.expect(7, []string{"goes on"}, "submit", "--wait", "--timeout", "200ms", "--key", "bounded", "--name", "bounded", "--", "sh", "-c", "until test -e "+release+"; do sleep 0.1; done")
	writeFile(t, release, "")
	g.done(id)
}

func resubmits(g *grid) {
	t := g.t
	ledger := filepath.Join(g.outside(), "runs")
	text := func(last string) string {
		return `
tasks:
  one: {shell: "echo one >> ` + ledger + `; echo 1 > one", outputs: [one]}
  two: {inputs: [one], shell: "echo two >> ` + ledger + `; echo ` + last + ` > two", outputs: [two]}
outputs: [two]
`
	}
	g.done(g.submitted("again", text("old")))
	out := g.must("submit", "-f", g.workflow("again", text("new")), "--wait")
	wantText(t, "submit", out, "1 taken over")
	if got := readFile(t, ledger); got != "one\ntwo\ntwo\n" {
		t.Errorf("ran %q", got)
	}
	if got := g.output("again", "two"); got != "new\n" {
		t.Errorf("the output is %q", got)
	}
}

func array(g *grid) {
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "many", "--array", "08-11", "--output", "n.{i}", "--",
		"sh", "-c", "echo number {i} > n.{i}"))
	g.done(id)
	for _, index := range []string{"08", "09", "10", "11"} {
		if got := g.output(id, "n."+index); got != "number "+index+"\n" {
			g.t.Errorf("output of index %s is %q", index, got)
		}
	}
}

// dryRun shows what would be submitted, needs no queue and leaves nothing there.
func dryRun(g *grid) {
	path := g.workflow("shown", `
tasks:
  each: {foreach: {n: "{1..3}"}, shell: "echo {n} > o.{n}", outputs: ["o.{n}"]}
`)
	var tasks []struct {
		ID, Shell string
		Outputs   []struct{ LFN string }
	}
	g.read(&tasks, "--access", "/nowhere", "submit", "-f", path, "--dry-run")
	if len(tasks) != 3 || tasks[2].ID != "each[3]" || tasks[2].Shell != "echo 3 > o.3" || len(tasks[2].Outputs) != 1 {
		g.t.Errorf("the dry run shows %+v", tasks)
	}
	wantText(g.t, "the dry run", g.must("submit", "-f", path, "--dry-run"), "each[1]", "each[3]", "echo 2 > o.2")
	g.expect(5, nil, "workflow", "show", "shown")
}
