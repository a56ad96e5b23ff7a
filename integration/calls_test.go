package integration

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// in is the same grid with what goes wrong charged to a subtest while that
// runs. Subtests of one grid run one after the other.
func (g *grid) in(t *testing.T) *grid {
	parent := g.t
	g.t = t
	t.Cleanup(func() { g.t = parent })
	return g
}

// expect calls the binary and checks its exit code and that stdout or stderr
// holds every text.
func (g *grid) expect(code int, texts []string, args ...string) string {
	g.t.Helper()
	stdout, stderr, got := g.run(args...)
	if got != code {
		g.t.Errorf("pilotage %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	for _, text := range texts {
		if !strings.Contains(stdout+stderr, text) {
			g.t.Errorf("pilotage %s does not say %q:\n%s%s", strings.Join(args, " "), text, stdout, stderr)
		}
	}
	return stdout + stderr
}

// read decodes what a command prints as JSON.
func (g *grid) read(into any, args ...string) {
	g.t.Helper()
	text := g.must(append([]string{"--output", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		g.t.Fatalf("pilotage %s: %v in\n%s", strings.Join(args, " "), err, text)
	}
}

// submitted sends a workflow and returns its id.
func (g *grid) submitted(name, text string, flags ...string) string {
	g.t.Helper()
	args := append([]string{"submit", "-f", g.workflow(name, text), "--parsable"}, flags...)
	return strings.TrimSpace(g.must(args...))
}

// done waits until a workflow is done.
func (g *grid) done(id string) {
	g.t.Helper()
	stdout, stderr, code := g.run("workflow", "wait", id, "--timeout", "120s")
	if code == 0 {
		return
	}
	list, _, _ := g.run("task", "list", id)
	g.t.Fatalf("workflow wait %s: exit %d\n%s%s%s", id, code, stdout, stderr, list)
}

// output is the content of a final output of a workflow.
func (g *grid) output(workflow, name string) string {
	g.t.Helper()
	dir := filepath.Join(g.dir, "fetched", workflow)
	g.must("workflow", "outputs", workflow, "--to", dir)
	return readFile(g.t, filepath.Join(dir, name))
}

// task is what the queue knows of a task, with its attempts.
func (g *grid) task(id string) *pb.TaskInfo {
	g.t.Helper()
	_, tasks, _, _ := g.client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	reply, err := tasks.GetTask(ctx, &pb.GetTaskRequest{TaskId: id})
	if err != nil {
		g.t.Fatalf("task %s: %v", id, err)
	}
	return reply.GetTask()
}

// site is what the queue knows of a site.
func (g *grid) site(name string) *pb.Site {
	g.t.Helper()
	_, _, sites, _ := g.client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	reply, err := sites.GetSite(ctx, &pb.GetSiteRequest{Name: name})
	if err != nil {
		g.t.Fatalf("site %s: %v", name, err)
	}
	return reply.GetSite()
}

// pilot is what the queue knows of a pilot.
func (g *grid) pilot(id string) *pb.Pilot {
	g.t.Helper()
	_, _, _, pilots := g.client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	reply, err := pilots.GetPilot(ctx, &pb.GetPilotRequest{PilotId: id})
	if err != nil {
		g.t.Fatalf("pilot %s: %v", id, err)
	}
	return reply.GetPilot()
}

// runs waits until an attempt of a task runs, as the queue knows it, and
// returns its pilot.
func (g *grid) runs(task string) string {
	g.t.Helper()
	return observe(g, "task "+task+" running", func() (string, bool) {
		for _, attempt := range g.task(task).GetAttempts() {
			if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_RUNNING {
				return attempt.GetOutcome().GetAttempt().GetPilot(), true
			}
		}
		return "", false
	})
}

// ends waits for a process's own end and returns its exit code.
func (p *process) ends(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s goes on after %s\n%s", p.name, limit, p.log)
		return -1
	}
}

func (p *process) interrupt() { _ = p.cmd.Process.Signal(syscall.SIGINT) }

const terminateSignal = syscall.SIGTERM

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantText fails unless a text holds all of the others.
func wantText(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q:\n%s", what, part, text)
		}
	}
}

// commandOf is a call of the binary that has not been started.
func commandOf(args ...string) *exec.Cmd { return exec.Command(binary, args...) }
