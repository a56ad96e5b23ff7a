package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/factory/batch"
)

// recorded plays commands from answers, and keeps what was asked.
type recorded struct {
	words  []string
	stdout string
	stderr string
	err    error
}

func (r *recorded) run(_ context.Context, words []string) (string, string, error) {
	r.words = words
	return r.stdout, r.stderr, r.err
}

func system(t *testing.T, name string, r *recorded) batch.System {
	t.Helper()
	text, err := batch.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := batch.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return batch.New(d, r.run, "alice")
}

func job(t *testing.T) *batch.Job {
	dir := t.TempDir()
	return &batch.Job{
		Name: "pabcd0000001", Script: filepath.Join(dir, "s"), Log: filepath.Join(dir, "l"), Arguments: []string{"--x=1", "--y=a b"},
		Exclude: []string{"n1", "n2"}, Command: "pilotage pilot --idle 10m", Access: `{"token":"secret"}`, User: "alice",
	}
}

var answers = []struct {
	system, submitted, id, listed string
	jobs                          []factory.Listed
	excludes                      string // among the words of the submission
}{
	{
		"slurm", "17\n", "17",
		"17|pabcd0000001|R|node7|None\n18|pabcd0000002|PD||Resources\n19|other name|CG|node7|None\n",
		[]factory.Listed{{ID: "17", Name: "pabcd0000001", Node: "node7", State: factory.Running, Why: "None"},
			{ID: "18", Name: "pabcd0000002", State: factory.Pending, Why: "Resources"}, {ID: "19", Name: "other name", Node: "node7", State: factory.Ended, Why: "None"}},
		"--exclude=n1,n2",
	},
	{
		"gridengine", "5\n", "5",
		`<?xml version='1.0'?>
<job_info><queue_info>
    <job_list state="running">
      <JB_job_number>5</JB_job_number>
      <JAT_prio>0.55500</JAT_prio>
      <JB_name>pabcd0000001</JB_name>
      <JB_owner>alice</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-24T15:12:41</JAT_start_time>
      <queue_name>all.q@node7.example.org</queue_name>
      <slots>1</slots>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>6</JB_job_number>
      <JB_name>pabcd0000002</JB_name>
      <state>qw</state>
      <queue_name></queue_name>
      <slots>1</slots>
    </job_list>
  </job_info></job_info>`,
		[]factory.Listed{{ID: "5", Name: "pabcd0000001", Node: "node7", State: factory.Running}, {ID: "6", Name: "pabcd0000002", State: factory.Pending}},
		"hostname=!(n1|n2)",
	},
	{
		"arc", "Job submitted with jobid: https://ce.example.org:8443/arex/rest/1.0/jobs/abc\n", "https://ce.example.org:8443/arex/rest/1.0/jobs/abc",
		"Job: https://ce.example.org:8443/arex/a\n Name: pabcd0000001\n State: Running\n\nJob: https://ce.example.org:8443/arex/b\n Name: pabcd0000002\n State: Queuing\n\nStatus of 2 jobs was queried, 2 jobs returned information\n",
		[]factory.Listed{{ID: "https://ce.example.org:8443/arex/a", Name: "pabcd0000001", State: factory.Running}, {ID: "https://ce.example.org:8443/arex/b", Name: "pabcd0000002", State: factory.Pending}},
		"",
	},
	{
		"htcondor", "12.0 - 12.0\n", "12.0",
		"12.0 pabcd0000001 2 slot1_1@node7.example.org\n13.0 pabcd0000002 1 undefined\n",
		[]factory.Listed{{ID: "12.0", Name: "pabcd0000001", Node: "node7", State: factory.Running}, {ID: "13.0", Name: "pabcd0000002", Node: "undefined", State: factory.Pending}},
		`requirements=!regexp("^(n1|n2)(\\.|$)", Machine)`,
	},
	{
		"pbs", "9.server\n", "9.server",
		"Job Id: 9.server\n    Job_Name = pabcd0000001\n    Job_Owner = alice@login\n    job_state = R\n    queue = workq\n    exec_host = node7/0*8\n\nJob Id: 10.server\n    Job_Name = pabcd0000002\n    job_state = Q\n    queue = workq\n",
		[]factory.Listed{{ID: "9.server", Name: "pabcd0000001", Node: "node7", State: factory.Running}, {ID: "10.server", Name: "pabcd0000002", State: factory.Pending}},
		"",
	},
	{
		"kubernetes", "job.batch/pabcd0000001\n", "pabcd0000001",
		"pabcd0000001   pabcd0000001   Running   node7\npabcd0000002   pabcd0000002   Pending   <none>\n",
		[]factory.Listed{{ID: "pabcd0000001", Name: "pabcd0000001", Node: "node7", State: factory.Running}, {ID: "pabcd0000002", Name: "pabcd0000002", Node: "<none>", State: factory.Pending}},
		"",
	},
}

