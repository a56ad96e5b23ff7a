package record_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

func TestBindAndUnbind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 40).Draw(t, "records")
		blob := record.Bind(records)
		got, err := record.Unbind(blob, len(records))
		if err != nil || !reflect.DeepEqual(got, records) {
			t.Fatalf("got %v, %v\nwant %v", got, err, records)
		}
		if len(records) == 1 {
			return
		}
		for _, damaged := range [][]byte{blob[:len(blob)-1], append(blob[:len(blob):len(blob)], 0), nil} {
			if got, err := record.Unbind(damaged, len(records)); err == nil {
				t.Fatalf("%d bytes of %d give %v", len(damaged), len(blob), got)
			}
		}
	})
}

func TestUnbindNothing(t *testing.T) {
	for _, number := range []int{-1, 0, 1 << 40} {
		if got, err := record.Unbind([]byte{1, 2}, number); err == nil {
			t.Errorf("%d records: %v", number, got)
		}
	}
}
