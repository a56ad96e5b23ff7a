package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// What storage and caches do wrong is overcome, and what keeps a task waiting
// is told.
func TestStorageAndExplanations(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB")
	p := g.addPilot("siteA")
	t.Run("a corrupted cache file", func(t *testing.T) { corruptedCache(g.in(t), p) })
	t.Run("an unreachable storage element", func(t *testing.T) { unreachableStorage(g.in(t)) })
	t.Run("an input on a storage element that is away", func(t *testing.T) { inputOfAwayStorage(g.in(t)) })
	t.Run("an input that does not fit into a cache", func(t *testing.T) { inputBeyondCache(g.in(t)) })
	t.Run("requirements that nobody meets", func(t *testing.T) { unmetRequirements(g.in(t)) })
	t.Run("an input that is not there yet", func(t *testing.T) { missingInput(g.in(t)) })
	t.Run("a site that is drained", func(t *testing.T) { drainedSite(g.in(t)) })
}

// corruptedCache spoils cached copies of a file: whoever reads them afterwards
// gets the right bytes.
func corruptedCache(g *grid, holder *pilotProcess) {
	t := g.t
	content := strings.Repeat("the right bytes\n", 4096)
	writeFile(t, filepath.Join(g.dir, "right.txt"), content)
	text := func(n int) string {
		return fmt.Sprintf(`
files: {right.txt: {source: ./right.txt}}
tasks:
  read: {inputs: [right.txt], shell: "cat right.txt > copy%d", outputs: [copy%d]}
outputs: [copy%d]
`, n, n, n)
	}
	g.done(g.submitted("first", text(1), "--upload"))
	spoil(t, holder, content, true)
	// A peer asks the holder for it, finds the bytes wrong and takes them from
	// the storage element.
	peer := g.addPilot("siteA")
	at := func(n int, pilot string) string {
		return strings.Replace(text(n), "{inputs", `{require: 'pilot.id == "`+pilot+`"', inputs`, 1)
	}
	id := g.submitted("second", at(2, peer.id), "--upload")
	g.done(id)
	if got := g.output(id, "copy2"); got != content {
		t.Errorf("a peer got %.40q", got)
	}
	if said := peer.log.String() + holder.log.String(); !strings.Contains(said, "wrong bytes") {
		t.Errorf("nobody noticed:\n%s", said)
	}
	// A file that somebody wrote to is noticed at once.
	spoil(t, peer, content, false)
	id = g.submitted("third", at(3, peer.id), "--upload")
	g.done(id)
	if got := g.output(id, "copy3"); got != content {
		t.Errorf("the pilot with the spoiled copy gave its payload %.40q", got)
	}
	peer.terminate(t, 30*time.Second)
}

// spoil overwrites what a pilot's cache holds of a content, with as many other
// bytes; quietly leaves the time of the file as it was.
func spoil(t *testing.T, holder *pilotProcess, content string, quietly bool) {
	t.Helper()
	spoiled := 0
	err := filepath.WalkDir(filepath.Join(holder.dir, "cache"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != content {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		spoiled++
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("the WRONG bytes\n", 4096)), 0o600); err != nil {
			return err
		}
		if err := os.Chmod(path, info.Mode()); err != nil {
			return err
		}
		if !quietly {
			return nil
		}
		return os.Chtimes(path, info.ModTime(), info.ModTime())
	})
	if err != nil || spoiled == 0 {
		t.Fatalf("%d cached files spoiled, %v", spoiled, err)
	}
}