func TestAnswersOfBatchSystemsAreRead(t *testing.T) {
	known := []string{"local"}
	for _, a := range answers {
		known = append(known, a.system)
		t.Run(a.system, func(t *testing.T) {
			r := &recorded{stdout: a.submitted}
			s, j := system(t, a.system, r), job(t)
			id, err := s.Submit(t.Context(), j)
			if err != nil || id != a.id {
				t.Fatalf("submitted as %q, %v", id, err)
			}
			if a.excludes != "" && !slices.Contains(r.words, a.excludes) {
				t.Errorf("%q lacks %q", r.words, a.excludes)
			}
			if a.system != "kubernetes" && !slices.Contains(r.words, "--y=a b") {
				t.Errorf("%q lacks an argument of the site", r.words)
			}
			script, err := os.ReadFile(j.Script)
			if err != nil || !strings.Contains(string(script), j.Command) || !strings.Contains(string(script), "secret") {
				t.Errorf("script %q, %v", script, err)
			}
			if info, err := os.Stat(j.Script); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("the script, which holds an access, has mode %v, %v", info.Mode(), err)
			}
			if slices.ContainsFunc(r.words, func(word string) bool { return strings.Contains(word, "secret") }) {
				t.Errorf("the access is among the arguments: %q", r.words)
			}
			r.stdout = a.listed
			jobs, err := s.List(t.Context())
			if err != nil || !slices.Equal(jobs, a.jobs) {
				t.Errorf("listed\n%+v, want\n%+v, %v", jobs, a.jobs, err)
			}
			if err := s.Cancel(t.Context(), "1", "2"); err != nil || !slices.Contains(r.words, "1") || !slices.Contains(r.words, "2") {
				t.Errorf("cancelled with %q, %v", r.words, err)
			}
		})
	}
	slices.Sort(known)
	if names := batch.Names(); !slices.Equal(names, known) {
		t.Errorf("%v ship, tested are %v", names, known)
	}
}

// What is certain not to exist is told from what may exist.
func TestRefusalsAreCertain(t *testing.T) {
	exit := exec.Command("false").Run()
	for name, c := range map[string]struct {
		answer  recorded
		certain bool
	}{
		"exit code":      {recorded{stderr: "sbatch: error: invalid account", err: exit}, true},
		"no command":     {recorded{err: exec.ErrNotFound}, true},
		"no answer":      {recorded{err: context.DeadlineExceeded}, false},
		"no id":          {recorded{stdout: "hello"}, false},
		"killed command": {recorded{err: exec.CommandContext(expired(t), "sleep", "9").Run()}, false},
		"late answer":    {recorded{stderr: "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", err: exit}, false},
	} {
		if _, err := system(t, "slurm", &c.answer).Submit(t.Context(), job(t)); err == nil || errors.Is(err, batch.ErrRefused) != c.certain {
			t.Errorf("%s: %v, want certain %t", name, err, c.certain)
		}
	}
}

func expired(t *testing.T) context.Context {
	ctx, stop := context.WithDeadline(t.Context(), time.Now())
	stop()
	return ctx
}

// A job that Grid Engine takes with a warning is there.
func TestGridEngineWarns(t *testing.T) {
	answer := recorded{stderr: "Unable to run job: warning: alice's job is not allowed to run in any queue\nYour job 1 (\"pabcd0000001\") has been submitted\nExiting.", err: exec.Command("false").Run()}
	if _, err := system(t, "gridengine", &answer).Submit(t.Context(), job(t)); err == nil || errors.Is(err, batch.ErrRefused) {
		t.Errorf("%v: the job is there", err)
	}
}

// Nothing to list is told from an answer that is none.
func TestGarbageIsNoList(t *testing.T) {
	empty := map[string]string{
		"gridengine": "<?xml version='1.0'?>\n<job_info>\n  <queue_info>\n  </queue_info>\n  <job_info>\n  </job_info>\n</job_info>\n",
		"arc":        "No jobs found, try later\n",
	}
	for _, name := range batch.Names() {
		if name == "local" {
			continue
		}
		jobs, err := system(t, name, &recorded{stdout: empty[name]}).List(t.Context())
		if err != nil || len(jobs) != 0 {
			t.Errorf("%s: %v, %v of an empty list", name, jobs, err)
		}
		for _, garbage := range []string{"\x00\xff<html>502 Bad Gateway</html>", "Segmentation fault\n", "Last login: Tue Nov 24\n*** maintenance on Monday ***\n"} {
			if jobs, err := system(t, name, &recorded{stdout: garbage}).List(t.Context()); err == nil {
				t.Errorf("%s takes %q for the list %v", name, garbage, jobs)
			}
		}
	}
}

