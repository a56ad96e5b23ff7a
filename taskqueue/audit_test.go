package taskqueue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Who did what, and what ran where, is kept in a chain that shows every change; what is
// old goes, and the chain goes on.
func TestAuditLog(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 2)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", By: taskqueue.Person{Name: "alice"}, Tasks: []task.Task{job("good", nil, nil), job("bad", nil, nil)}})
	a.sync()
	good, bad := a.start(task.NewID(w, "good"), a.members[0]), a.start(task.NewID(w, "bad"), a.members[0])
	a.end(good.id.Task, a.succeed(good))
	a.end(bad.id.Task, a.fail(bad, task.PayloadFailed))
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		turn.By, turn.Token = taskqueue.Person{Name: "bob"}, "token"
		_, err := g.rules.CancelWorkflow(turn, w)
		return err
	})
	g.must(func(turn *taskqueue.Turn) error { return g.rules.Deny(turn, string(a.members[0].id)) })
	records := func() (records []taskqueue.AuditRecord) {
		g.view(func(turn *taskqueue.Turn) (err error) {
			records, err = turn.Audit().After(0, 1000)
			return err
		})
		return records
	}
	var said []string
	for _, record := range records() {
		for _, e := range record.Entries {
			said = append(said, e.Kind+" "+e.Person)
			if e.Kind == taskqueue.AuditSite && !strings.Contains(e.Note, "SE: file:///se/A; RemoteRead: true") {
				t.Errorf("the settings of a site: %+v", e)
			}
			if e.Kind == taskqueue.AuditRan && (e.Pilot != a.members[0].id || e.Site != "A" || e.Node == "" || e.Ended.IsZero()) {
				t.Errorf("an attempt: %+v", e)
			}
		}
	}
	want := []string{"site changed ", "registered ", "submitted alice", "ran alice", "ran alice", "cancelled bob", "revoked "}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(said)), want) {
		t.Errorf("%q, want %q", said, want)
	}
	verify := func() (check taskqueue.AuditCheck, err error) {
		g.view(func(turn *taskqueue.Turn) error {
			for done := false; !done && err == nil; {
				done, err = g.rules.VerifyAudit(turn, &check)
			}
			return nil
		})
		return check, err
	}
	if check, err := verify(); err != nil || check.Entries != len(said) {
		t.Errorf("%+v, %v", check, err)
	}
	kept := records()
	forge := func(change func(*taskqueue.Turn) error) {
		t.Helper()
		g.must(change)
		if _, err := verify(); !errors.Is(err, taskqueue.ErrAuditBroken) {
			t.Errorf("a forged log: %v", err)
		}
		g.must(func(turn *taskqueue.Turn) error {
			for _, record := range kept {
				if err := turn.Audit().Append(record); err != nil {
					return err
				}
			}
			return nil
		})
	}
	forge(func(turn *taskqueue.Turn) error { return turn.Audit().Delete(kept[1].At) })
	forge(func(turn *taskqueue.Turn) error {
		changed := kept[2]
		changed.Entries = slices.Clone(changed.Entries)
		changed.Entries[0].Person = "mallory"
		return turn.Audit().Append(changed)
	})
	g.tick(181 * 24 * time.Hour)
	before := len(records())
	g.mustSubmit(taskqueue.Submission{Name: "later", Tasks: []task.Task{job("t", nil, nil)}})
	if left := records(); len(left) != before+1 || left[0].At <= kept[len(kept)-1].At {
		t.Errorf("kept for ever: %+v", left)
	}
	if check, err := verify(); err != nil || check.Records != before+1 {
		t.Errorf("after the old ones have gone: %+v, %v", check, err)
	}
}