// unreachableStorage takes the folder away while outputs are made: the
// workflow is done only when they are stored, after it came back.
func unreachableStorage(g *grid) {
	t := g.t
	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.Rename(storage, storage+".away"); err != nil {
		t.Fatal(err)
	}
	id := g.submitted("patience", `
tasks:
  make: {shell: "echo kept > kept", outputs: [kept]}
  use:  {inputs: [kept], shell: "cat kept > used", outputs: [used]}
outputs: [kept, used]
`)
	pending := func() *pb.Workflow {
		_, tasks, _, _ := g.client()
		reply, err := tasks.GetWorkflow(t.Context(), &pb.GetWorkflowRequest{Workflow: id})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetWorkflow()
	}
	observe(g, "both tasks done without a storage element", func() (bool, bool) { return true, pending().GetDone() == 2 })
	if w := pending(); w.GetState() != pb.WorkflowState_WORKFLOW_STATE_RUNNING || w.GetOutputsPending() != 2 {
		t.Errorf("with its outputs on no storage element the workflow is %s, %d pending", w.GetState(), w.GetOutputsPending())
	}
	into := t.TempDir()
	g.must("workflow", "outputs", id, "--to", into) // from caches, through the queue
	for _, name := range []string{"kept", "used"} {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(got) != "kept\n" {
			t.Errorf("%s is %q while only caches have it, %v", name, got, err)
		}
	}
	if err := os.Rename(storage+".away", storage); err != nil {
		t.Fatal(err)
	}
	g.done(id)
	if got := g.output(id, "kept") + g.output(id, "used"); got != "kept\nkept\n" {
		t.Errorf("the outputs are %q", got)
	}
}

// inputOfAwayStorage: a task without retries outlasts the absence of the
// storage element that has its input.
func inputOfAwayStorage(g *grid) {
	t := g.t
	path := filepath.Join(g.dir, "far.txt")
	writeFile(t, path, "from afar\n")
	g.must("file", "put", path, "--site", "siteA")
	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.Rename(storage, storage+".away"); err != nil {
		t.Fatal(err)
	}
	id := g.submitted("outlasts", `
tasks:
  read: {retries: 0, require: 'pilot.site == "siteA"', inputs: ["vo:far.txt"], shell: "cat far.txt > read", outputs: [read]}
outputs: [read]
`)
	failed := g.failed(id + "/read")
	if kind := failed.GetFailure(); kind != pb.FailureKind_FAILURE_KIND_STORAGE_FAILED {
		t.Errorf("with the storage element away the attempt failed as %s: %s", kind, failed.GetReason())
	}
	wantText(t, "the reason", failed.GetReason(), "far.txt", "storage element")
	if err := os.Rename(storage+".away", storage); err != nil {
		t.Fatal(err)
	}
	g.done(id)
	if got := g.output(id, "read"); got != "from afar\n" {
		t.Errorf("it read %q", got)
	}
	if n := g.task(id + "/read").GetFailures(); n != 0 {
		t.Errorf("%d failures are held against the task", n)
	}
}

// failed waits for a failed attempt of a task.
func (g *grid) failed(task string) *pb.Outcome {
	g.t.Helper()
	return observe(g, "a failed attempt of "+task, func() (*pb.Outcome, bool) {
		for _, attempt := range g.task(task).GetAttempts() {
			if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_FAILED {
				return attempt.GetOutcome(), true
			}
		}
		return nil, false
	})
}

// inputBeyondCache: a pilot whose cache is too small for an input is no reason
// to give the task up; one with room runs it.
func inputBeyondCache(g *grid) {
	t := g.t
	content := strings.Repeat("four", 1<<20)
	writeFile(t, filepath.Join(g.dir, "large.bin"), content)
	small := g.addPilot("siteB", "--cache-size", "2MiB")
	id := g.submitted("beyond", `
files: {large.bin: {source: ./large.bin}}
tasks:
  size: {retries: 0, require: 'pilot.site == "siteB"', inputs: [large.bin], shell: "wc -c < large.bin | tr -d ' ' > size", outputs: [size]}
outputs: [size]
`, "--upload")
	failed := g.failed(id + "/size")
	if kind := failed.GetFailure(); kind != pb.FailureKind_FAILURE_KIND_PILOT_FAILED || failed.GetAttempt().GetPilot() != small.id {
		t.Errorf("the attempt at %s failed as %s: %s", failed.GetAttempt().GetPilot(), kind, failed.GetReason())
	}
	wantText(t, "the reason", failed.GetReason(), "large.bin", "2MiB")
	roomy := g.addPilot("siteB")
	small.terminate(t, time.Minute)
	g.done(id)
	if got, want := g.output(id, "size"), fmt.Sprintln(len(content)); got != want {
		t.Errorf("it counted %q, want %q", got, want)
	}
	if n := g.task(id + "/size").GetFailures(); n != 0 {
		t.Errorf("%d failures are held against the task", n)
	}
	roomy.terminate(t, time.Minute)
}

