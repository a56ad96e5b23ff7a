package tables

import (
	"bytes"
	"fmt"
	"slices"
)

// blocks are the blocks that a View, or the writer, has read or changed, in order.
type blocks struct {
	in     Transaction
	cached []*block
	last   *block // that was used last
	size   int    // bytes that were read or put since the cache was emptied
	total  total  // of all blocks, as it is when the changed ones are written
	undo   []Row  // what the last Update found in the place of what it wrote; no value: nothing
	stuck  bool   // that cannot be undone here any more
}

// mostCached bounds the bytes of the blocks that a transaction keeps in memory.
const mostCached = 4 << 20

// find returns the block that covers a key, or, with below, the keys just below it.
func (b *blocks) find(key []byte, below bool) (*block, error) {
	if b.last != nil && b.last.covers(key, below) {
		return b.last, nil
	}
	at, found := slices.BinarySearchFunc(b.cached, key, func(x *block, key []byte) int { return bytes.Compare(x.lower, key) })
	if found && !below {
		at++
	}
	if at > 0 && b.cached[at-1].covers(key, below) {
		b.last = b.cached[at-1]
		return b.last, nil
	}
	loaded, err := b.load(key, below)
	if err != nil {
		return nil, err
	}
	b.insert(loaded)
	b.last = loaded
	return loaded, nil
}

// insert puts a block into the cache.
func (b *blocks) insert(x *block) {
	at, _ := slices.BinarySearchFunc(b.cached, x.lower, func(x *block, key []byte) int { return bytes.Compare(x.lower, key) })
	b.cached = slices.Insert(b.cached, at, x)
}

// firstKey is where the first block begins.
var firstKey = []byte{byte(head) + 1}

// load reads the block that covers a key from the engine.
func (b *blocks) load(key []byte, below bool) (found *block, err error) {
	span := Span{Before: key, Down: true}
	if !below {
		span.Before = append(slices.Clip(key), 0)
	}
	empty := true
	err = b.in.Scan(span, func(row Row) (bool, error) {
		if empty = false; Table(row.Key[0]) == head {
			return false, fmt.Errorf("%w: the first rows are missing", ErrDamaged)
		}
		if found, err = decodeBlock(row); err != nil {
			return false, damagedAt(row.Key, err)
		}
		b.size += len(row.Value)
		return false, nil
	})
	if err == nil && empty {
		found = &block{lower: firstKey} // of a new store
	}
	if err == nil && !found.covers(key, below) {
		err = damagedAt(found.upper, errGap)
	}
	b.stuck = b.stuck || err != nil // the engine may have given up the transaction
	return found, err
}

// makeRoom writes what has changed and empties the cache if it is full.
func (b *blocks) makeRoom() error {
	if b.size < mostCached {
		return nil
	}
	err := b.flush()
	b.stuck = b.stuck || err != nil || len(b.undo) > 0
	b.empty()
	return err
}

func (b *blocks) empty() { b.cached, b.last, b.size, b.undo = nil, nil, 0, nil }

// begin begins an Update.
func (b *blocks) begin() { b.undo, b.stuck = nil, false }

// takeBack undoes what was done since begin, and tells whether it could.
func (b *blocks) takeBack() bool {
	if b.stuck {
		return false
	}
	for len(b.undo) > 0 {
		last := b.undo[len(b.undo)-1]
		b.undo = b.undo[:len(b.undo)-1]
		if b.set(last) != nil {
			return false
		}
	}
	return true
}

// get returns the value of a key, nil if it is absent.
func (b *blocks) get(key []byte) ([]byte, error) {
	if err := b.makeRoom(); err != nil {
		return nil, err
	}
	x, err := b.find(key, false)
	if err != nil {
		return nil, err
	}
	if at, found := x.search(key); found {
		return x.rows[at].Value, nil
	}
	return nil, nil
}

// put writes a row over the one with its key; one without a value takes that away.
func (b *blocks) put(row Row) error {
	if err := b.makeRoom(); err != nil {
		return err
	}
	before, err := b.get(row.Key)
	if err != nil || (before == nil) == (row.Value == nil) && bytes.Equal(before, row.Value) {
		return err
	}
	b.undo = append(b.undo, Row{row.Key, before})
	b.size += len(row.Key) + len(row.Value)
	return b.set(row)
}

