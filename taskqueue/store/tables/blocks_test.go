package tables

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
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

// What is kept of a block takes no more memory than its bytes, and the pieces of a block
// have its rows.
func TestPiecesOfABlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &block{lower: firstKey, appended: rapid.Bool().Draw(t, "appended")}
		for _, key := range rapid.SliceOfDistinct(rapid.SliceOfN(rapid.Byte(), 0, 200), func(key []byte) string { return string(key) }).Draw(t, "keys") {
			value := make([]byte, rapid.SampledFrom([]int{0, 1, 127, 128, fullBlock, 1 << 14}).Draw(t, "bytes"))
			b.rows = append(b.rows, Row{append(slices.Clone(firstKey), key...), value})
		}
		slices.SortFunc(b.rows, func(x, y Row) int { return bytes.Compare(x.Key, y.Key) })
		var rows []Row
		lower := b.lower
		for _, p := range b.pieces() {
			if cap(p.value) > len(p.value)+len(p.value)/4+64 { // the allocator rounds up
				t.Errorf("%d bytes take %d", len(p.value), cap(p.value))
			}
			read, err := decodeBlock(Row{lower, p.value})
			if err != nil {
				t.Fatal(err)
			}
			rows, lower = append(rows, read.rows...), p.upper
		}
		if !slices.EqualFunc(rows, b.rows, func(x, y Row) bool { return bytes.Equal(x.Key, y.Key) && bytes.Equal(x.Value, y.Value) }) {
			t.Errorf("%d rows of %d are read back", len(rows), len(b.rows))
		}
	})
}
