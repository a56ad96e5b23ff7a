package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// smallQueue is a task service with the workflows "one", of one task, and
// "many", of three.
type smallQueue struct {
	pb.TaskServiceClient
	stdout string
}

func (q smallQueue) workflow(name string) *pb.Workflow {
	return map[string]*pb.Workflow{
		"one":        {Id: "w-aaaaaaaaaa", Name: "one", Done: 1, State: pb.WorkflowState_WORKFLOW_STATE_DONE},
		"alice/many": {Id: "w-dddddddddd", Name: "many", Done: 3, State: pb.WorkflowState_WORKFLOW_STATE_DONE},
		"many":       {Id: "w-bbbbbbbbbb", Name: "many", Done: 3, State: pb.WorkflowState_WORKFLOW_STATE_DONE},
	}[name]
}

func (q smallQueue) GetWorkflow(_ context.Context, in *pb.GetWorkflowRequest, _ ...grpc.CallOption) (*pb.GetWorkflowResponse, error) {
	if w := q.workflow(in.GetWorkflow()); w != nil {
		return &pb.GetWorkflowResponse{Workflow: w}, nil
	}
	return nil, status.Error(codes.NotFound, "workflow "+in.GetWorkflow()+": not found")
}

func (q smallQueue) ListTasks(_ context.Context, in *pb.ListTasksRequest, _ ...grpc.CallOption) (*pb.ListTasksResponse, error) {
	return &pb.ListTasksResponse{Tasks: []*pb.TaskInfo{{Task: &pb.Task{Id: in.GetWorkflow() + "/first"}}}}, nil
}

func (q smallQueue) GetTaskLogs(context.Context, *pb.GetTaskLogsRequest, ...grpc.CallOption) (*pb.GetTaskLogsResponse, error) {
	return &pb.GetTaskLogsResponse{Stdout: []byte(q.stdout)}, nil
}

func TestTasksAreFoundByName(t *testing.T) {
	cl := &clients{tasks: smallQueue{}}
	for given, want := range map[string]string{
		"w-cccccccccc/any[01]": "w-cccccccccc/any[01]", "many/part[07]": "w-bbbbbbbbbb/part[07]", "one/first": "w-aaaaaaaaaa/first",
		"one": "w-aaaaaaaaaa/first", "alice/many/part[07]": "w-dddddddddd/part[07]",
	} {
		if got, err := findTask(t.Context(), cl, given); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", given, got, err, want)
		}
	}
	for given, code := range map[string]int{"many": exitUsage, "none": exitNotFound, "none/x": exitNotFound, "one/-x\n": exitUsage, "": exitUsage, "/x": exitUsage} {
		if got, err := findTask(t.Context(), cl, given); err == nil || exitCode(t.Context(), err) != code {
			t.Errorf("%q: %s, %v; want code %d", given, got, err, code)
		}
	}
}

// One command's output is shown, bounded, where it was waited for.
func TestWaitShowsTheOutputOfOneTask(t *testing.T) {
	long := strings.Repeat("line\n", outputShown) + "end"
	for _, c := range []struct{ name, stdout, want, not string }{
		{"one", "hello\n", "hello\n", "task logs"},
		{"one", "no newline", "no newline\n", "task logs"},
		{"one", long, "pilotage task logs w-aaaaaaaaaa/first\n", strings.Repeat("line\n", outputShown/5+1)},
		{"one", "", "", "\n"},
		{"many", "hello\n", "pilotage task logs w-bbbbbbbbbb/TASK", "hello"},
	} {
		a, q := testApp(), smallQueue{stdout: c.stdout}
		a.out.showOutput(t.Context(), &clients{tasks: q}, q.workflow(c.name))
		if got := said(a); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s, %.20q: said %q", c.name, c.stdout, got)
		}
		a = testApp()
		a.out.output = "json"
		if a.out.showOutput(t.Context(), &clients{tasks: q}, q.workflow(c.name)); said(a) != "" {
			t.Errorf("programs are told %q", said(a))
		}
	}
}