// The list of a thousand jobs, some with names that others chose, is read at once.
func TestListsOfAThousandJobs(t *testing.T) {
	var slurm, ge strings.Builder
	ge.WriteString("<job_info>")
	for i := range 1000 {
		name := fmt.Sprintf("pabcd%07d", i)
		if i%10 == 0 {
			name = "a &lt;b&gt; R Q"
		}
		fmt.Fprintf(&slurm, "%d|%s|R|n%d|None\n", i+1, name, i)
		fmt.Fprintf(&ge, "<job_list state=\"running\">\n<JB_job_number>%d</JB_job_number>\n<JB_name>%s</JB_name>\n<state>r</state>\n<queue_name>all.q@n%d.x</queue_name>\n</job_list>\n", i+1, name, i)
	}
	for name, printed := range map[string]string{"slurm": slurm.String(), "gridengine": ge.String() + "</job_info>"} {
		jobs, err := system(t, name, &recorded{stdout: printed}).List(t.Context())
		if err != nil || len(jobs) != 1000 || jobs[999].Name != "pabcd0000999" || jobs[999].Node != "n999" || jobs[999].State != factory.Running {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
		}
	}
}

func TestGoneJobsAreNoErrorToCancel(t *testing.T) {
	s := system(t, "slurm", &recorded{stderr: "scancel: error: Kill job error on job id 7: Invalid job id specified", err: errors.New("exit status 1")})
	if err := s.Cancel(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	if err := system(t, "slurm", &recorded{stderr: "slurm_load_jobs error: Unable to contact slurm controller", err: errors.New("exit status 1")}).Cancel(t.Context(), "7"); err == nil {
		t.Error("an unreachable controller is no error")
	}
	if _, err := system(t, "slurm", &recorded{stderr: "Unable to contact slurm controller", err: errors.New("exit status 1")}).List(t.Context()); err == nil {
		t.Error("an unreachable controller lists no jobs")
	}
}

func TestBadDefinitions(t *testing.T) {
	good, err := batch.Text("slurm")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"name: slurm", "name: slurm\nunknown: 1"},
		{"(?P<id>\\d+)\\|", "(\\d+)\\|"},
		{"PD: pending", "PD: waiting"},
		{"unsure: (?i)timed out", "unsure: (timed out"},
		{"{{.Script}}", "{{.Script"},
		{"name: slurm", "name: slurm\ntimeout: never"},
		{"command: [scancel, '{{.IDs}}']", "command: []"},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		if text == string(good) {
			t.Errorf("%q is not in the definition", change[0])
		}
		if _, err := batch.Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", change[1])
		}
	}
	if _, err := batch.Parse(append(good, "\nunknown: 1\n"...)); err == nil || !strings.Contains(err.Error(), `unknown key "unknown"`) || strings.Contains(err.Error(), "Definition") {
		t.Errorf("an unknown key: %v", err)
	}
	if _, err := batch.Text("../systems/slurm"); err == nil {
		t.Error("a path is taken for a name")
	}
	_, err = batch.Text("lsf")
	if err == nil || !strings.Contains(err.Error(), "slurm") {
		t.Errorf("an unknown system: %v", err)
	}
}

// Commands that run elsewhere get their words as they are.
func TestOverAnotherShell(t *testing.T) {
	out, _, err := batch.Over("sh", "-c")(t.Context(), []string{"printf", "%s|", "a b", "it's", "$HOME", "x\ny"})
	if err != nil || out != "a b|it's|$HOME|x\ny|" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestLocalJobs(t *testing.T) {
	dir := t.TempDir()
	l := &batch.Local{Folder: dir, Places: 1, Node: "here"}
	submit := func(name, command string) {
		t.Helper()
		j := &batch.Job{Name: name, Script: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"), Command: command, Access: "{}"}
		if id, err := l.Submit(t.Context(), j); err != nil || id != name {
			t.Fatalf("%q, %v", id, err)
		}
	}
	state := func(name string) factory.State {
		t.Helper()
		again := &batch.Local{Folder: dir, Places: 1, Node: "here"} // another process finds the same
		jobs, err := again.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			if job.Name == name {
				return job.State
			}
		}
		return factory.Ended
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		again := time.NewTicker(10 * time.Millisecond) // processes tell of nothing
		defer again.Stop()
		for !holds() {
			select {
			case <-again.C:
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	until := func(name string, want factory.State) {
		t.Helper()
		eventually(fmt.Sprintf("%s is not %s", name, want), func() bool { return state(name) == want })
	}
	submit("a", `sh -c 'cat "$PILOTAGE_ACCESS"; exec sleep 1000'`)
	submit("b", "sleep 1000")
	submit("c", "sleep 1000")
	if state("a") != factory.Running || state("b") != factory.Pending {
		t.Fatalf("a is %s, b %s", state("a"), state("b"))
	}
	if err := l.Cancel(t.Context(), "c", "unknown"); err != nil {
		t.Fatal(err)
	}
	if state("c") != factory.Ended {
		t.Errorf("c is %s after it was cancelled", state("c"))
	}
	eventually("job a does not see its access", func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "a.log"))
		return err == nil && string(log) == "{}"
	})
	if err := l.Cancel(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until("a", factory.Ended)
	until("b", factory.Running)
	if err := l.Cancel(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	until("b", factory.Ended)
	if _, err := os.Stat(filepath.Join(dir, "b.job")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of an ended job: %v", err)
	}
}
