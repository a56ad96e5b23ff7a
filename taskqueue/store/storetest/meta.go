package storetest

import (
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testMeta(t *testing.T, store taskqueue.Store) {
	update(t, store, func(tx taskqueue.Tx) error {
		meta := tx.Meta()
		want[[]byte](t, "absent value", nil)(meta.Get("clock"))
		want(t, "first number", uint64(1))(meta.Next("lease", 5))
		want(t, "number after five", uint64(6))(meta.Next("lease", 1))
		want(t, "another counter", uint64(1))(meta.Next("seq", 1))
		return first(meta.Set("clock", []byte{1, 2}), meta.Set("lease", []byte("value")))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		meta := tx.Meta()
		want(t, "value", []byte{1, 2})(meta.Get("clock"))
		want(t, "value named as a counter", []byte("value"))(meta.Get("lease"))
		want(t, "counter named as a value", uint64(7))(meta.Next("lease", 0))
		want(t, "counter after adding nothing", uint64(7))(meta.Next("lease", 2))
		return first(meta.Set("clock", []byte{3}), meta.Set("lease", []byte{}))
	})
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "replaced value", []byte{3})(tx.Meta().Get("clock"))
		want[[]byte](t, "removed value", nil)(tx.Meta().Get("lease"))
	})
}
