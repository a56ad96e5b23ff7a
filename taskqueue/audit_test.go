package taskqueue_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Who did what, and what ran where, is kept in a chain that shows every change; what is
// old leaves the database, and the chain goes on.
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
			for {
				page, broken := g.rules.AuditAfter(turn, check.Last)
				if broken != nil {
					return broken
				}
				if err = check.Follow(page); err != nil || len(page.Records) == 0 {
					return nil
				}
			}
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

	// What is a day old is to leave the database, but the newest record; the chain goes on.
	toClose := func() (old taskqueue.AuditSegment) {
		g.view(func(turn *taskqueue.Turn) (err error) {
			old, err = g.rules.AuditToClose(turn)
			return err
		})
		return old
	}
	if old := toClose(); len(old.Records) > 0 {
		t.Errorf("to be closed at once: %+v", old)
	}
	g.tick(25 * time.Hour)
	old := toClose()
	if len(old.Records) == 0 || !reflect.DeepEqual(old.Records, records()[:len(records())-1]) {
		t.Errorf("to be closed: %+v", old)
	}
	g.must(func(turn *taskqueue.Turn) error {
		more, err := g.rules.DropAudit(turn, old.Records[len(old.Records)-1].At)
		if more {
			t.Error("some are left")
		}
		return err
	})
	if left := records(); len(left) != 1 {
		t.Errorf("left in the database: %+v", left)
	}
	g.mustSubmit(taskqueue.Submission{Name: "later", Tasks: []task.Task{job("t", nil, nil)}})
	if check, err := verify(); err != nil || check.Records != 2 {
		t.Errorf("after the old ones have gone: %+v, %v", check, err)
	}
	whole := taskqueue.AuditCheck{}
	g.view(func(turn *taskqueue.Turn) error {
		page, err := g.rules.AuditAfter(turn, 0)
		if err := errors.Join(err, whole.Follow(old), whole.Follow(page)); err != nil || whole.Records != len(kept)+1 {
			t.Errorf("the whole chain: %+v, %v", whole, err)
		}
		return nil
	})
}

// Of a busy queue 10,000 entries leave the database at a time, however young they are.
func TestMuchAuditLeavesTheDatabase(t *testing.T) {
	g := newGrid(t)
	note := func(entries int) {
		g.must(func(turn *taskqueue.Turn) error {
			for range entries {
				entry := taskqueue.AuditEntry{Kind: taskqueue.AuditSubmitted, Person: "alice"}
				if err := g.rules.Note(turn, entry); err != nil { // a record of its own
					return err
				}
			}
			return nil
		})
	}
	var old taskqueue.AuditSegment
	look := func(turn *taskqueue.Turn) (err error) {
		old, err = g.rules.AuditToClose(turn)
		return err
	}
	const each = 30
	for range 9_999 / each {
		note(each)
	}
	note(9)
	note(1) // the newest stays
	if g.view(look); len(old.Records) > 0 {
		t.Fatalf("%d records below the limit are to be closed", len(old.Records))
	}
	note(1)
	g.view(look)
	entries := 0
	for i := range old.Records {
		entries += len(old.Records[i].Entries)
	}
	if entries != 10_000 {
		t.Errorf("%d entries are to be closed", entries)
	}
	pages := 1
	for more := true; more; pages++ {
		g.must(func(turn *taskqueue.Turn) (err error) {
			more, err = g.rules.DropAudit(turn, old.Records[len(old.Records)-1].At)
			return err
		})
	}
	g.view(func(turn *taskqueue.Turn) error {
		page, err := g.rules.AuditAfter(turn, 0)
		var check taskqueue.AuditCheck
		if err = errors.Join(err, check.Follow(old), check.Follow(page)); err != nil || len(page.Records) != 1 || pages < 2 {
			t.Errorf("%d records are left after %d pages: %v", len(page.Records), pages, err)
		}
		return nil
	})
}
