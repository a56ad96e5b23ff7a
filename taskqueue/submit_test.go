package taskqueue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func TestBadSubmissionsAreRefusedByName(t *testing.T) {
	many := func(n int) (tasks []task.Task) {
		for i := range n {
			tasks = append(tasks, job(fmt.Sprintf("t[%d]", i), nil, nil))
		}
		return tasks
	}
	shell := job("both", nil, nil)
	shell.Shell = "true"
	cases := map[string]struct {
		submission taskqueue.Submission
		want       error
		says       string
	}{
		"no task":     {taskqueue.Submission{Name: "w"}, taskqueue.ErrInvalid, "has no task"},
		"no name":     {taskqueue.Submission{Tasks: many(1)}, taskqueue.ErrInvalid, "workflow name"},
		"task itself": {taskqueue.Submission{Name: "w", Tasks: []task.Task{shell}}, taskqueue.ErrInvalid, "both: give exactly one of argv and shell"},
		"same name": {taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", nil, nil), job("x", nil, nil)}},
			taskqueue.ErrInvalid, "two tasks are named x"},
		"two producers": {taskqueue.Submission{Name: "w", Tasks: []task.Task{
			job("one", nil, []string{"f"}), job("two", nil, []string{"f"})}},
			taskqueue.ErrInvalid, "f has two producers: tasks one and two"},
		"declared and made": {taskqueue.Submission{Name: "w", Files: []task.File{at("f", 1, "A")},
			Tasks: []task.Task{job("one", nil, []string{"f"})}},
			taskqueue.ErrInvalid, "f is declared as existing, and task one makes it"},
		"declared twice": {taskqueue.Submission{Name: "w", Files: []task.File{at("f", 1, "A"), at("f", 1, "A")}, Tasks: many(1)},
			taskqueue.ErrInvalid, "f is declared twice"},
		"declared nowhere": {taskqueue.Submission{Name: "w", Files: []task.File{at("f", 1)}, Tasks: many(1)},
			taskqueue.ErrInvalid, "f is declared and is nowhere"},
		"unknown site": {taskqueue.Submission{Name: "w", Files: []task.File{at("f", 1, "Z")}, Tasks: many(1)},
			taskqueue.ErrInvalid, "site Z"},
		"own output": {taskqueue.Submission{Name: "w", Tasks: []task.Task{{
			ID: "/x", Argv: []string{"x"}, Resources: task.Resources{Cores: 1, Memory: 1}, Walltime: time.Hour,
			Inputs:  []task.Input{{LFN: "f", Name: "in"}},
			Outputs: []task.Output{{LFN: "f", Name: "out"}},
		}}}, taskqueue.ErrInvalid, "task x reads its own output f"},
		"cycle": {taskqueue.Submission{Name: "w", Tasks: []task.Task{
			job("start", nil, []string{"s"}), job("a", []string{"s", "fc"}, []string{"fa"}),
			job("b", []string{"fa"}, []string{"fb"}), job("c", []string{"fb"}, []string{"fc"}), job("end", []string{"fc"}, nil)}},
			taskqueue.ErrInvalid, "cycle: a -> b -> c -> a"},
		"unknown input": {taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", []string{"typo.txt"}, nil)}},
			taskqueue.ErrInvalid, "typo.txt (read by task x)"},
		"unknown output": {taskqueue.Submission{Name: "w", Tasks: many(1), Outputs: []string{"nothing"}},
			taskqueue.ErrInvalid, "no task makes the workflow's output nothing"},
		"bad file name": {taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", []string{"../etc"}, nil)}},
			taskqueue.ErrInvalid, `".."`},
		"shared output": {taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", nil, []string{"vo:f"})}},
			taskqueue.ErrInvalid, "registered, not made"},
		"too many":        {taskqueue.Submission{Name: "w", Tasks: many(11)}, taskqueue.ErrLimit, "at most 10"},
		"later part":      {taskqueue.Submission{Name: "w", Tasks: many(1), Key: "k", Part: 1}, taskqueue.ErrConflict, "begin with part 0"},
		"unknown parent":  {taskqueue.Submission{Name: "w", Tasks: many(1), Workflow: "w-aaaaaaaaaa", Part: 1}, taskqueue.ErrNotFound, "w-aaaaaaaaaa"},
		"bad adler":       {taskqueue.Submission{Name: "w", Tasks: many(1), Files: []task.File{{LFN: "f", Adler32: "xyz"}}}, taskqueue.ErrInvalid, "adler32"},
		"control in name": {taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", nil, []string{"a\x01"})}}, taskqueue.ErrInvalid, `'\x01'`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			g.rules.Config.Workflow.MaxTasks = 10
			g.addSite("A")
			_, err := g.submit(c.submission)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, c.want, c.says)
			}
			g.view(func(turn *taskqueue.Turn) error {
				list, err := turn.Workflows().List("", "", "", 10)
				if len(list) != 0 {
					t.Errorf("half a workflow is left: %+v", list)
				}
				return err
			})
		})
	}
}

