package taskqueue_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (g *grid) garbage() (all []task.Replica) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) (err error) {
		all, err = t.Files().Garbage(100)
		return err
	})
	return all
}

// TestForgedCopiesAreNeitherKeptNorDeleted: a copy counts only on the storage
// element of the site that reports it, and only an attempt's own is deleted.
func TestForgedCopiesAreNeitherKeptNorDeleted(t *testing.T) {
	for _, forged := range []string{
		"file:///etc/passwd", "file:///se/B/x", "file:///se/A/../B/x", "https://elsewhere.example/x", "file:///se/A",
	} {
		t.Run(forged, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			a.join("peer1", 2)
			w := g.mustSubmit(taskqueue.Submission{
				Name: "w", Outputs: []string{"x"}, Tasks: []task.Task{job("t", nil, []string{"x"}), job("u", nil, []string{"y"})},
			})
			id, x, y := task.NewID(w, "t"), task.Qualify(w, "x"), task.Qualify(w, "y")
			a.sync()
			won, failed := a.start(id, a.members[0]), a.start(task.NewID(w, "u"), a.members[0])
			a.next.Stored = []task.Stored{{LFN: x, Attempt: won.id, URL: forged}}
			a.sync()
			good := a.succeed(won)
			good.Outputs[0].URL = forged
			a.end(id, good)
			bad := a.fail(failed, task.PayloadFailed)
			bad.Outputs = []task.Produced{{LFN: y, URL: forged}}
			a.end(failed.id.Task, bad)
			a.sync()
			a.next.Stored = []task.Stored{
				{LFN: x, Attempt: won.id, URL: forged}, {LFN: y, Attempt: failed.id, URL: forged},
				{LFN: "none", Attempt: won.id, URL: forged}, {LFN: "none", URL: forged},
			}
			a.sync()
			g.expect(task.Done, id)
			if f := g.file(x); len(f.Replicas) != 0 {
				t.Errorf("kept as a copy: %v", f.Replicas)
			}
			if garbage := g.garbage(); len(garbage) != 0 {
				t.Errorf("to be deleted: %v", garbage)
			}
			g.check()
		})
	}
}

// TestOnlyAnAttemptsOwnCopyIsDeleted: not even on its own storage element may
// a pilot have another's file deleted.
func TestOnlyAnAttemptsOwnCopyIsDeleted(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("ext", 5, "A")}, Tasks: []task.Task{job("t", []string{"ext"}, []string{"x"})}})
	id, x := task.NewID(w, "t"), task.Qualify(w, "x")
	a.sync()
	failed := a.start(id, a.members[0])
	a.end(id, a.fail(failed, task.PayloadFailed))
	a.sync()
	own := a.url(task.File{LFN: x, Producer: failed.id})
	a.next.Stored = []task.Stored{
		{LFN: x, Attempt: failed.id, URL: "file:///se/A/ext"}, {LFN: task.Qualify(w, "ext"), Attempt: failed.id, URL: "file:///se/A/ext"},
		{LFN: x, Attempt: failed.id, URL: own},
	}
	a.sync()
	if garbage := g.garbage(); len(garbage) != 1 || garbage[0].URL != own {
		t.Errorf("to be deleted: %v, want %s only", garbage, own)
	}
}

// TestNobodyStoresAnExternalFile: a report without an attempt adds no copy to
// a file that came from outside.
func TestNobodyStoresAnExternalFile(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	g.addSite("B")
	a.join("peer1", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("ext", 5, "B")}, Tasks: []task.Task{job("t", []string{"ext"}, nil)}})
	name := task.Qualify(w, "ext")
	a.next.Stored = []task.Stored{{LFN: name, URL: "file:///se/A/forged"}}
	a.sync()
	if f := g.file(name); len(f.Replicas) != 1 {
		t.Errorf("copies %v", f.Replicas)
	}
	g.view(func(turn *taskqueue.Turn) error {
		found, err := turn.Attempts().Load(task.AttemptID{})
		if len(found) != 0 {
			t.Errorf("booked with attempt %+v", found)
		}
		return err
	})
	if garbage := g.garbage(); len(garbage) != 0 {
		t.Errorf("to be deleted: %v", garbage)
	}
}