func (b *blocks) set(row Row) error {
	x, err := b.find(row.Key, false)
	if err != nil {
		return err
	}
	if x.lower[0] != row.Key[0] {
		x = b.split(x, row.Key[:1])
	}
	at, found := x.search(row.Key)
	x.changed = true
	switch {
	case row.Value == nil && found:
		x.rows, x.shrunk = slices.Delete(x.rows, at, at+1), true
	case found:
		x.rows[at].Value = row.Value
	case row.Value != nil:
		x.appended = at == len(x.rows)
		x.rows = slices.Insert(x.rows, at, row)
		if !x.appended && len(x.rows) > mostRows {
			b.halve(x)
		}
	}
	return nil
}

// mostRows is how many rows a block has in memory when one more comes between them: each
// that does moves those behind it.
const mostRows = 256

// halve makes two blocks of one, into which more rows came than will be kept together.
func (b *blocks) halve(x *block) {
	middle := len(x.rows) / 2
	upper := &block{lower: x.rows[middle].Key, upper: x.upper, rows: slices.Clone(x.rows[middle:]), changed: true}
	x.rows, x.upper = slices.Clip(x.rows[:middle]), upper.lower
	b.insert(upper)
}

// split gives a table that has no rows yet a block of its own, at the end of the
// one that covers its keys.
func (b *blocks) split(before *block, first []byte) *block {
	x := &block{lower: first, upper: before.upper, changed: true}
	before.upper, before.changed = first, true
	b.insert(x)
	b.last = x
	return x
}

// scan calls each with the rows of a span in order until it returns false. Rows
// of other tables than that of the span may be changed meanwhile.
func (b *blocks) scan(span Span, each func(Row) (bool, error)) error {
	at, below := span.From, false
	if span.Down {
		at, below = span.Before, true
	}
	for {
		if err := b.makeRoom(); err != nil {
			return err
		}
		x, err := b.find(at, below)
		if err != nil {
			return err
		}
		from, _ := x.search(span.From)
		before := len(x.rows)
		if span.Before != nil {
			before, _ = x.search(span.Before)
		}
		rows := x.rows[from:max(from, before)]
		for i := range rows {
			row := rows[i]
			if span.Down {
				row = rows[len(rows)-1-i]
			}
			if more, err := each(row); err != nil || !more {
				return err
			}
		}
		if at = x.upper; span.Down {
			at = x.lower
		}
		if span.Down && bytes.Compare(at, span.From) <= 0 || !span.Down && (at == nil || span.Before != nil && bytes.Compare(at, span.Before) >= 0) {
			return nil
		}
	}
}

// flush writes the blocks that have changed.
func (b *blocks) flush() error {
	if err := b.join(); err != nil {
		return err
	}
	var put []Row
	for i := 0; i < len(b.cached); i++ {
		x := b.cached[i]
		if !x.changed {
			continue
		}
		pieces := x.pieces()
		if x.changed, x.shrunk = false, false; len(pieces) == 1 && x.kept && x.sum == pieces[0].sum {
			continue // as it was
		}
		if x.kept {
			b.total.remove(x.sum)
		}
		lower, rows := x.lower, x.rows
		var parts []*block
		for _, p := range pieces {
			put = append(put, Row{lower, p.value})
			parts = append(parts, &block{lower: lower, upper: p.upper, rows: slices.Clip(rows[:p.rows]), sum: p.sum, kept: true})
			b.total.add(p.sum)
			lower, rows = p.upper, rows[p.rows:]
		}
		b.cached = slices.Replace(b.cached, i, i+1, parts...)
		i += len(parts) - 1
	}
	b.last = nil
	if len(put) == 0 {
		return nil
	}
	return b.in.Put(put...)
}

// join puts the rows of blocks that have become small into the block before, where
// that has room.
func (b *blocks) join() error {
	var small []*block
	for _, x := range b.cached {
		if x.shrunk && len(x.lower) > 1 && x.sizeOf() < smallBlock {
			small = append(small, x)
		}
	}
	var gone [][]byte
	for _, x := range small {
		before, err := b.find(x.lower, true)
		if err != nil {
			return err
		}
		if before.lower[0] != x.lower[0] || before.sizeOf()+x.sizeOf() > fullBlock-smallBlock {
			continue
		}
		before.rows = append(before.rows, x.rows...)
		before.upper, before.changed = x.upper, true
		at := slices.Index(b.cached, x)
		b.cached = slices.Delete(b.cached, at, at+1)
		if b.last = before; x.kept {
			b.total.remove(x.sum)
			gone = append(gone, x.lower)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return b.in.Delete(gone...)
}

// sizeOf is about as many bytes as the block takes.
func (b *block) sizeOf() (size int) {
	for i := range b.rows {
		size += len(b.rows[i].Key)/2 + len(b.rows[i].Value) + 3
	}
	return size
}
