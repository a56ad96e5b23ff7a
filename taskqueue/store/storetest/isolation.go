package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

var errAbort = errors.New("abort")

// writes touches every table.
var writes = map[string]func(taskqueue.Tx) error{
	"Meta.Set":    func(tx taskqueue.Tx) error { return tx.Meta().Set("a", []byte("b")) },
	"Meta.Next":   func(tx taskqueue.Tx) error { _, err := tx.Meta().Next("n", 1); return err },
	"Workflows":   func(tx taskqueue.Tx) error { return tx.Workflows().Save(taskqueue.Workflow{ID: flowB, Key: "k"}) },
	"Workflows-":  func(tx taskqueue.Tx) error { return tx.Workflows().Delete(flowB) },
	"Tasks.Add":   func(tx taskqueue.Tx) error { _, s := made("new", 77, task.Ready); return add(tx, s) },
	"Tasks.Save":  func(tx taskqueue.Tx) error { _, s := made("kept", 1, task.Leased); return tx.Tasks().Save(s) },
	"Tasks-":      func(tx taskqueue.Tx) error { return deleteWorkflow(tx, flowA, 1) },
	"Files":       func(tx taskqueue.Tx) error { return tx.Files().Save(file("vo:a", []task.Site{"siteA"})) },
	"Files-":      func(tx taskqueue.Tx) error { return tx.Files().Delete("vo:kept") },
	"AddUses":     func(tx taskqueue.Tx) error { return tx.Files().AddUses("w-aaaaaaaaaa/b", "vo:a") },
	"SaveClass":   func(tx taskqueue.Tx) error { return tx.Files().SaveClass(taskqueue.Eligibility{ID: 1}) },
	"AddGarbage":  func(tx taskqueue.Tx) error { return tx.Files().AddGarbage(task.Replica{URL: "u"}) },
	"DropGarbage": func(tx taskqueue.Tx) error { return tx.Files().DropGarbage(task.Replica{URL: "kept"}) },
	"Attempts": func(tx taskqueue.Tx) error {
		return tx.Attempts().Save(attempt("w-aaaaaaaaaa/b", "p-aaaaaaaa", 1, taskqueue.AttemptRunning))
	},
	"SaveLog": func(tx taskqueue.Tx) error { return tx.Attempts().SaveLog(task.AttemptID{}, []byte("o"), nil) },
	"Leases":  func(tx taskqueue.Tx) error { return tx.Leases().Save(taskqueue.Lease{ID: 1, Site: "siteA"}) },
	"Leases-": func(tx taskqueue.Tx) error { return tx.Leases().Delete(9) },
	"Revoke":  func(tx taskqueue.Tx) error { return tx.Leases().Revoke(taskqueue.Revocation{Site: "siteA", Lease: 1}) },
	"Confirm": func(tx taskqueue.Tx) error { return tx.Leases().Confirm(taskqueue.Revocation{Site: "siteA", Lease: 9}) },
	"Sites":   func(tx taskqueue.Tx) error { return tx.Sites().Save(taskqueue.SiteRecord{Name: "siteA"}) },
	"Pilots": func(tx taskqueue.Tx) error {
		return tx.Pilots().Save(taskqueue.PilotRecord{ID: "p-aaaaaaaa", Peer: "x", Site: "siteA", State: taskqueue.PilotAlive})
	},
	"Usage": func(tx taskqueue.Tx) error {
		return tx.Usage().Save(taskqueue.Usage{UsageKey: someUsages[0], Tasks: 1})
	},
	"Grants": func(tx taskqueue.Tx) error { return tx.Grants().Save(taskqueue.Grant{ID: "g"}) },
}