func TestSubmissionInPartsIsHandedOutWhenComplete(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 4)
	first := taskqueue.Submission{Name: "w", Key: "k", More: true, Tasks: []task.Task{job("two", []string{"x"}, nil), job("three", nil, nil)}}
	out, err := g.submit(first)
	if err != nil {
		t.Fatal(err)
	}
	a.sync()
	if len(a.held()) != 0 {
		t.Fatalf("an incomplete workflow is handed out: %v", a.held())
	}
	again, err := g.submit(first)
	if err != nil || !again.Existed || again.Workflow != out.Workflow {
		t.Fatalf("the part sent again: %+v, %v", again, err)
	}
	// With other content it would make a mixture of what was sent first and what follows.
	changed := first
	changed.Sent = task.Digest{1}
	if _, err := g.submit(changed); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("another part in the place of the first: %v", err)
	}
	gap := taskqueue.Submission{Name: "w", Key: "k", Part: 2, Tasks: []task.Task{job("four", nil, nil)}}
	if _, err := g.submit(gap); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("part 2 before part 1: %v", err)
	}
	// A sealing part that is wrong is refused as a whole and may be corrected.
	last := taskqueue.Submission{Name: "w", Key: "k", Part: 1, Tasks: []task.Task{job("one", []string{"typo"}, []string{"x"})}}
	if _, err := g.submit(last); !errors.Is(err, taskqueue.ErrInvalid) {
		t.Errorf("a wrong last part: %v", err)
	}
	a.sync()
	if len(a.held()) != 0 || g.workflow(out.Workflow).Total() != 2 {
		t.Fatalf("a refused part left traces: %v, %d tasks", a.held(), g.workflow(out.Workflow).Total())
	}
	last.Tasks[0] = job("one", nil, []string{"x"})
	if _, err := g.submit(last); err != nil {
		t.Fatal(err)
	}
	if again, err := g.submit(last); err != nil || !again.Existed {
		t.Errorf("the last part sent again: %+v, %v", again, err)
	}
	if again, err := g.submit(changed); err != nil || !again.Existed {
		t.Errorf("a part sent again of a workflow that is complete: %+v, %v", again, err)
	}
	late := taskqueue.Submission{Name: "w", Key: "k", Part: 2, Tasks: []task.Task{job("late", nil, nil)}}
	if _, err := g.submit(late); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("a part after the last: %v", err)
	}
	other := first
	other.Name = "other"
	if _, err := g.submit(other); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("another workflow with the same key: %v", err)
	}
	g.check()
	a.sync()
	if len(a.held()) != 3 {
		t.Errorf("A holds %v, want all three", a.held())
	}
}

func TestIncompleteWorkflowIsDropped(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RegisterFiles(turn, []task.File{at("common", 1, "A")}, "")
		return err
	})
	w := g.mustSubmit(taskqueue.Submission{
		Name: "w", Key: "k", More: true, Files: []task.File{at("f", 1, "A")},
		Tasks: []task.Task{job("one", []string{"common", "f"}, []string{"x"})},
	})
	g.tick(59 * time.Minute)
	g.workflow(w)
	g.tick(2 * time.Minute)
	g.view(func(turn *taskqueue.Turn) error {
		left, err := turn.Workflows().Load(w)
		files, err2 := turn.Files().List("w-", "", 10)
		if len(left) > 0 || len(files) > 0 {
			t.Errorf("left: %v, %v", left, files)
		}
		return errors.Join(err, err2)
	})
	g.check()
}