// Whoever waits is told once, and only when nobody takes the tasks or final
// outputs do not reach a storage element.
func TestStalledWorkflowIsExplained(t *testing.T) {
	ready := &pb.Workflow{Id: "w-aaaaaaaaaa", Ready: 2}
	leased := &pb.Workflow{Id: "w-aaaaaaaaaa", Ready: 1, Leased: 1}
	blocked := &pb.Workflow{Id: "w-aaaaaaaaaa", Blocked: 1}
	unstored := &pb.Workflow{Id: "w-aaaaaaaaaa", Done: 2, OutputsPending: 3}
	done := &pb.Workflow{Id: "w-aaaaaaaaaa", Done: 2, State: pb.WorkflowState_WORKFLOW_STATE_DONE}
	const untaken, pending = "pilotage task explain 'w-aaaaaaaaaa/first'", "wait to be stored (3); which: pilotage workflow outputs w-aaaaaaaaaa --list"
	for name, c := range map[string]struct {
		heard []*pb.Workflow // one every 6 s
		what  string
		told  int
	}{
		"nobody comes":       {[]*pb.Workflow{ready, ready, ready, ready, ready}, untaken, 1},
		"somebody came":      {[]*pb.Workflow{ready, leased, ready, leased, blocked}, untaken, 0},
		"twice without work": {[]*pb.Workflow{ready, ready, ready, leased, ready, ready, ready}, untaken, 1},
		"nothing is ready":   {[]*pb.Workflow{blocked, blocked, blocked}, untaken, 0},
		"no storage":         {[]*pb.Workflow{leased, unstored, unstored, unstored, unstored}, pending, 1},
		"stored soon":        {[]*pb.Workflow{leased, unstored, done}, pending, 0},
		"one, then another":  {[]*pb.Workflow{ready, ready, ready, unstored, unstored, unstored}, pending, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := testApp()
				hint := a.out.newStallHint(t.Context(), &clients{tasks: smallQueue{}}, &watchBar{})
				for _, w := range c.heard {
					hint.heard(w)
					<-time.After(6 * time.Second)
					synctest.Wait()
				}
				hint.end()
				text := a.out.stderr.(*bytes.Buffer).String()
				if got := strings.Count(text, c.what); got != c.told {
					t.Errorf("told %d times, want %d: %q", got, c.told, text)
				}
			})
		})
	}
}