// prepare puts into the store what some of writes remove or replace.
func prepare(tx taskqueue.Tx) error {
	_, kept := made("kept", 1, task.Ready)
	return first(add(tx, kept), tx.Files().Save(file("vo:kept", []task.Site{"siteA"})),
		tx.Files().AddGarbage(task.Replica{URL: "kept"}), tx.Leases().Save(taskqueue.Lease{ID: 9, Site: "siteA"}),
		tx.Leases().Revoke(taskqueue.Revocation{Site: "siteA", Lease: 9}))
}

func testChanged(t *testing.T, store taskqueue.Store) {
	update(t, store, prepare)
	for name, write := range writes {
		want := name != "Workflows-" // there is none
		aborted(t, store, func(tx taskqueue.Tx) error {
			if tx.Changed() {
				t.Errorf("%s: the store has changed before anything was written", name)
			}
			if err := write(tx); err != nil || tx.Changed() != want {
				t.Errorf("%s: changed %v, want %v: %v", name, tx.Changed(), want, err)
			}
			return errAbort
		})
	}
	aborted(t, store, func(tx taskqueue.Tx) error {
		err := first(tx.Leases().Save(taskqueue.Lease{ID: 9, Site: "siteA"}), tx.Files().AddGarbage(task.Replica{URL: "kept"}))
		if err != nil || tx.Changed() {
			t.Errorf("what is there already was written: changed %v, want false: %v", tx.Changed(), err)
		}
		return errAbort
	})
}

func aborted(t *testing.T, store taskqueue.Store, write func(taskqueue.Tx) error) {
	t.Helper()
	if err := store.Update(context.Background(), write); !errors.Is(err, errAbort) {
		t.Errorf("error %v, want %v", err, errAbort)
	}
}

func testReadOnly(t *testing.T, store taskqueue.Store) {
	update(t, store, prepare)
	before := dump(t, store)
	for name, write := range writes {
		view(t, store, func(tx taskqueue.Tx) {
			if err := write(tx); !errors.Is(err, taskqueue.ErrReadOnly) {
				t.Errorf("%s in a View: error %v, want ErrReadOnly", name, err)
			}
		})
	}
	if after := dump(t, store); after != before {
		t.Errorf("Views changed the store:\n got %s\nwant %s", after, before)
	}
}

func testTxOver(t *testing.T, store taskqueue.Store) {
	var kept taskqueue.Tx
	update(t, store, func(tx taskqueue.Tx) error {
		kept = tx
		return prepare(tx)
	})
	before := dump(t, store)
	for name, write := range writes {
		if err := write(kept); !errors.Is(err, taskqueue.ErrTxOver) {
			t.Errorf("%s after the end: error %v, want ErrTxOver", name, err)
		}
	}
	if after := dump(t, store); after != before {
		t.Errorf("a Tx changed the store after its end:\n got %s\nwant %s", after, before)
	}
}

func testRollback(t *testing.T, store taskqueue.Store) {
	update(t, store, prepare)
	before := dump(t, store)
	for name, write := range writes {
		err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
			return first(write(tx), errAbort)
		})
		if !errors.Is(err, errAbort) {
			t.Errorf("%s: error %v, want the function's own", name, err)
		}
		if after := dump(t, store); after != before {
			t.Fatalf("%s was left behind by a failed Update:\n got %s\nwant %s", name, after, before)
		}
	}
	for name, write := range writes { // each of them does something
		if name == "Meta.Next" || name == "Tasks-" { // used below; takes away what others need
			continue
		}
		update(t, store, write)
	}
	if after := dump(t, store); after == before {
		t.Error("writes changed nothing")
	}
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "number of a counter that was rolled back", uint64(1))(tx.Meta().Next("n", 1))
		return nil
	})
}

func testSwallowedError(t *testing.T, store taskqueue.Store) {
	update(t, store, prepare)
	before := dump(t, store)
	err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
		_, kept := made("kept", 5, task.Ready)
		_, added := made("added", 6, task.Ready)
		if err := add(tx, added, kept); !errors.Is(err, taskqueue.ErrTaskExists) {
			t.Errorf("added again: error %v", err)
		}
		return tx.Meta().Set("a", []byte("b"))
	})
	if !errors.Is(err, taskqueue.ErrTaskExists) {
		t.Errorf("error %v, want the write's own", err)
	}
	if after := dump(t, store); after != before {
		t.Errorf("half of an Update was kept:\n got %s\nwant %s", after, before)
	}
}

