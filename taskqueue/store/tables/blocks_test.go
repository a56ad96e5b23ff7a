package tables

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// emptyStore is a store without rows; what is written to it is thrown away.
type emptyStore struct{ Transaction }

func (emptyStore) Scan(Span, func(Row) (bool, error)) error { return nil }

// However many rows come between others in one transaction, as those of the readers of
// many files do, each moves only some of them.
func TestBlocksStaySmall(t *testing.T) {
	b := &blocks{in: emptyStore{}}
	const rows = 20_000
	for _, n := range rand.Perm(rows) {
		if err := b.put(Row{binary.BigEndian.AppendUint32([]byte{firstKey[0]}, uint32(n)), []byte{byte(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	found, upper := 0, b.cached[0].lower
	for _, x := range b.cached {
		if string(x.lower) != string(upper) {
			t.Fatalf("a block begins at %x, and the one before ends at %x", x.lower, upper)
		}
		if upper = x.upper; len(x.rows) > mostRows {
			t.Errorf("a block has %d rows", len(x.rows))
		}
		for _, row := range x.rows {
			if n := binary.BigEndian.Uint32(row.Key[1:]); int(n) != found || row.Value[0] != byte(n) || !x.covers(row.Key, false) {
				t.Fatalf("row %d is %x: %x", found, row.Key, row.Value)
			}
			found++
		}
	}
	if found != rows || upper != nil {
		t.Errorf("%d rows of %d, up to %x", found, rows, upper)
	}
}