func TestRegisteredFilesServeEveryWorkflow(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B", func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
	a.join("peerA", 1)
	b.join("peerB", 1)
	register := func(files ...task.File) (n int, err error) {
		err = g.update(func(turn *taskqueue.Turn) error {
			n, err = g.rules.RegisterFiles(turn, files, "")
			return err
		})
		return n, err
	}
	file := at("genome.fa", 7, "A")
	file.Adler32 = "0A1B2C3D"
	if n, err := register(file); n != 1 || err != nil {
		t.Fatalf("registered %d, %v", n, err)
	}
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("x", []string{"genome.fa"}, nil), job("y", []string{"vo:genome.fa"}, nil)}})
	x := task.NewID(w, "x")
	b.sync()
	if len(b.held()) != 0 {
		t.Fatalf("B got %v and may not read A's storage element", b.held())
	}
	changed := at("genome.fa", 8, "A")
	if _, err := register(changed); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("other content under the same name: %v", err)
	}
	if n, err := register(at("genome.fa", 7, "B")); n != 0 || err != nil {
		t.Errorf("a further copy: %d, %v", n, err)
	}
	g.check()
	b.sync()
	if len(b.held()) == 0 {
		t.Error("B has a copy now and gets nothing")
	}
	if in := g.file("vo:genome.fa"); len(in.Replicas) != 2 || in.Uses != 2 {
		t.Errorf("catalogue: %+v", in)
	}
	g.view(func(turn *taskqueue.Turn) error {
		specs, err := turn.Tasks().Describe(x)
		if specs[0].Inputs[0].LFN != "vo:genome.fa" || specs[0].Inputs[0].Name != "genome.fa" {
			t.Errorf("input bound to %+v", specs[0].Inputs[0])
		}
		return err
	})
}

func TestMissingInputMayComeLater(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	w := g.mustSubmit(taskqueue.Submission{Name: "w", AllowMissing: true, Tasks: []task.Task{job("x", []string{"late"}, nil)}})
	g.expect(task.Blocked, task.NewID(w, "x"))
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RegisterFiles(turn, []task.File{at("late", 1, "A")}, "")
		return err
	})
	g.expect(task.Ready, task.NewID(w, "x"))
	g.check()
}

func TestResubmissionRunsOnlyWhatChanged(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 4)
	submission := func(arg string) taskqueue.Submission {
		changed := job("right", []string{"in"}, []string{"r"})
		changed.Argv = append(changed.Argv, arg)
		return taskqueue.Submission{
			Name: "w", Files: []task.File{at("in", 3, "A")}, Outputs: []string{"m"},
			Tasks: []task.Task{
				job("left", []string{"in"}, []string{"l"}), changed, job("merge", []string{"l", "r"}, []string{"m"}),
			},
		}
	}
	run := func(s taskqueue.Submission) taskqueue.Submitted {
		t.Helper()
		out, err := g.submit(s)
		if err != nil {
			t.Fatal(err)
		}
		g.check()
		for range 4 {
			a.sync()
			a.work()
			for _, name := range a.made() {
				a.upload(name)
			}
		}
		a.sync()
		if w := g.workflow(out.Workflow); !w.Finished() {
			t.Fatalf("not finished: %+v", w)
		}
		g.check()
		return out
	}
	first := run(submission("1"))
	if first.Reused != 0 {
		t.Errorf("the first run took over %d tasks", first.Reused)
	}
	same := run(submission("1"))
	if same.Reused != 3 {
		t.Errorf("the same again took over %d tasks, want 3", same.Reused)
	}
	if x, y := g.file(task.Qualify(first.Workflow, "m")), g.file(task.Qualify(same.Workflow, "m")); x.Digest != y.Digest || len(y.Replicas) != 1 {
		t.Errorf("the output taken over differs: %+v", y)
	}
	if changed := run(submission("2")); changed.Reused != 1 {
		t.Errorf("with one task of three changed and one after it, %d were taken over, want 1", changed.Reused)
	}
	other := submission("2")
	other.Files[0].Size = 4
	if out := run(other); out.Reused != 0 {
		t.Errorf("with another input, %d were taken over", out.Reused)
	}
	fresh := other
	fresh.Fresh = true
	if out := run(fresh); out.Reused != 0 {
		t.Errorf("with Fresh, %d were taken over", out.Reused)
	}
}
