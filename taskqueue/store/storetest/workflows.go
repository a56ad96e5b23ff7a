package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testWorkflows(t *testing.T, store taskqueue.Store) {
	a := taskqueue.Workflow{ID: flowA, Name: "search", Key: "key-a", Counts: map[task.State]int{task.Ready: 2}}
	b := taskqueue.Workflow{ID: flowB, Name: "search"}
	elsewhere := a
	elsewhere.Created = time.Date(2024, 7, 1, 14, 30, 0, 5, time.FixedZone("CEST", 7200))
	a.Created = elsewhere.Created.UTC()
	update(t, store, func(tx taskqueue.Tx) error { return tx.Workflows().Save(elsewhere, b) })
	changed := a
	changed.Sealed, changed.Key = true, "key-c"
	update(t, store, func(tx taskqueue.Tx) error {
		workflows := tx.Workflows()
		want(t, "in the order asked, absent left out", []taskqueue.Workflow{b, a})(workflows.Load(flowB, "w-cccccccccc", flowA))
		want(t, "by key", flowA)(workflows.ByKey("key-a"))
		want(t, "by unknown key", task.WorkflowID(""))(workflows.ByKey("key"))
		want(t, "no key is no key", task.WorkflowID(""))(workflows.ByKey(""))
		return workflows.Save(changed)
	})
	update(t, store, func(tx taskqueue.Tx) error {
		workflows := tx.Workflows()
		want(t, "replaced", []taskqueue.Workflow{changed})(workflows.Load(flowA))
		want(t, "by the key before", task.WorkflowID(""))(workflows.ByKey("key-a"))
		want(t, "by the new key", flowA)(workflows.ByKey("key-c"))
		return workflows.Delete(flowA, "w-cccccccccc")
	})
	view(t, store, func(tx taskqueue.Tx) {
		want[[]taskqueue.Workflow](t, "deleted", nil)(tx.Workflows().Load(flowA))
		want(t, "key of the deleted", task.WorkflowID(""))(tx.Workflows().ByKey("key-c"))
		list(t, "list without the deleted", flowOf, flowB)(tx.Workflows().List("", "", 10))
	})
}

func testWorkflowList(t *testing.T, store taskqueue.Store) {
	id := func(n int) task.WorkflowID { return task.WorkflowID(fmt.Sprintf("w-%010d", (n*7)%10)) }
	for n := range 6 {
		update(t, store, func(tx taskqueue.Tx) error {
			return tx.Workflows().Save(taskqueue.Workflow{ID: id(n), Name: []string{"even", "odd"}[n%2], Key: "same"})
		})
	}
	update(t, store, func(tx taskqueue.Tx) error { // an old one stays old
		return tx.Workflows().Save(taskqueue.Workflow{ID: id(0), Name: "even", Key: "same", Sealed: true})
	})
	view(t, store, func(tx taskqueue.Tx) {
		workflows := tx.Workflows()
		list(t, "newest first", flowOf, id(5), id(4), id(3), id(2), id(1), id(0))(workflows.List("", "", 10))
		list(t, "limit", flowOf, id(5), id(4))(workflows.List("", "", 2))
		list(t, "next page", flowOf, id(3), id(2))(workflows.List("", id(4), 2))
		list(t, "last page", flowOf, id(0))(workflows.List("", id(1), 2))
		list(t, "after the last", flowOf)(workflows.List("", id(0), 2))
		list(t, "by name", flowOf, id(4), id(2), id(0))(workflows.List("even", "", 10))
		list(t, "by name, next page", flowOf, id(0))(workflows.List("even", id(2), 10))
		list(t, "by name, after one of another name", flowOf, id(2), id(0))(workflows.List("even", id(3), 10))
		list(t, "by unknown name", flowOf)(workflows.List("eve", "", 10))
		if found, err := workflows.List("", "w-cccccccccc", 10); !errors.Is(err, taskqueue.ErrWorkflowGone) || len(found) > 0 {
			t.Errorf("after an unknown one: %d, %v", len(found), err)
		}
		list(t, "limit 0", flowOf)(workflows.List("", "", 0))
		want(t, "newest of a key", id(5))(workflows.ByKey("same"))
	})
}