func testPanic(t *testing.T, store taskqueue.Store) {
	before := dump(t, store)
	func() {
		defer func() {
			if got, ok := recover().(error); !ok || !errors.Is(got, errAbort) {
				t.Errorf("recovered %v, want the function's own panic", got)
			}
		}()
		_ = store.Update(context.Background(), func(tx taskqueue.Tx) error {
			if err := tx.Meta().Set("a", []byte("b")); err != nil {
				return err
			}
			panic(errAbort)
		})
	}()
	if after := dump(t, store); after != before {
		t.Errorf("a panic left something behind:\n got %s\nwant %s", after, before)
	}
	update(t, store, prepare)
}

func testReadYourWrites(t *testing.T, store taskqueue.Store) {
	update(t, store, func(tx taskqueue.Tx) error {
		_, a := made("a", 1, task.Ready)
		_, b := made("b", 2, task.Ready)
		if err := add(tx, a, b); err != nil {
			return err
		}
		a.State, a.Lease = task.Leased, 4
		if err := tx.Tasks().Save(a); err != nil {
			return err
		}
		list(t, "ready", nameOf, "b")(tx.Tasks().ReadyIn(0, 0, 10))
		list(t, "leased", nameOf, "a")(tx.Tasks().InLease(4))
		want(t, "classes", map[taskqueue.ClassID]int{0: 1})(tx.Tasks().ReadyClasses())
		return nil
	})
}

func testViewDuringUpdate(t *testing.T, store taskqueue.Store) {
	update(t, store, func(tx taskqueue.Tx) error { return tx.Meta().Set("n", []byte("before")) })
	update(t, store, func(tx taskqueue.Tx) error {
		if err := tx.Meta().Set("n", []byte("after")); err != nil {
			return err
		}
		view(t, store, func(other taskqueue.Tx) {
			want(t, "seen beside a running Update", []byte("before"))(other.Meta().Get("n"))
		})
		return nil
	})
	view(t, store, func(tx taskqueue.Tx) { want(t, "seen after it", []byte("after"))(tx.Meta().Get("n")) })
}

func testViewIsStable(t *testing.T, store taskqueue.Store) {
	set := func(value string) {
		update(t, store, func(tx taskqueue.Tx) error {
			return first(tx.Meta().Set("n", []byte(value)), tx.Files().Save(file(task.LFN("vo:"+value), nil)))
		})
	}
	set("before")
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "first read", []byte("before"))(tx.Meta().Get("n"))
		set("after")
		want(t, "second read", []byte("before"))(tx.Meta().Get("n"))
		list(t, "another table", lfnOf, "vo:before")(tx.Files().List("", "", 10))
	})
}

func testContext(t *testing.T, store taskqueue.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	forbidden := func(taskqueue.Tx) error {
		t.Error("the function was called although the context had ended")
		return nil
	}
	if err := store.Update(ctx, forbidden); !errors.Is(err, context.Canceled) {
		t.Errorf("Update: error %v, want context.Canceled", err)
	}
	if err := store.View(ctx, forbidden); !errors.Is(err, context.Canceled) {
		t.Errorf("View: error %v, want context.Canceled", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	err := store.Update(ctx, func(tx taskqueue.Tx) error {
		cancel()
		return tx.Meta().Set("a", []byte("b"))
	})
	if err != nil {
		t.Errorf("cancelled while running: error %v, want none", err)
	}
	view(t, store, func(tx taskqueue.Tx) { want(t, "value", []byte("b"))(tx.Meta().Get("a")) })
}
