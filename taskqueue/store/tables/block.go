package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"slices"
)

// Rows are kept by the block: an engine then writes one value where many rows
// changed that are neighbours. A full block fills a page of SQLite.
const (
	fullBlock  = 1900 // bytes of its value
	smallBlock = fullBlock / 4
)

// block is a stretch of the ordered keys with the rows that are in it. Blocks
// follow each other without a gap, so that a key that is in no block is known
// to be absent, and a block that is missing is noticed.
type block struct {
	lower, upper []byte // its keys are from lower on and before upper; nil: to the end
	rows         []Row
	sum          uint32 // checksum of what is kept
	kept         bool   // the engine has it under lower
	changed      bool
	shrunk       bool // rows were taken away
	appended     bool // the last row that came is at the end
}

// covers tells whether a key is in the block's stretch, or, with below, the keys
// just below it are.
func (b *block) covers(key []byte, below bool) bool {
	if below {
		return bytes.Compare(b.lower, key) < 0 && (b.upper == nil || bytes.Compare(key, b.upper) <= 0)
	}
	return bytes.Compare(b.lower, key) <= 0 && (b.upper == nil || bytes.Compare(key, b.upper) < 0)
}

func (b *block) search(key []byte) (at int, found bool) {
	return slices.BinarySearchFunc(b.rows, key, func(row Row, key []byte) int { return bytes.Compare(row.Key, key) })
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a value and the key that it stands under.
func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

const checksumSize = 4

// seal appends the checksum to a value.
func seal(key, value []byte) ([]byte, uint32) {
	sum := checksum(key, value)
	return binary.BigEndian.AppendUint32(value, sum), sum
}

var errChecksum = errors.New("it does not fit its checksum")

// unseal returns the value of a row whose checksum fits.
func unseal(row Row) (value []byte, sum uint32, err error) {
	end := len(row.Value) - checksumSize
	if end < 0 {
		return nil, 0, errChecksum
	}
	sum = checksum(row.Key, row.Value[:end])
	if sum != binary.BigEndian.Uint32(row.Value[end:]) {
		return nil, 0, errChecksum
	}
	return row.Value[:end], sum, nil
}

// A block is kept as its upper bound, empty for none, and its rows. Of each key
// only what follows the start that it has in common with the one before is written:
//
//	length upper (shared length rest length value)*
func encodeHead(upper []byte, rows int) []byte {
	size := numberSize(len(upper)) + len(upper) + rows + checksumSize
	return append(binary.AppendUvarint(make([]byte, 0, size), uint64(len(upper))), upper...)
}

// sharedStart is how many bytes at their start two keys have in common.
func sharedStart(before, key []byte) (shared int) {
	for shared < len(before) && shared < len(key) && before[shared] == key[shared] {
		shared++
	}
	return shared
}

// numberSize is how many bytes a length takes.
func numberSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// rowSize is how many bytes appendRow appends.
func rowSize(before []byte, row Row) int {
	shared := sharedStart(before, row.Key)
	rest := len(row.Key) - shared
	return numberSize(shared) + numberSize(rest) + rest + numberSize(len(row.Value)) + len(row.Value)
}

func appendRow(value []byte, before []byte, row Row) []byte {
	shared := sharedStart(before, row.Key)
	value = binary.AppendUvarint(value, uint64(shared))
	value = binary.AppendUvarint(value, uint64(len(row.Key)-shared))
	value = append(value, row.Key[shared:]...)
	value = binary.AppendUvarint(value, uint64(len(row.Value)))
	return append(value, row.Value...)
}

// piece is what is kept of a block, or of a part of one that has grown too large.
type piece struct {
	rows  int // that are in it
	upper []byte
	value []byte
	sum   uint32
}

// pieces encodes a block. One that is too large is cut: in halves where rows come one
// by one, and into full pieces where many came together or all come at the end.
func (b *block) pieces() []piece {
	whole := b.cut(fullBlock)
	if len(whole) != 2 || b.appended {
		return whole
	}
	return b.cut((len(whole[0].value)+len(whole[1].value))/2 + checksumSize)
}

func (b *block) cut(limit int) (found []piece) {
	lower := b.lower
	for from := 0; from < len(b.rows) || len(found) == 0; {
		size, before, to := 0, []byte(nil), from
		for to < len(b.rows) {
			next := size + rowSize(before, b.rows[to])
			if to > from && next > limit {
				break
			}
			size, before, to = next, b.rows[to].Key, to+1
		}
		upper := b.upper
		if to < len(b.rows) {
			upper = b.rows[to].Key
		}
		value := encodeHead(upper, size)
		before = nil
		for _, row := range b.rows[from:to] {
			value = appendRow(value, before, row)
			before = row.Key
		}
		value, sum := seal(lower, value)
		found = append(found, piece{to - from, upper, value, sum})
		from, lower = to, upper
	}
	return found
}

var errCut = errors.New("it is cut off")

// decodeBlock reads a block, which refers to the value afterwards.
func decodeBlock(row Row) (*block, error) {
	value, sum, err := unseal(row)
	if err != nil {
		return nil, err
	}
	upper, value, ok := cutPart(value)
	if !ok {
		return nil, errCut
	}
	b := &block{lower: row.Key, sum: sum, kept: true}
	if len(upper) > 0 {
		b.upper = upper
	}
	rows, keys, before := 0, 0, 0 // how many there are, and the bytes of all keys and of one
	for left := value; len(left) > 0; rows++ {
		r, after, ok := cutRow(left)
		if !ok || r.shared > uint64(before) {
			return nil, errCut
		}
		before = int(r.shared) + len(r.rest)
		keys += before
		left = after
	}
	b.rows = make([]Row, rows)
	all := make([]byte, 0, keys)
	var key []byte
	for i := range b.rows {
		var r keptRow
		r, value, _ = cutRow(value)
		from := len(all)
		all = append(append(all, key[:r.shared]...), r.rest...)
		key = all[from:len(all):len(all)]
		b.rows[i] = Row{key, r.value}
	}
	return b, nil
}

// keptRow is a row as a block keeps it.
type keptRow struct {
	shared      uint64
	rest, value []byte
}

// cutRow takes the first row of what is left of a block.
func cutRow(left []byte) (r keptRow, after []byte, ok bool) {
	shared, n := binary.Uvarint(left)
	if n <= 0 {
		return r, nil, false
	}
	if r.rest, after, ok = cutPart(left[n:]); ok {
		r.value, after, ok = cutPart(after)
	}
	r.shared = shared
	return r, after, ok
}

// cutPart takes a part, behind its length, of what is left of a block.
func cutPart(left []byte) (part, after []byte, ok bool) {
	length, n := binary.Uvarint(left)
	if n <= 0 || length > uint64(len(left)-n) {
		return nil, nil, false
	}
	end := n + int(length)
	return left[n:end:end], left[end:], true
}