// A forgotten -f or -- is said, not submitted.
func TestSubmitRefusesStrayWords(t *testing.T) {
	for line, want := range map[string]string{
		"submit foo.yaml": "submit -f foo.yaml", "submit --wait wf.yml": "submit -f wf.yml",
		"submit echo hello": "-- echo hello", "submit foo.yaml -- true": "--", "submit x -- true": "--",
	} {
		_, err := call(t, append([]string{"--output", "json"}, strings.Fields(line+" ")...)...)
		if err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := call(t, "submit", "--dry-run", "--", "cat", "foo.yaml"); err != nil {
		t.Errorf("a command that has a file: %v", err)
	}
	help, err := call(t, "submit", "--help")
	if err != nil || strings.Contains(help, "--output pilotage") || !strings.Contains(help, "--output [LFN=]PLACE") {
		t.Errorf("help of --output: %v\n%s", err, help)
	}
}

// The file on standard input is read like any other.
func TestSubmitReadsStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte("apiVersion: pilotage/v1\nkind: Workflow\nname: piped\ntasks: {only: {shell: 'true'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = file
	t.Cleanup(func() { os.Stdin = before; _ = file.Close() })
	if out, err := call(t, "submit", "--dry-run", "-f", "-"); err != nil || !strings.Contains(out, "only") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFetchReplacesNothingUnasked(t *testing.T) {
	_, urls := elements(t)
	file, err := upload(t, urls["file"], sourceFile(t, "content"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		target string
		force  bool
		there  bool
		code   int
	}{
		{filepath.Join(dir, "absent"), false, false, 0},
		{write("same", "content"), false, true, 0},
		{write("same size", "CONTENT"), false, false, exitConflict},
		{write("other", "other"), false, false, exitConflict},
		{write("forced", "other"), true, false, 0},
		{dir, true, false, exitUsage},
	} {
		there, err := mayWrite(c.target, taskpb.File(file), c.force)
		if there != c.there || (err != nil) != (c.code != 0) || err != nil && exitCode(t.Context(), err) != c.code {
			t.Errorf("%s: %v, %v", c.target, there, err)
		}
	}
	// One that may not be written keeps the others from being written.
	other, err := upload(t, storage.FileURL(t.TempDir()), sourceFile(t, "second"))
	if err != nil {
		t.Fatal(err)
	}
	other.LFN = "other"
	first := taskpb.File(file)
	first.Lfn = "new"
	err = workflowCommands{testApp()}.fetchOutputs(t.Context(), nil, []*pb.File{first, taskpb.File(other)}, dir, false)
	if _, made := os.Stat(filepath.Join(dir, "new")); err == nil || made == nil {
		t.Errorf("fetched although one is in the way: %v, %v", err, made)
	}
	if err := (workflowCommands{testApp()}).fetchOutputs(t.Context(), nil, []*pb.File{first}, dir, false); err != nil {
		t.Error(err)
	}
}

func TestAccessFilesAreNotReplacedUnasked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.json")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, "access", "create", "--role", "submit", "--to", path)
	if err == nil || exitCode(t.Context(), err) != exitConflict || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over an existing file: %v", err)
	}
	for text, want := range map[string]time.Duration{"1d": 24 * time.Hour, "90m": 90 * time.Minute, "0.5d": 12 * time.Hour} {
		if got, err := parseLife(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "NaNd", "soon", "1e9d"} {
		if got, err := parseLife(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// What is said twice is said once.
func TestReasonsAreSaidOnce(t *testing.T) {
	clauses := []*pb.ClauseCount{{Clause: "a > 1", Pilots: 2}}
	for why, want := range map[string]string{
		"0 of 2 pilots can run it: 2 fail a > 1": "0 of 2 pilots can run it: 2 fail a > 1",
		"is being drained":                       "is being drained; 2 pilots fail `a > 1`",
		"":                                       "2 pilots fail `a > 1`",
	} {
		if got := whyText(&pb.SiteExplanation{Why: why, Clauses: clauses}); got != want {
			t.Errorf("%q became %q, want %q", why, got, want)
		}
	}
	text := explain(status.Error(codes.Unauthenticated, "expired: ask the VO's admin for a new access file"))
	if strings.Count(text, "access file") != 1 {
		t.Errorf("two hints: %q", text)
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"task list w --state ": "QUARANTINED", "access create --role ": "submit",
	} {
		out, err := call(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	// Without a queue there are no names and no complaint.
	for _, line := range []string{"site show ", "workflow wait ", "pilot drain ", "pilot list --site ", "task list "} {
		out, err := call(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if err != nil || !strings.HasPrefix(out, ":4") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// What cannot be uploaded is found before anything is, also by a dry run.
func TestMissingSourcesAreFoundFirst(t *testing.T) {
	dir := t.TempDir()
	text := "apiVersion: pilotage/v1\nkind: Workflow\nname: w\nfiles: {a: {source: a}, b: {source: gone}, c: {source: .}}\ntasks: {t: {shell: cat a b c, inputs: [a, b, c]}}\n"
	for name, content := range map[string]string{"w.yaml": text, "a": "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := testApp().submit(t.Context(), &submitFlags{file: filepath.Join(dir, "w.yaml"), dryRun: true}, nil)
	if err == nil || exitCode(t.Context(), err) != exitUsage {
		t.Fatalf("error %v, want one of usage", err)
	}
	if text := err.Error(); !strings.Contains(text, "file b: ") || !strings.Contains(text, "file c: ") || strings.Contains(text, "file a: ") {
		t.Errorf("error %q, want one about b and one about c", text)
	}
}

// A payload that did not begin has no exit code, and nothing is said twice.
func TestEndsOfAttempts(t *testing.T) {
	const why = "cannot start ./x: it does not exist"
	o := &pb.Outcome{ExitCode: -1, Reason: why, MaxMemoryBytes: 3 << 20}
	row := rowsOf([]*pb.Attempt{{Outcome: o, State: pb.AttemptState_ATTEMPT_STATE_FAILED}}, attemptRow)[0]
	if row[4] != "-" || row[6] != "3MiB" {
		t.Errorf("exit %q, memory %q: want - and 3MiB", row[4], row[6])
	}
	for _, c := range []struct {
		o          *pb.Outcome
		said, want string
	}{
		{o, "payload failed after 2 attempts: " + why, ""},
		{o, "gave up", ": " + why},
		{&pb.Outcome{ExitCode: 3, Reason: "exit code 3"}, "gave up", ": exit code 3"},
		{&pb.Outcome{ExitCode: 3, Reason: "exit code 3"}, "payload failed: exit code 3", ""},
		{&pb.Outcome{Reason: "output x is missing"}, "payload failed: output x is missing", ": exit code 0"},
		{&pb.Outcome{ExitCode: -1, Signal: "SIGTERM", Reason: "walltime 1s exceeded"}, "", ": signal SIGTERM: walltime 1s exceeded"},
	} {
		if got := endText(c.o, c.said); got != c.want {
			t.Errorf("%v after %q: %q, want %q", c.o, c.said, got, c.want)
		}
	}
}