func unmetRequirements(g *grid) {
	t := g.t
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "never", "--require", `pilot.site == "siteA" && "quantum" in pilot.features`, "--", "true"))
	task := id + "/never"
	said := observe(g, "an explanation with the clause", func() (string, bool) {
		out := g.must("task", "explain", task)
		return out, strings.Contains(out, `"quantum" in pilot.features`)
	})
	wantText(t, "task explain", said, task, "siteA", "siteB", "0 of 1 pilot can run it")
	var explained struct {
		Sites []struct {
			Site    string
			Pilots  int
			Clauses []struct {
				Clause string
				Pilots int
			}
		}
	}
	g.read(&explained, "task", "explain", task)
	counted := false
	for _, site := range explained.Sites {
		for _, clause := range site.Clauses {
			counted = counted || site.Site == "siteA" && site.Pilots == 1 && clause.Pilots == 1 && strings.Contains(clause.Clause, "quantum")
		}
	}
	if !counted || len(explained.Sites) != 2 {
		t.Errorf("explained as %+v", explained)
	}
	wantText(t, "site show", g.must("site", "show", "siteA"), "cannot run", "quantum")
	// Other work goes on, and a pilot that has the feature gets the task.
	g.done(strings.TrimSpace(g.must("submit", "--parsable", "--name", "other", "--", "true")))
	able := g.addPilot("siteA", "--feature", "quantum")
	g.done(id)
	if at := g.task(task).GetAttempts()[0].GetOutcome().GetAttempt().GetPilot(); at != able.id {
		t.Errorf("it ran at %s, want %s", at, able.id)
	}
	able.terminate(t, 30*time.Second)
}

func missingInput(g *grid) {
	t := g.t
	path := g.workflow("awaits", `
tasks:
  read: {inputs: ["vo:later.txt"], shell: "cat later.txt > read", outputs: [read]}
outputs: [read]
`)
	g.expect(2, []string{"later.txt"}, "submit", "-f", path)
	id := strings.TrimSpace(g.must("submit", "-f", path, "--allow-missing", "--parsable"))
	said := g.must("task", "explain", id+"/read")
	wantText(t, "task explain", said, "BLOCKED", "vo:later.txt is missing")
	writeFile(t, filepath.Join(g.dir, "later.txt"), "at last\n")
	g.must("file", "put", filepath.Join(g.dir, "later.txt"))
	g.done(id)
	if got := g.output(id, "read"); got != "at last\n" {
		t.Errorf("it read %q", got)
	}
	wantText(t, "file locate", g.must("file", "locate", "vo:later.txt"), "siteA", "storage element", "file://")
	target := filepath.Join(t.TempDir(), "got.txt")
	g.must("file", "get", "vo:later.txt", "--to", target)
	if got := readFile(t, target); got != "at last\n" {
		t.Errorf("file get gave %q", got)
	}
}

func drainedSite(g *grid) {
	t := g.t
	g.must("site", "drain", "siteA")
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "held", "--", "true"))
	wantText(t, "task explain", g.must("task", "explain", id+"/held"), "READY", "siteA", "drain", "ready tasks that come first: 0")
	second := strings.TrimSpace(g.must("submit", "--parsable", "--name", "second", "--", "true"))
	wantText(t, "task explain", g.must("task", "explain", second+"/second"), "ready tasks that come first: 1")
	wantText(t, "site list", g.must("site", "list"), "draining")
	g.must("site", "drain", "siteA", "--resume")
	g.done(id)
	g.done(second)
}
