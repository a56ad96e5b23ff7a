package storetest

import (
	"bytes"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testAttempts(t *testing.T, store taskqueue.Store) {
	a := attempt("w-aaaaaaaaaa/a", "p-aaaaaaaa", 1, taskqueue.AttemptRunning)
	b := attempt("w-aaaaaaaaaa/a", "p-bbbbbbbb", 1, taskqueue.AttemptRunning)
	a.Outcome.Stdout, a.Outcome.Stderr = []byte("out"), []byte("err")
	none := a.Outcome.Attempt
	none.Lease++
	update(t, store, func(tx taskqueue.Tx) error { return tx.Attempts().Save(a, b) })
	a.Outcome.Stdout, a.Outcome.Stderr = nil, nil
	changed := a
	changed.State, changed.Outcome.OK = taskqueue.AttemptSucceeded, true
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "in the order asked, without output", []taskqueue.Attempt{b, a})(tx.Attempts().Load(b.Outcome.Attempt, none, a.Outcome.Attempt))
		return tx.Attempts().Save(changed)
	})
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "replaced", []taskqueue.Attempt{changed})(tx.Attempts().Load(a.Outcome.Attempt))
	})
}

func testAttemptScans(t *testing.T, store taskqueue.Store) {
	const id, other = task.ID("w-aaaaaaaaaa/a"), task.ID("w-aaaaaaaaaa/aa")
	save := func(attempts ...taskqueue.Attempt) {
		update(t, store, func(tx taskqueue.Tx) error { return tx.Attempts().Save(attempts...) })
	}
	save(attempt(id, "p-bbbbbbbb", 3, taskqueue.AttemptRunning), attempt(id, "p-aaaaaaaa", 9, taskqueue.AttemptRunning))
	save(attempt(other, "p-bbbbbbbb", 2, taskqueue.AttemptRunning), attempt(id, "p-aaaaaaaa", 4, taskqueue.AttemptLost))
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "of task, by first report", counterOf, uint64(3), 9, 4)(tx.Attempts().OfTask(id))
		list(t, "of unknown task", counterOf)(tx.Attempts().OfTask("w-aaaaaaaaaa/"))
		list(t, "running", counterOf, uint64(3), 2)(tx.Attempts().RunningAt("p-bbbbbbbb"))
		list(t, "running elsewhere", counterOf, uint64(9))(tx.Attempts().RunningAt("p-aaaaaaaa"))
		list(t, "running nowhere", counterOf)(tx.Attempts().RunningAt("p-cccccccc"))
	})
	save(attempt(id, "p-bbbbbbbb", 3, taskqueue.AttemptFailedState), attempt(id, "p-aaaaaaaa", 4, taskqueue.AttemptRunning))
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "order stays", counterOf, uint64(3), 9, 4)(tx.Attempts().OfTask(id))
		list(t, "ended", counterOf, uint64(2))(tx.Attempts().RunningAt("p-bbbbbbbb"))
		list(t, "running again", counterOf, uint64(9), 4)(tx.Attempts().RunningAt("p-aaaaaaaa"))
	})
}

func testLogs(t *testing.T, store taskqueue.Store) {
	id := attempt("w-aaaaaaaaaa/a", "p-aaaaaaaa", 1, taskqueue.AttemptRunning).Outcome.Attempt
	check := func(tx taskqueue.Tx, wantOut, wantErr string) {
		t.Helper()
		stdout, stderr, err := tx.Attempts().LoadLog(id)
		if err != nil || string(stdout) != wantOut || string(stderr) != wantErr {
			t.Fatalf("log %.20q %.20q %v, want %.20q %.20q", stdout, stderr, err, wantOut, wantErr)
		}
	}
	long := string(bytes.Repeat([]byte{0, 0xff, '\n'}, task.LogTail/3))
	update(t, store, func(tx taskqueue.Tx) error {
		check(tx, "", "")
		return tx.Attempts().SaveLog(id, []byte(long), nil)
	})
	update(t, store, func(tx taskqueue.Tx) error {
		check(tx, long, "")
		return tx.Attempts().SaveLog(id, nil, []byte("oops"))
	})
	view(t, store, func(tx taskqueue.Tx) { check(tx, "", "oops") })
}
